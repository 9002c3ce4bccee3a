// SPDX-License-Identifier: Apache-2.0
// After which pass does the result differ? The pipeline runs again, every rank class with all of its stages, and each stage
// that can run is compared with the unsharded program, in order, until one differs.
//
// What a stage is judged by depends on what it has: a joint graph by loss and gradients, a forward by its loss, a forward whose
// sums over the ranks are not there yet by its values. A planned graph cannot run, and one whose exchanges are not lowered only up to
// the first of them; what they do wrong behind it shows in the next stage, and then all of them are suspects.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/session/first_difference.h"
#include "passes/pipelines.h"

namespace spscope::session {

struct StageGraphs {
  std::string pass;  ///< "import": the graph as it was opened
  std::vector<std::shared_ptr<const ir::Graph>> of_rank;  ///< one, where all ranks have the same (before shard-sequence)
};

/// Errors: those of the passes. The pipeline is that of passes::compile unless others are given.
Result<std::vector<StageGraphs>> stageGraphs(const Model& model, const passes::Settings& settings, const Request& request,
                                             const std::vector<passes::Pass>& planning = passes::planningPasses(),
                                             const std::vector<passes::Pass>& program = passes::programPasses());

struct BisectStage {
  std::string pass;
  std::string judged_by;  ///< "values", "part of the values", "loss", "loss and gradients"; empty: cannot run by itself
  bool equal = false;     ///< meaningful where judged
  double loss_rel = 0.0, grad_rel_max = 0.0;
};

/// Which rewrite of a pass it was: the pass runs again with only the first n of them, n found by halving.
struct RewriteBisection {
  std::int64_t application = 0;   ///< the first with which the result differs; 0: it differs without any, they depend on each other
  std::int64_t applications = 0;  ///< that the pass makes
  std::string node;               ///< at which node of the graph before the pass; empty where application is 0
  std::string judged_by;          ///< as in BisectStage
};

struct Bisection {
  std::vector<BisectStage> stages;    ///< up to the first that differs
  std::string pass;                   ///< after which the result first differs; empty: it does not in this process
  std::vector<std::string> suspects;  ///< `pass`, and the stages before it that could not run
  std::optional<RewriteBisection> rewrite;  ///< of `pass`; see bisectRewrites
};

/// `sides`: reference, state, inputs and tolerance; its programs are not used. Errors: those of compareValues.
Result<Bisection> bisect(const std::vector<StageGraphs>& stages, const Sides& sides, const Request& request);

/// Within the pass after which the result first differs. Empty where its graph cannot run, or the pass makes no rewrites that could be
/// left out. Errors: those of the pass and of compareValues.
Result<std::optional<RewriteBisection>> bisectRewrites(const passes::Settings& settings, const std::vector<StageGraphs>& stages, const std::string& pass,
                                                       const Sides& sides, const Request& request, const std::vector<passes::Pass>& planning = passes::planningPasses(),
                                                       const std::vector<passes::Pass>& program = passes::programPasses());

}  // namespace spscope::session
