// SPDX-License-Identifier: Apache-2.0
#include "core/dist/interrupt.h"

#include <signal.h>

#include <atomic>

namespace spscope::dist {
namespace {

const CancelToken* g_token = nullptr;
std::atomic<int> g_signals{0};
std::atomic<std::atomic<bool>*> g_pause{nullptr};
struct sigaction g_before_int, g_before_term, g_before_hup;

void onSignal(int signal) {
  if (std::atomic<bool>* const pause = g_pause.load(); signal == SIGINT && pause != nullptr && !pause->exchange(true)) return;
  if (g_signals.fetch_add(1) == 0) {
    if (g_token != nullptr) g_token->cancel();  // one atomic store
    return;
  }
  ::signal(signal, SIG_DFL);
  raise(signal);
}

sigset_t interrupts() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  return set;
}

}  // namespace

void holdInterrupts() {
  const sigset_t set = interrupts();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void takeInterrupts() {
  const sigset_t set = interrupts();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void ignoreBrokenPipes() {
  struct sigaction now {};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL) signal(SIGPIPE, SIG_IGN);
}

InterruptGuard::InterruptGuard(CancelToken token) {
  g_token = new CancelToken(std::move(token));
  g_signals = 0;
  struct sigaction action {};
  action.sa_handler = onSignal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &g_before_int);
  sigaction(SIGTERM, &action, &g_before_term);
  sigaction(SIGHUP, nullptr, &g_before_hup);
  if (g_before_hup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // nohup stays what it is
  takeInterrupts();
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &g_before_int, nullptr);
  sigaction(SIGTERM, &g_before_term, nullptr);
  sigaction(SIGHUP, &g_before_hup, nullptr);
  delete g_token;
  g_token = nullptr;
}

PauseGuard::PauseGuard(std::atomic<bool>& flag) { g_pause = &flag; }
PauseGuard::~PauseGuard() { g_pause = nullptr; }

}  // namespace spscope::dist
