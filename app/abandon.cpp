// SPDX-License-Identifier: Apache-2.0
#include "app/abandon.h"

#include <signal.h>
#include <unistd.h>

namespace spscope::app {

using namespace std::chrono_literals;

Abandon::Abandon(CancelToken token, std::function<void()> give_up) {
  sigset_t all, before;  // signals are the main thread's
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this, token = std::move(token), give_up = std::move(give_up)] {
    std::unique_lock lock(mutex_);
    while (!token.cancelled())
      if (changed_.wait_for(lock, 50ms, [this] { return over_; })) return;
    if (changed_.wait_for(lock, 700ms, [this] { return over_; })) return;
    if (!decided_.exchange(true)) give_up();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Abandon::arrived() {
  while (decided_.exchange(true)) ::pause();  // the other thread is writing the object and ends the process
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Abandon::~Abandon() {
  if (thread_.joinable()) arrived();
}

}  // namespace spscope::app
