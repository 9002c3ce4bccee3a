// SPDX-License-Identifier: Apache-2.0
#include "core/dist/control_line.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>

#include "core/base/strings.h"
#include "core/dist/environment.h"

namespace spscope::dist {
namespace {

/// In front of every message: what it is, and how long its two parts are. Both sides are the same program on one machine.
struct Prefix {
  std::array<char, 8> magic = {'s', 'p', 'c', 't', 'r', 'l', '1', '\n'};
  std::uint64_t head = 0, body = 0;
};
static_assert(sizeof(Prefix) == 24);
constexpr std::uint64_t kHeadLimit = std::uint64_t{1} << 24, kBodyLimit = std::uint64_t{1} << 42;

Error lost(const std::string& why) { return makeError("control-lost", "the other side of a rank's control line has gone" + (why.empty() ? "" : ": " + why), Outcome::kRunFailed); }

/// Whether something can be done with the socket within `wait`.
Result<bool> ready(int fd, short events, std::chrono::milliseconds wait) {
  pollfd p{fd, events, 0};
  const int n = poll(&p, 1, static_cast<int>(wait.count()));
  if (n < 0 && errno != EINTR) return lost(std::strerror(errno));
  return n > 0;
}

}  // namespace

ControlLine::ControlLine(ControlLine&& other) noexcept : fd_(std::exchange(other.fd_, -1)), unread_(std::move(other.unread_)) {}

ControlLine::~ControlLine() {
  if (fd_ >= 0) close(fd_);
}

Result<std::pair<int, int>> ControlLine::pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return makeError("rank-start", strf("cannot make a line to a rank: %s", std::strerror(errno)), Outcome::kRunFailed);
  return std::pair(ends[0], ends[1]);
}

Result<ControlLine> ControlLine::attach() {
  const auto text = processEnv("SPSCOPE_CONTROL");
  int fd = -1;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), fd).ec != std::errc() || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
    return makeError("launch-env", "the control line (SPSCOPE_CONTROL) is not open", Outcome::kUsage);
  return ControlLine(fd);
}

Status ControlLine::send(const Message& head, std::string_view body, std::chrono::milliseconds silence) {
  const std::string text = head.encode();
  Prefix prefix;
  prefix.head = text.size();
  prefix.body = body.size();
  std::string begin(reinterpret_cast<const char*>(&prefix), sizeof prefix);
  begin += text;
  const std::lock_guard lock(send_mutex_);
  for (const std::string_view part : {std::string_view(begin), body}) {
    for (std::size_t sent = 0; sent < part.size();) {
      const ssize_t n = ::send(fd_, part.data() + sent, part.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) {
        sent += static_cast<std::size_t>(n);
        continue;
      }
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno != EAGAIN) return lost(std::strerror(errno));
      SP_ASSIGN(const bool can, ready(fd_, POLLOUT, silence));
      if (!can) return makeError("control-timeout", strf("the other side of a rank's control line took nothing for %lld s", static_cast<long long>(silence.count() / 1000)), Outcome::kRunFailed);
    }
  }
  return {};
}

Result<bool> ControlLine::fill(std::size_t bytes, std::chrono::milliseconds wait) {
  std::array<char, 64 * 1024> buffer;
  while (unread_.size() < bytes) {
    const ssize_t n = recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n > 0) {
      unread_.append(buffer.data(), static_cast<std::size_t>(n));
      continue;
    }
    if (n == 0) return lost("");
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return lost(std::strerror(errno));
    const bool begun = !unread_.empty();
    SP_ASSIGN(const bool more, ready(fd_, POLLIN, begun ? kSilence : wait));
    if (more) continue;
    if (!begun) return false;
    return makeError("control-timeout", "a message on a rank's control line stopped in the middle", Outcome::kRunFailed);
  }
  return true;
}

Result<std::optional<Packet>> ControlLine::receive(std::chrono::milliseconds wait) {
  SP_ASSIGN(const bool any, fill(sizeof(Prefix), wait));
  if (!any) return std::optional<Packet>();
  Prefix prefix;
  std::memcpy(&prefix, unread_.data(), sizeof prefix);
  const auto garbage = [] { return makeError("control-garbage", "a rank's control line holds what is no message", Outcome::kRunFailed); };
  if (prefix.magic != Prefix().magic || prefix.head > kHeadLimit || prefix.body > kBodyLimit) return garbage();
  const std::size_t body_at = sizeof prefix + prefix.head, end = body_at + prefix.body;
  SP_TRY(fill(end, kSilence));
  auto head = Message::decode(std::string_view(unread_).substr(sizeof prefix, prefix.head));
  if (!head) return garbage();
  Packet packet{std::move(*head), unread_.substr(body_at, prefix.body)};
  unread_.erase(0, end);
  return std::optional(std::move(packet));
}

}  // namespace spscope::dist
