// SPDX-License-Identifier: Apache-2.0
#include "core/dist/launcher.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <thread>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/strings.h"
#include "core/dist/call_dump.h"
#include "core/dist/environment.h"
#include "core/dist/run_directory.h"
#include "core/dist/spawn.h"

namespace spscope::dist {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kMs = 1'000'000;
constexpr int kPollMs = 20;
constexpr std::size_t kLogLines = 20;
/// Symptoms (a lost connection) may be seen before their cause (the death of the peer): wait this long for the cause.
constexpr std::int64_t kEvidenceNs = 300 * kMs;
constexpr std::int64_t kTermToKillNs = 1000 * kMs;
/// A process that the kernel does not let die (it waits for a dead file server, say) is given up.
constexpr std::int64_t kKillToGiveUpNs = 2000 * kMs;
constexpr std::int64_t kWaitingExtraNs = 2000 * kMs;
/// To be loaded and started: no matter of the run's own deadlines.
constexpr std::int64_t kStartNs = 60'000 * kMs;
/// A rank that makes no progress for this share of its deadline is spoken of.
constexpr int kNoticeShare = 4;
constexpr std::int64_t kNoticeNs = 5000 * kMs;  ///< but not before
constexpr std::int64_t kTellRanksNs = 100 * kMs;

struct Rank {
  RankRecord record;
  RankState state = RankState::detached();
  int fd = -1;
  std::string unread;          ///< of the line: what is not yet a whole message
  std::int64_t progress = -1;  ///< the last one seen, and when
  std::int64_t progress_ns = 0;
  bool noticed = false;        ///< it was said that there is none
};

class Supervisor {
 public:
  Supervisor(const LaunchSpec& spec, const OnRankMessage& on_message) : spec_(spec), on_message_(on_message) {}
  ~Supervisor() {
    for (Rank& r : ranks_) {  // only where starting failed half-way: run() reaps everything
      if (r.fd >= 0) close(r.fd);
      if (r.record.pid > 0 && !r.record.ended) {
        kill(-r.record.pid, SIGKILL);
        for (int i = 0; i < 100 && waitpid(r.record.pid, nullptr, WNOHANG) == 0; ++i) std::this_thread::sleep_for(milliseconds(kPollMs));
      }
    }
  }

  Status start(const std::string& directory);
  void run();
  RunOutcome outcome(const std::string& directory);

 private:
  bool anyRunning() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return !r.record.ended; });
  }
  /// A rank that hangs has nothing to report, nor one that is still being loaded: once the others have, they need not be
  /// waited for.
  bool nobodyHasMoreToSay() const {
    if (culprit_ < 0) return false;
    for (const Rank& r : ranks_) {
      const bool silent = (r.record.rank == culprit_ && !r.record.error) || r.state.snapshot().progress == 0;
      if (!r.record.ended && !silent) return false;
    }
    return true;
  }
  void waitForNews();
  void readFrom(Rank& r);
  void handle(Rank& r, const std::string& line);
  void reap(Rank& r);
  void checkProgress(Rank& r, std::int64_t now);
  void speakOfDelay(Rank& r, const RankSnapshot& s, std::int64_t silent_ns);
  void noticeFailure();
  void tellAll(std::int64_t now);
  void signalAll(int signal);
  void stopInTime(std::int64_t now);
  void tellRanks(std::int64_t now) const;

  const LaunchSpec& spec_;
  const OnRankMessage& on_message_;
  std::vector<Rank> ranks_;
  std::int64_t started_ns_ = 0;
  std::int64_t ranks_told_ns_ = 0;  ///< when on_ranks was called last
  bool cancelled_ = false;
  std::int64_t failed_ns_ = 0;  ///< when the first failure, of whichever kind, was noticed; 0: none
  std::int64_t told_ns_ = 0;    ///< when the ranks were asked to stop
  std::int64_t termed_ns_ = 0;  ///< when SIGTERM was sent
  std::int64_t killed_ns_ = 0;  ///< when SIGKILL was
  int culprit_ = -1;            ///< as far as was known when the ranks were asked to stop
};

