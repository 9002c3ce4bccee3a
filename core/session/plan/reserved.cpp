// SPDX-License-Identifier: Apache-2.0
#include "core/session/plan/reserved.h"

#include "core/torch/capture.h"

namespace spscope::session {

Result<passes::ReplayFigures> reservedFor(const ir::Graph& program, const passes::Settings& settings, bool expandable) {
  SP_ASSIGN(const auto equivalents, exec::compileEquivalents(settings.rules));
  const std::unique_ptr<ir::OpServices> services = exec::makeOpServices(equivalents);
  const passes::AllocationTrace trace = passes::allocationTrace(program, passes::livenessOptions(settings, services.get()));
  passes::ReplayFigures out = passes::replay(trace, {.expandable = expandable});
  out.least = passes::leastCapacity(trace, out, expandable);
  return out;
}

}  // namespace spscope::session
