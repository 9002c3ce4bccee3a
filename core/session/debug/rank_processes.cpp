// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/rank_processes.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/strings.h"
#include "core/ir/text.h"
#include "core/session/debug_rank.h"

namespace spscope::session::debug {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{100};
constexpr milliseconds kCause{6000};     ///< so long may the launcher take to find out why a line has ended
constexpr milliseconds kFarewell{3000}; ///< so long may ranks take to leave when they are told to
constexpr std::int64_t kMs = 1'000'000;

}  // namespace

Result<std::unique_ptr<RankProcesses>> RankProcesses::start(const RunRequest& what, const std::vector<std::shared_ptr<const ir::Graph>>& programs, const Request& request) {
  SP_TRY(checkTransport(what.ranks));
  auto out = std::unique_ptr<RankProcesses>(new RankProcesses());
  out->deadline_ = milliseconds(static_cast<std::int64_t>(what.timeout_seconds * 1e3));
  dist::LaunchSpec spec;
  spec.program = what.program.empty() ? rankProgram() : what.program;
  spec.arguments = {"rank"};
  spec.ranks = static_cast<int>(programs.size());
  spec.threads = what.settings.threads;
  spec.request = debugRequest(what);
  spec.stall_timeout = stallAfter(what);  // a rank that stands has all the time there is
  spec.cancel = out->end_;
  spec.cancel_grace = milliseconds(500);  // nothing is saved
  for (std::size_t r = 0; r < programs.size(); ++r) {
    SP_ASSIGN(const auto ends, dist::ControlLine::pair());
    out->lines_.push_back(std::make_unique<dist::ControlLine>(ends.first));
    spec.controls.push_back(ends.second);
  }
  RankProcesses* const self = out.get();
  const auto started = std::make_shared<std::atomic<bool>>(false);
  spec.on_started = [self, started](const std::vector<int>& pids) {
    self->pids_ = pids;
    *started = true;
  };
  const std::vector<int> controls = spec.controls;
  try {
    out->launcher_ = std::thread([self, spec = std::move(spec), started] {
      sigset_t all;  // signals belong to the program's own threads
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, nullptr);
      auto run = dist::launch(spec);
      std::optional<Error> why;
      if (!run) why = std::move(run).error();
      else if (run->failure) why = run->failure->toError(run->ranks);
      else why = makeError("cancelled", "the ranks have been ended", Outcome::kNo);
      {
        const std::lock_guard lock(self->mutex_);
        self->why_ = why;
      }
      self->ended_ = true;
      *started = true;
      if (run && run->failure && !self->end_.cancelled()) log::error("ranks", why->message);  // nobody may be asking just now
    });
  } catch (const std::system_error& e) {
    for (const int fd : controls) close(fd);
    return makeError("rank-start", strf("cannot start a thread: %s", e.what()), Outcome::kRunFailed);
  }
  // The launcher sends SPSCOPE_CONTROL's other end on; with its copy here closed, a line ends when its rank does.
  while (!*started) std::this_thread::sleep_for(milliseconds(1));
  for (const int fd : controls) close(fd);
  request.report("start ranks", 0, out->size());
  if (Status ready = out->awaitReady(programs, request); !ready) {
    if (!out->gone()) out->abandon(ready.error());
    return std::move(ready).error();
  }
  return out;
}

Status RankProcesses::awaitReady(const std::vector<std::shared_ptr<const ir::Graph>>& programs, const Request& request) {
  for (int r = 0; r < size(); ++r) SP_TRY(tell(r, {"program", {}}, ir::printGraph(*programs[static_cast<std::size_t>(r)])));
  for (int count = 0; count < size();) {
    SP_TRY(request.cancel.check());
    SP_ASSIGN(const auto said, news(kTick));  // the launcher sees to it that this ends
    if (!said) continue;
    const dist::Message& m = said->packet.head;
    if (m.kind != "ready" || m.at("version") != rankVersion())
      return makeError("internal", strf("rank %d is another version of this program", said->rank), Outcome::kRunFailed);
    request.report("start ranks", ++count, size());
  }
  return {};
}

RankProcesses::~RankProcesses() {
  if (!ended_ && !abandoned_)
    for (auto& line : lines_) (void)line->send({"end", {}}, {}, milliseconds(100));
  const std::int64_t begin = monotonicNs();
  while (!ended_ && !abandoned_ && monotonicNs() - begin < kFarewell.count() * kMs) std::this_thread::sleep_for(milliseconds(2));
  end_.cancel();
  if (launcher_.joinable()) launcher_.join();  // it has a deadline of its own
}