Status Supervisor::start(const std::string& directory) {
  std::map<std::string, std::string> environment = spec_.environment;
  const auto offer = [&](const char* name, const std::string& value) {  // what the user has set stands
    if (!environment.contains(name) && !processEnv(name)) environment[name] = value;
  };
  if (spec_.threads > 0) environment["OMP_NUM_THREADS"] = std::to_string(spec_.threads);
  offer("OMP_NUM_THREADS", std::to_string(std::max(1, availableCores() / spec_.ranks)));
  offer("OMP_WAIT_POLICY", "passive");  // ranks that wait must not take the cores of those that compute
  offer("GOMP_SPINCOUNT", "0");
  environment["SPSCOPE_WORLD"] = std::to_string(spec_.ranks);
  environment["SPSCOPE_RUN_DIR"] = directory;
  started_ns_ = monotonicNs();
  ranks_.resize(static_cast<std::size_t>(spec_.ranks));
  for (int i = 0; i < spec_.ranks; ++i) {
    Rank& r = ranks_[static_cast<std::size_t>(i)];
    r.record.rank = i;
    r.record.log = logFile(directory, i);
    SP_ASSIGN(r.state, RankState::create(stateFile(directory, i)));
    environment["SPSCOPE_RANK"] = std::to_string(i);
    const int control = i < static_cast<int>(spec_.controls.size()) ? spec_.controls[static_cast<std::size_t>(i)] : -1;
    SP_ASSIGN(const Child child, spawn({spec_.program, spec_.arguments, environment, r.record.log, control}));
    r.record.pid = child.pid;
    r.fd = child.fd;
    r.progress_ns = started_ns_;
  }
  if (spec_.on_started) {
    std::vector<int> pids;
    for (const Rank& r : ranks_) pids.push_back(r.record.pid);
    spec_.on_started(pids);
  }
  return {};
}

void Supervisor::run() {
  while (anyRunning()) {
    waitForNews();
    const std::int64_t now = monotonicNs();
    if (killed_ns_ != 0 && now - killed_ns_ > kKillToGiveUpNs) return;
    for (Rank& r : ranks_) {
      reap(r);
      checkProgress(r, now);
    }
    noticeFailure();
    stopInTime(now);
    if (spec_.on_ranks && now - ranks_told_ns_ >= kTellRanksNs) {
      ranks_told_ns_ = now;
      tellRanks(now);
    }
  }
  if (spec_.on_ranks) tellRanks(monotonicNs());
}

void Supervisor::tellRanks(std::int64_t now) const {
  std::vector<RankRecord> records;
  for (const Rank& r : ranks_) {
    RankRecord& record = records.emplace_back(r.record);
    if (!record.ended) record.last = r.state.snapshot();
    record.silent_ns = record.ended || record.last.heartbeat_ns == 0 ? 0 : std::max<std::int64_t>(0, now - record.last.heartbeat_ns);
  }
  spec_.on_ranks(records);
}

void Supervisor::waitForNews() {
  std::vector<pollfd> fds;
  for (const Rank& r : ranks_)
    if (r.fd >= 0) fds.push_back({r.fd, POLLIN, 0});
  // Ends of processes are polled: without a handler for SIGCHLD (the program's own business) nothing announces them all.
  if (fds.empty())
    std::this_thread::sleep_for(milliseconds(kPollMs));
  else
    poll(fds.data(), fds.size(), kPollMs);
  for (Rank& r : ranks_) readFrom(r);
}

