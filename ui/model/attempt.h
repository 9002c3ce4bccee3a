// SPDX-License-Identifier: Apache-2.0
// A request of core/session as a job of the window: its request, and what it found, carried to the window's thread.
#pragma once

#include <exception>
#include <memory>
#include <optional>

#include "core/base/strings.h"
#include "core/session/model.h"
#include "ui/model/state/job_queue.h"

namespace spscope::ui {

template <typename T>
struct Attempted {
  std::optional<T> value;
  std::optional<Error> error;
  DiagnosticSink diagnostics;
};

template <typename T, typename F>
std::shared_ptr<Attempted<T>> attempt(F&& work) {
  auto out = std::make_shared<Attempted<T>>();
  // Memory that is not there must not end the window.
  try {
    Result<T> result = work(out->diagnostics);
    if (result)
      out->value = std::move(*result);
    else
      out->error = std::move(result).error();
  } catch (const std::exception& e) {
    out->error = makeError("internal", strf("exception: %s", e.what()), Outcome::kRunFailed);
  }
  return out;
}

inline session::Request requestOf(const JobContext& context, DiagnosticSink& sink) {
  session::Request request;
  request.cancel = context.cancel;
  request.progress = context.progress;
  request.diagnostics = &sink;
  return request;
}

}  // namespace spscope::ui