std::optional<Error> RankProcesses::gone() {
  if (abandoned_) return abandoned_;
  if (!ended_) return {};
  const std::lock_guard lock(mutex_);
  return why_;
}

void RankProcesses::abandon(Error why) {
  abandoned_ = std::move(why);
  end_.cancel();
}

Error RankProcesses::causeOf(int rank, const Error& symptom) {
  const std::int64_t begin = monotonicNs();
  while (!ended_ && monotonicNs() - begin < kCause.count() * kMs) std::this_thread::sleep_for(milliseconds(5));
  if (auto cause = gone()) return *cause;
  Error out = makeError("rank-died", strf("rank %d: %s", rank, symptom.message.c_str()), Outcome::kRunFailed);
  abandon(out);
  return out;
}

Status RankProcesses::tell(int rank, const dist::Message& what, std::string_view body) {
  if (auto why = gone()) return *why;
  if (Status sent = lines_[static_cast<std::size_t>(rank)]->send(what, body, deadline_); !sent) return causeOf(rank, sent.error());
  return {};
}

Result<std::optional<RankProcesses::News>> RankProcesses::news(milliseconds wait) {
  // What is there already may lie in a line's own buffer, where poll() does not see it.
  for (int r = 0; r < size(); ++r) {
    auto packet = lines_[static_cast<std::size_t>(r)]->receive(milliseconds(0));
    if (!packet) return causeOf(r, packet.error());
    if (*packet) return std::optional(News{r, std::move(**packet)});
  }
  if (auto why = gone()) return *why;
  std::vector<pollfd> fds;
  for (const auto& line : lines_) fds.push_back({line->fd(), POLLIN, 0});
  if (poll(fds.data(), fds.size(), static_cast<int>(wait.count())) <= 0) return std::optional<News>();
  for (int r = 0; r < size(); ++r) {
    if (fds[static_cast<std::size_t>(r)].revents == 0) continue;
    auto packet = lines_[static_cast<std::size_t>(r)]->receive(milliseconds(0));
    if (!packet) return causeOf(r, packet.error());
    if (*packet) return std::optional(News{r, std::move(**packet)});
  }
  return std::optional<News>();
}

Result<std::vector<dist::Packet>> RankProcesses::answersOf(const std::vector<bool>& told, const CancelToken& cancel) {
  std::vector<dist::Packet> out(told.size());
  std::vector<bool> waits = told;
  std::optional<Error> refused;
  const std::int64_t begin = monotonicNs();
  while (std::find(waits.begin(), waits.end(), true) != waits.end()) {
    if (monotonicNs() - begin > deadline_.count() * kMs) {
      const auto silent = static_cast<std::size_t>(std::find(waits.begin(), waits.end(), true) - waits.begin());
      const Error error = makeError("rank-stalled", strf("rank %zu (process %d) did not answer within %g s", silent, pids_[silent], static_cast<double>(deadline_.count()) / 1e3), Outcome::kRunFailed);
      abandon(error);
      return error;
    }
    SP_ASSIGN(auto heard, news(kTick));
    if (!heard || heard->packet.head.kind == "pong") {  // that one is late: the rank had stopped by then
      SP_TRY(cancel.check());
      continue;
    }
    const auto r = static_cast<std::size_t>(heard->rank);
    if (!waits[r]) return makeError("internal", strf("rank %zu speaks out of turn (%s)", r, heard->packet.head.kind.c_str()), Outcome::kRunFailed);
    waits[r] = false;
    if (heard->packet.head.kind == "error" && !refused) refused = dist::toError(heard->packet.head);
    out[r] = std::move(heard->packet);
  }
  if (refused) return *refused;
  return out;
}

Result<dist::Packet> RankProcesses::ask(int rank, const dist::Message& what, const CancelToken& cancel) {
  SP_TRY(tell(rank, what));
  std::vector<bool> told(lines_.size(), false);
  told[static_cast<std::size_t>(rank)] = true;
  SP_ASSIGN(std::vector<dist::Packet> answers, answersOf(told, cancel));
  return std::move(answers[static_cast<std::size_t>(rank)]);
}

Result<std::vector<dist::Packet>> RankProcesses::askAll(const std::vector<dist::Message>& what, const CancelToken& cancel) {
  for (int r = 0; r < size(); ++r) SP_TRY(tell(r, what[static_cast<std::size_t>(r)]));
  return answersOf(std::vector<bool>(lines_.size(), true), cancel);
}

}  // namespace spscope::session::debug
