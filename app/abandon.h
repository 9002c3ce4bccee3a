// SPDX-License-Identifier: Apache-2.0
// Ctrl-C while one kernel runs for seconds: the request cannot look at its token until the kernel ends. Commands that leave
// nothing behind end the process then, with the same JSON object as ever.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "core/base/cancel.h"

namespace spscope::app {

class Abandon {
 public:
  /// `give_up` runs on a thread of its own 0.7 s after the token was set, unless arrived() came first; it must end the
  /// process.
  Abandon(CancelToken token, std::function<void()> give_up);
  ~Abandon();
  Abandon(const Abandon&) = delete;
  Abandon& operator=(const Abandon&) = delete;
  /// The request has returned: results are written now. Does not return where the process is being given up.
  void arrived();

 private:
  std::atomic<bool> decided_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace spscope::app