void Supervisor::readFrom(Rank& r) {
  char buffer[16 * 1024];
  while (r.fd >= 0) {
    const ssize_t n = recv(r.fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {  // the rank has closed its end: it has ended, or is about to
      close(r.fd);
      r.fd = -1;
      return;
    }
    r.unread.append(buffer, static_cast<std::size_t>(n));
    std::size_t begin = 0;
    for (std::size_t end; (end = r.unread.find('\n', begin)) != std::string::npos; begin = end + 1)
      handle(r, r.unread.substr(begin, end - begin));
    r.unread.erase(0, begin);
  }
}

void Supervisor::handle(Rank& r, const std::string& line) {
  const auto message = Message::decode(line);
  if (!message) {
    log::warning("ranks", strf("rank %d sent what is not a message: %.80s", r.record.rank, line.c_str()));
    return;
  }
  if (message->kind == "done") r.record.done = true;
  if (message->kind == "error" && !r.record.error) {
    r.record.error = toError(*message);
    r.record.error_ns = monotonicNs();
  }
  if (on_message_) on_message_(r.record.rank, *message);
}

void Supervisor::reap(Rank& r) {
  if (r.record.ended) return;
  int status = 0;
  if (waitpid(r.record.pid, &status, WNOHANG) != r.record.pid) return;
  readFrom(r);  // its last words came before its end
  r.record.ended = true;
  r.record.ended_ns = monotonicNs();
  if (WIFSIGNALED(status)) {
    r.record.signal = WTERMSIG(status);
    r.record.asked_to_stop = termed_ns_ != 0 && (r.record.signal == SIGTERM || r.record.signal == SIGKILL);
  } else {
    r.record.exit_code = WEXITSTATUS(status);
    // A rank that stops on request exits with 0, or says why it does not.
    r.record.asked_to_stop = told_ns_ != 0 && r.record.exit_code == 0;
  }
  if (!r.record.asked_to_stop) {
    r.record.last = r.state.snapshot();
    r.record.calls = r.state.calls();
    r.record.calls_ns = wallNs();
  }
  kill(-r.record.pid, SIGKILL);  // what it has started and left behind
}

void Supervisor::checkProgress(Rank& r, std::int64_t now) {
  if (r.record.ended || r.record.done || told_ns_ != 0 || spec_.stall_timeout.count() == 0) return;
  const RankSnapshot s = r.state.snapshot();
  if (s.progress != r.progress) {
    r.progress = s.progress;
    r.progress_ns = now;
    r.noticed = false;
    return;
  }
  std::int64_t allowed = spec_.stall_timeout.count() * kMs * s.patience + (s.inside_collective ? kWaitingExtraNs : 0);
  if (s.progress == 0) allowed = std::max(allowed, kStartNs);  // it is being loaded
  const std::int64_t silent = now - r.progress_ns;
  if (silent > allowed && !r.record.stalled) {
    r.record.stalled = true;
    r.record.stalled_ns = now;
  } else if (silent > std::max(allowed / kNoticeShare, kNoticeNs) && !r.noticed) {
    r.noticed = true;
    if (!s.inside_collective) speakOfDelay(r, s, silent);  // those that wait for it are not the news
  }
}

void Supervisor::speakOfDelay(Rank& r, const RankSnapshot& s, std::int64_t silent_ns) {
  std::vector<std::string> waiting;
  for (const Rank& other : ranks_)
    if (const RankSnapshot o = other.state.snapshot(); !other.record.ended && o.inside_collective)
      waiting.push_back(strf("%d (%s #%lld)", other.record.rank, o.collective.c_str(), static_cast<long long>(o.sequence)));
  std::string at = s.phase;
  if (s.phase == "step") at = strf("step %lld, %s", static_cast<long long>(s.step), s.node.c_str());
  log::warning("ranks", strf("rank %d has been at the same place for %.0f s: %s%s%s", r.record.rank, static_cast<double>(silent_ns) / 1e9,
                             at.c_str(), waiting.empty() ? "" : "; waiting for others: rank ", join(waiting, ", ").c_str()));
}

/// Freezes the picture at the first sign of trouble: later, ranks that were late may have moved on.
void Supervisor::noticeFailure() {
  if (failed_ns_ != 0 || cancelled_) return;
  for (const Rank& r : ranks_) {
    const bool died = r.record.ended && !r.record.asked_to_stop && !(r.record.done && r.record.exit_code == 0);
    if (!died && !r.record.error && !r.record.stalled) continue;
    failed_ns_ = monotonicNs();
    for (Rank& other : ranks_)
      if (!other.record.ended) {
        other.record.last = other.state.snapshot();
        other.record.calls = other.state.calls();
        other.record.calls_ns = wallNs();
        if (other.record.last.heartbeat_ns != 0) other.record.silent_ns = failed_ns_ - other.record.last.heartbeat_ns;
      }
    return;
  }
}

void Supervisor::tellAll(std::int64_t now) {
  told_ns_ = now;
  for (const Rank& r : ranks_)
    if (r.fd >= 0) (void)send(r.fd, "c", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Supervisor::signalAll(int signal) {
  for (const Rank& r : ranks_)
    if (!r.record.ended) kill(-r.record.pid, signal);
}

void Supervisor::stopInTime(std::int64_t now) {
  if (told_ns_ == 0 && failed_ns_ == 0 && spec_.cancel.cancelled()) {
    cancelled_ = true;
    tellAll(now);
  }
  if (told_ns_ == 0 && failed_ns_ != 0) {
    std::vector<RankRecord> records;
    for (const Rank& r : ranks_) records.push_back(r.record);
    const int i = firstAtFault(records);
    const bool cause_known = i >= 0 && (ranks_[static_cast<std::size_t>(i)].record.ended || records[static_cast<std::size_t>(i)].error);
    if (cause_known || now - failed_ns_ > kEvidenceNs) {
      culprit_ = i;
      tellAll(now);
    }
  }
  if (told_ns_ != 0 && termed_ns_ == 0 &&
      (now - told_ns_ > (cancelled_ ? spec_.cancel_grace : spec_.grace).count() * kMs || nobodyHasMoreToSay())) {
    termed_ns_ = now;
    signalAll(SIGTERM);
  }
  if (termed_ns_ != 0 && killed_ns_ == 0 && now - termed_ns_ > kTermToKillNs) {
    killed_ns_ = now;
    signalAll(SIGKILL);
  }
}

RunOutcome Supervisor::outcome(const std::string& directory) {
  RunOutcome out;
  out.cancelled = cancelled_;
  out.directory = directory;
  out.seconds = static_cast<double>(monotonicNs() - started_ns_) / 1e9;
  for (Rank& r : ranks_) {
    if (r.fd >= 0) close(r.fd);
    r.fd = -1;
    r.record.last_lines = lastLines(r.record.log, kLogLines);
    if (!r.record.ended) log::error("ranks", strf("rank %d (process %d) does not end: the kernel holds it", r.record.rank, r.record.pid));
    if (failed_ns_ == 0) r.record.last = r.state.snapshot();
    out.ranks.push_back(r.record);
  }
  if (failed_ns_ == 0) return out;
  const int index = std::max(0, firstAtFault(out.ranks));
  const RankRecord& r = out.ranks[static_cast<std::size_t>(index)];
  if (r.ended && !r.asked_to_stop)  // it cannot move on any more: what the others came to later only says better where they waited for it
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      if (out.ranks[i].rank != r.rank) out.ranks[i].calls = ranks_[i].state.calls(), out.ranks[i].calls_ns = wallNs();
  RunFailure failure;
  failure.rank = r.rank;
  failure.exit_code = r.exit_code;
  failure.signal = r.signal;
  failure.log = r.log;
  failure.last_lines = r.last_lines;
  failure.node = r.error && !r.error->node.empty() ? r.error->node : r.last.node;
  if (r.error)
    failure.error = *r.error;
  else
    failure.error = makeError(r.stalled || !r.ended || r.asked_to_stop ? "rank-stalled" : "rank-died",
                              strf("rank %d: %s", r.rank, describeFault(out.ranks, index).c_str()), Outcome::kRunFailed);
  if (failure.error.code == "rank-stalled" && failure.error.remedy.empty())
    failure.error.remedy = (failure.node.empty() ? strf("See what rank %d did last (its log); ", r.rank) : strf("See node %s, the last one of rank %d; ", failure.node.c_str(), r.rank)) + "--timeout SECONDS allows more.";
  out.failure = std::move(failure);
  return out;
}

}  // namespace

Error RunFailure::toError(const std::vector<RankRecord>& ranks) const {
  Error out = error;
  out.outcome = Outcome::kRunFailed;
  out.node = node;
  out.notes.push_back(strf("rank %d failed first; its output is in %s", rank, log.c_str()));
  for (const std::string& line : last_lines) out.notes.push_back("| " + line);
  for (const std::string& line : split(formatTable(ranks), '\n'))
    if (!line.empty()) out.notes.push_back(line);
  return out;
}

Result<RunOutcome> launch(const LaunchSpec& spec, const OnRankMessage& on_message) {
  SP_ASSIGN(RunDirectory directory, RunDirectory::create());
  std::optional<Supervisor> supervisor(std::in_place, spec, on_message);
  Status started = writeText(requestFile(directory.path()), spec.request);
  if (started) started = supervisor->start(directory.path());
  if (!started) {
    supervisor.reset();  // ends those that run already
    directory.remove();
    return started.error();
  }
  supervisor->run();
  RunOutcome out = supervisor->outcome(directory.path());
  if (out.failure) {
    directory.keepLogs();
    (void)writeCallDumps(directory.path(), out.ranks);
    (void)writeText(directory.path() + "/failure.log", out.failure->toError(out.ranks).format() + "\n");
  } else if (!spec.keep_directory) {
    directory.remove();
    out.directory.clear();
  }
  return out;
}

int availableCores() {
  cpu_set_t set;
  int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  std::ifstream quota("/sys/fs/cgroup/cpu.max");
  double limit = 0, period = 0;
  if (quota >> limit >> period && period > 0) cores = std::min(cores, static_cast<int>(limit / period));  // "max" is no number
  return std::max(1, cores);
}

}  // namespace spscope::dist
