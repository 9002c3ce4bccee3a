// SPDX-License-Identifier: Apache-2.0
// Progress for a person who waits: nothing in the first second; then, on a terminal, one line that is rewritten, and a
// plain line per phase otherwise. On standard error.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "core/base/cancel.h"

namespace spscope::app {

class ProgressLine {
 public:
  /// Without `drawn` the phases are lines of the log (level info).
  explicit ProgressLine(bool drawn = true);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  /// Any thread; cheap. Nothing to tell (an empty `what`): the line goes, until there is again, for more than a second.
  void show(const Progress& progress);
  /// Takes the line away and shows nothing any more: results follow.
  void end();

 private:
  void watch();
  void print();  // with the mutex held

  const bool drawn_, terminal_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();  ///< when there began to be something to tell
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_, phase_, printed_phase_;
  bool shown_ = false, ended_ = false;
  std::thread thread_;
};

}  // namespace spscope::app
