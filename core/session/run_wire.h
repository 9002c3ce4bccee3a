// SPDX-License-Identifier: Apache-2.0
// What goes between a run and its ranks: the request down, steps and figures up.
#pragma once

#include "core/dist/message.h"
#include "core/session/run.h"

namespace spscope::session {

/// Doubles are kept exactly.
dist::Message toMessage(const RunRequest& what);
/// Error internal where the text is none of toMessage's.
Result<RunRequest> runRequestFrom(const std::string& text);

dist::Message toMessage(const StepLine& line);  ///< kind "step"
StepLine stepFrom(const dist::Message& message);

/// What a rank says at its end.
struct RankFigures {
  std::int64_t peak_bytes = 0, step_peak_bytes = 0;
  std::int64_t predicted_peak_bytes = 0;  ///< of launched ranks; otherwise 0: the launcher has compiled for all
  double last_loss = 0.0;
  std::int64_t comm_ns = 0, exposed_comm_ns = 0;
  std::string saved_to;
};
dist::Message toMessage(const RankFigures& figures);  ///< kind "figures"
RankFigures figuresFrom(const dist::Message& message);

}  // namespace spscope::session
