// SPDX-License-Identifier: Apache-2.0
#include "app/progress.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "core/base/log.h"
#include "core/base/strings.h"

namespace spscope::app {

using namespace std::chrono_literals;

ProgressLine::ProgressLine(bool drawn) : drawn_(drawn), terminal_(::isatty(STDERR_FILENO) == 1) {
  if (!drawn_) return;
  sigset_t all, before;  // Ctrl-C is the main thread's
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { watch(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ProgressLine::~ProgressLine() { end(); }

void ProgressLine::show(const Progress& p) {
  const std::lock_guard lock(mutex_);
  if (p.what.empty()) {
    text_.clear();
    phase_.clear();
    printed_phase_.clear();
    if (std::exchange(shown_, false)) std::fputs("\r\033[K", stderr);
    std::fflush(stderr);
    return;
  }
  if (text_.empty()) since_ = std::chrono::steady_clock::now();
  if (!drawn_ && phase_ != p.what) log::info("progress", std::string(p.what));
  phase_ = p.what;
  text_ = p.total > 0 ? strf("%s %lld/%lld", phase_.c_str(), static_cast<long long>(p.done), static_cast<long long>(p.total)) : phase_;
}

void ProgressLine::end() {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (shown_) std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

void ProgressLine::print() {
  const auto taken = std::chrono::steady_clock::now() - since_;
  if (text_.empty() || taken < 1s) return;
  if (terminal_) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(taken).count();
    std::fprintf(stderr, "\r\033[K%s  %lld s", text_.substr(0, 90).c_str(), static_cast<long long>(seconds));
    std::fflush(stderr);
    shown_ = true;
  } else if (phase_ != printed_phase_) {
    std::fprintf(stderr, "%s ...\n", text_.c_str());
    printed_phase_ = phase_;
  }
}

void ProgressLine::watch() {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, 1s, [this] { return ended_; })) return;
  do print();
  while (!changed_.wait_for(lock, terminal_ ? 200ms : 1000ms, [this] { return ended_; }));
}

}  // namespace spscope::app
