// SPDX-License-Identifier: Apache-2.0
// Progress of what takes long as events of the protocol: begun when there is something to tell, at most ten a second, always ended.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "app/dap/wire/connection.h"
#include "core/base/cancel.h"

namespace spscope::app::dap {

class ProgressEvents {
 public:
  /// `wanted`: whether the client takes such events; the request `seq` is what is at work.
  ProgressEvents(Connection& connection, bool wanted, std::string title, std::int64_t seq, bool cancellable)
      : connection_(connection), wanted_(wanted), cancellable_(cancellable), title_(std::move(title)), id_("request-" + std::to_string(seq)), seq_(seq) {}
  ~ProgressEvents();
  ProgressEvents(const ProgressEvents&) = delete;
  ProgressEvents& operator=(const ProgressEvents&) = delete;
  /// Any thread.
  void show(const Progress& progress);
  const std::string& id() const { return id_; }

 private:
  Connection& connection_;
  const bool wanted_, cancellable_;
  const std::string title_, id_;
  const std::int64_t seq_;
  std::mutex mutex_;
  bool begun_ = false;
  std::string last_;
  std::chrono::steady_clock::time_point when_{};
};

}  // namespace spscope::app::dap
