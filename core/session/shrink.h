// SPDX-License-Identifier: Apache-2.0
// Proof of a step that is too large to run here, or has no weights: on a reduced twin whose plan is the real one's.
//
// The twin is the same model with equal layers folded (passes/shrink/fold_layers) and smaller sizes (passes/shrink/narrow). Both are
// compiled; the plans must be the same node for node, sizes aside (passes/shrink/compare_plans), or nothing is claimed. What the
// backward makes again is taken over from the real plan, as the twin's own sizes would choose otherwise. Then the twin's step is
// proved as verify does. What that does not show is listed.
#pragma once

#include <string>
#include <vector>

#include "core/session/verify.h"
#include "passes/shrink/compare_plans.h"
#include "passes/shrink/fold_layers.h"
#include "passes/shrink/narrow.h"

namespace spscope::session {

struct Twin {
  std::shared_ptr<const Model> model;
  passes::Settings settings;  ///< those of the real one, with sizes of buffers in proportion
  std::vector<passes::Dimension> dimensions;
  std::vector<passes::FoldedGroup> layers;
  std::map<std::string, std::string> stands_for;  ///< layer -> the twin's
};

/// What was reduced, and what the proof on it leaves open.
struct ShrinkReport {
  std::vector<passes::Dimension> dimensions;
  std::vector<passes::FoldedGroup> layers;
  passes::PlanMatch forward;  ///< placements: after plan-sequence
  passes::PlanMatch step;     ///< forward, backward and collectives: before choose-saved
  bool saved_as_real = false; ///< the twin recomputes what the real step recomputes
  std::int64_t recomputed = 0;       ///< nodes that the real step runs again
  std::int64_t twin_recomputed = 0;
  std::int64_t weights_bytes = 0, twin_weights_bytes = 0;  ///< parameters and buffers
  bool seeded = false;        ///< weights are random numbers
  std::vector<std::string> kept, not_kept;  ///< sentences
};

struct ShrinkOutcome {
  VerifyOutcome proof;  ///< of the twin; `equal`: equal on the twin
  ShrinkReport report;
};

struct ShrinkRequest {
  VerifyRequest verify;  ///< ranks "virtual", no input files
  passes::NarrowLimits limits;
  std::int64_t most_bytes = std::int64_t{8} << 30;  ///< that the twin's ranks may need together, as predicted
};

/// The reduced model. Errors: cancelled.
Result<Twin> makeTwin(const Model& model, const passes::Settings& settings, const passes::NarrowLimits& limits, const Request& request);

/// Both plans against each other. Compilations need their stages' graphs. Fills forward and step of the report.
/// Error: twin-plan-differs, with the first nodes that do.
Status matchPlans(const passes::Compiled& real, const passes::Compiled& twin, const std::map<std::string, std::string>& stands_for, ShrinkReport& report);

/// Errors: those of verify, twin-plan-differs, twin-too-large, usage (input files, ranks that are processes).
Result<ShrinkOutcome> verifyShrunk(const Model& model, const ShrinkRequest& what, const Request& request);

}  // namespace spscope::session
