// SPDX-License-Identifier: Apache-2.0
#include "core/dist/rank_reporter.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <new>
#include <system_error>

#include "core/base/clock.h"
#include "core/base/strings.h"
#include "core/dist/environment.h"
#include "core/dist/interrupt.h"
#include "core/dist/run_directory.h"

namespace spscope::dist {
namespace {
constexpr int kHeartbeatMs = 200;
}  // namespace

Result<std::unique_ptr<RankReporter>> RankReporter::attach() {
  SP_ASSIGN(const ChildEnvironment env, childEnvironment());
  if (fcntl(env.fd, F_SETFD, FD_CLOEXEC) != 0)
    return makeError("launch-env", "the line to the launcher (SPSCOPE_FD) is not open", Outcome::kUsage);
  SP_ASSIGN(RankState state, RankState::open(stateFile(env.directory, env.rank)));
  // The second line of defence only: it fires when the launcher's *thread* ends, and not at all after a second fork.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto reporter = std::unique_ptr<RankReporter>(
      new RankReporter(env.rank, env.size, env.directory, env.fd, std::move(state)));
  reporter->phase("starting");
  try {
    reporter->watcher_ = std::thread([watched = reporter.get()] { watched->watch(); });
  } catch (const std::system_error& e) {
    Error error = makeError("rank-start", strf("rank %d cannot start a thread: %s", env.rank, e.what()), Outcome::kRunFailed);
    error.remedy = "The limit of processes and threads is reached: ulimit -u, or pids.max of the control group.";
    reporter->reportError(error);
    return error;
  }
  return reporter;
}

std::unique_ptr<RankReporter> RankReporter::detached(int rank, int size) {
  return std::unique_ptr<RankReporter>(new RankReporter(rank, size, "", -1, RankState::detached()));
}

RankReporter::RankReporter(int rank, int size, std::string directory, int fd, RankState state)
    : rank_(rank), size_(size), directory_(std::move(directory)), fd_(fd), state_(std::move(state)) {
  ignoreBrokenPipes();
}

RankReporter::~RankReporter() {
  stop_ = true;
  if (watcher_.joinable()) watcher_.join();
  if (fd_ >= 0) close(fd_);
}

std::string RankReporter::request() const {
  if (directory_.empty()) return {};
  std::ifstream in(requestFile(directory_), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void RankReporter::watch() {
  // Signals belong to the program's own threads.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  while (!stop_) {
    state_.block().heartbeat_ns.store(monotonicNs(), std::memory_order_relaxed);
    pollfd p{fd_, POLLIN, 0};
    if (poll(&p, 1, kHeartbeatMs) <= 0) continue;
    char bytes[16];
    const ssize_t n = recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0)
      cancel_.cancel();
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
      _exit(kOrphanExit);  // no handlers, no destructors: they might wait for other ranks
  }
}

void RankReporter::phase(std::string_view name, int patience) noexcept {
  state_.block().phase.set(name);
  state_.block().patience.store(patience, std::memory_order_relaxed);
  state_.block().progress.fetch_add(1, std::memory_order_relaxed);
}

void RankReporter::step(std::int64_t number) noexcept {
  state_.block().step.store(number, std::memory_order_relaxed);
  state_.block().progress.fetch_add(1, std::memory_order_relaxed);
}

void RankReporter::note(std::string_view node) noexcept {
  state_.block().node.set(node);
  state_.block().progress.fetch_add(1, std::memory_order_relaxed);
}

void RankReporter::collective(std::string_view op, std::int64_t sequence, bool inside) noexcept {
  RankBlock& block = state_.block();
  if (inside) block.collective.set(op);
  block.sequence.store(sequence, std::memory_order_relaxed);
  block.inside.store(inside, std::memory_order_relaxed);
  block.progress.fetch_add(1, std::memory_order_relaxed);
}

void RankReporter::call(const CallNotice& notice) noexcept {
  RankBlock& block = state_.block();
  if (!notice.inside) return block.calls.end(notice.group, notice.sequence);
  try {
    block.calls.begin(notice, block.node.get(), block.step.load(std::memory_order_relaxed));
  } catch (const std::bad_alloc&) {  // of the node's name: what the call does is told without it
    block.calls.begin(notice, {}, block.step.load(std::memory_order_relaxed));
  }
}

void RankReporter::send(const Message& message) {
  if (fd_ < 0) return;
  const std::string line = message.encode() + "\n";
  std::lock_guard lock(write_mutex_);
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t n = ::send(fd_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // the launcher has gone; the watcher ends the process
    sent += static_cast<std::size_t>(n);
  }
}

void RankReporter::reportError(Error error) {
  if (error.node.empty()) error.node = state_.snapshot().node;
  send(toMessage(error));
}

void RankReporter::done() { send({"done", {}}); }

}  // namespace spscope::dist
