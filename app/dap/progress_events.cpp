// SPDX-License-Identifier: Apache-2.0
#include "app/dap/progress_events.h"

#include <algorithm>

namespace spscope::app::dap {

void ProgressEvents::show(const Progress& progress) {
  if (!wanted_) return;
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  const std::string what(progress.what);
  if (begun_ && what == last_ && now - when_ < std::chrono::milliseconds(100)) return;
  Json body = {{"progressId", id_}};
  if (!begun_) {
    body["title"] = title_;
    body["requestId"] = seq_;
    body["cancellable"] = cancellable_;
  }
  body["message"] = what;
  if (progress.total > 0) body["percentage"] = std::clamp(100.0 * static_cast<double>(progress.done) / static_cast<double>(progress.total), 0.0, 100.0);
  connection_.event(begun_ ? "progressUpdate" : "progressStart", std::move(body));
  begun_ = true;
  last_ = what;
  when_ = now;
}

ProgressEvents::~ProgressEvents() {
  if (begun_) connection_.event("progressEnd", {{"progressId", id_}});
}

}  // namespace spscope::app::dap
