// SPDX-License-Identifier: Apache-2.0
// A stand-in for the window's thread in tests of the view-models.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

#include "ui/model/state/job_queue.h"

namespace spscope::ui {

/// The window's thread: what is posted runs when the test pumps.
class Pump {
 public:
  Post post() {
    return [this](std::function<void()> f) {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(f));
      wake_.notify_one();
    };
  }
  /// Until the condition holds; false after a minute.
  template <typename F>
  bool until(F&& condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      std::function<void()> next;
      {
        std::unique_lock lock(mutex_);
        if (!wake_.wait_until(lock, limit, [&] { return !queue_.empty(); })) return false;
        next = std::move(queue_.front());
        queue_.pop_front();
      }
      next();
    }
    return true;
  }
 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
};

}  // namespace spscope::ui
