// SPDX-License-Identifier: Apache-2.0
#include "app/dap/wire/connection.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "app/dap/wire/frame.h"

namespace spscope::app::dap {

using namespace std::chrono_literals;

namespace {

constexpr auto kUnread = 60s;
/// A pipe that can be written to takes so many bytes without making the writer wait (POSIX: PIPE_BUF is at least 512, here 4096).
constexpr std::size_t kAtOnce = 4096;
constexpr std::size_t kMostWaiting = 4096;  // requests in the line; a client that does not wait for answers must not eat the memory

}  // namespace

Connection::Connection(int in, int out, std::function<void(const Request&)> arrives) : in_(in), out_(out), arrives_(std::move(arrives)) {
  sigset_t all, before;  // signals are the main thread's
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  reader_ = std::thread([this] { read(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Connection::~Connection() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  reader_.join();
}

void Connection::read() {
  FrameReader frames;
  char block[1 << 16];
  while (!stop_ && !gone_) {
    pollfd ready{in_, POLLIN, 0};
    const int n = ::poll(&ready, 1, 100);
    if (n == 0 || (n < 0 && errno == EINTR)) continue;
    const ssize_t bytes = n < 0 ? -1 : ::read(in_, block, sizeof block);
    if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (bytes <= 0) break;
    frames.feed({block, static_cast<std::size_t>(bytes)});
    while (auto frame = frames.take()) {
      Request request;
      if (frame->fault) request.fault = std::move(frame->fault);
      else request = readRequest(frame->body);
      take(std::move(request));
    }
  }
  if (arrives_) arrives_({});
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
}

void Connection::take(Request request) {
  if (arrives_ && !request.fault) arrives_(request);
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return line_.size() < kMostWaiting || stop_; });
    line_.push_back(std::move(request));
  }
  changed_.notify_all();
}

std::optional<Request> Connection::next(std::chrono::milliseconds wait) {
  std::optional<Request> out;
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, wait, [this] { return !line_.empty() || over_; });
    if (line_.empty()) return {};
    out = std::move(line_.front());
    line_.pop_front();
  }
  changed_.notify_all();
  return out;
}

std::optional<Request> Connection::withdraw(std::int64_t seq) {
  std::optional<Request> out;
  {
    const std::lock_guard lock(mutex_);
    const auto at = std::find_if(line_.begin(), line_.end(), [&](const Request& r) { return !r.fault && r.seq == seq; });
    if (at == line_.end()) return {};
    out = std::move(*at);
    line_.erase(at);
  }
  changed_.notify_all();
  return out;
}

bool Connection::ended() const {
  const std::lock_guard lock(mutex_);
  return gone_ || (over_ && line_.empty());
}

void Connection::respond(const Request& request, Json body) {
  // Without a body some clients stumble, though most answers need none.
  if (body.is_null()) body = Json::object();
  send({{"type", "response"}, {"request_seq", request.seq}, {"success", true}, {"command", request.command}, {"body", std::move(body)}});
}

void Connection::refuse(const Request& request, const Error& error, std::string_view short_message) {
  // Clients show the format, with {name} replaced by variables; a text of ours must not be taken for one.
  send({{"type", "response"},
        {"request_seq", request.seq},
        {"success", false},
        {"command", request.command},
        {"message", std::string(short_message.empty() ? std::string_view(error.code) : short_message)},
        {"body", {{"error", {{"id", 1}, {"format", "{text}"}, {"variables", {{"text", error.format()}}}, {"showUser", true}}}}}});
}

void Connection::event(const char* name, Json body) {
  if (body.is_null()) body = Json::object();
  send({{"type", "event"}, {"event", name}, {"body", std::move(body)}});
}

void Connection::send(Json message) {
  const std::lock_guard lock(sending_);
  if (gone_) return;
  Json numbered = {{"seq", ++last_seq_}};
  numbered.update(message);
  write(framed(numbered.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

void Connection::write(const std::string& bytes) {
  auto until = std::chrono::steady_clock::now() + kUnread;
  for (std::size_t done = 0; done < bytes.size();) {
    pollfd ready{out_, POLLOUT, 0};
    const int n = ::poll(&ready, 1, 1000);
    if (std::chrono::steady_clock::now() > until || (n < 0 && errno != EINTR) || (n > 0 && (ready.revents & (POLLERR | POLLNVAL)))) {
      gone_ = true;
      changed_.notify_all();
      return;
    }
    if (n <= 0) continue;
    const ssize_t written = ::write(out_, bytes.data() + done, std::min(kAtOnce, bytes.size() - done));
    if (written < 0 && errno != EINTR && errno != EAGAIN) {
      gone_ = true;
      changed_.notify_all();
      return;
    }
    if (written <= 0) continue;
    done += static_cast<std::size_t>(written);
    until = std::chrono::steady_clock::now() + kUnread;
  }
}

}  // namespace spscope::app::dap
