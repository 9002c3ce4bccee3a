// SPDX-License-Identifier: Apache-2.0
// Cancellation and progress for anything that may take longer than a second.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "core/base/result.h"

namespace spscope {

/// A flag shared between the one who asks and the one who works. Copies share the flag; any thread.
class CancelToken {
 public:
  CancelToken() : flag_(std::make_shared<std::atomic<bool>>(false)) {}
  void cancel() const { flag_->store(true, std::memory_order_relaxed); }
  bool cancelled() const { return flag_->load(std::memory_order_relaxed); }
  /// Error "cancelled" when the flag is set.
  Status check() const;

 private:
  std::shared_ptr<std::atomic<bool>> flag_;
};

/// One line of progress: what is being done, and how far (total 0: unknown).
struct Progress {
  std::string_view what;
  std::int64_t done = 0;
  std::int64_t total = 0;
};
using ProgressFn = std::function<void(const Progress&)>;

}  // namespace spscope
