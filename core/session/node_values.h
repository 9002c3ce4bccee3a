// SPDX-License-Identifier: Apache-2.0
// The values of one node in a step of virtual ranks: what each rank has, and how far that is, put together, from the value of the
// unsharded program. Both programs run as far as that node and nothing else is kept.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/session/compile.h"
#include "core/torch/value_compare.h"
#include "core/torch/value_summary.h"

namespace spscope::session {

struct NodeValuesRequest {
  passes::Settings settings;
  DataRequest data;
  std::vector<std::shared_ptr<const ir::Graph>> programs;  ///< of each rank, as compiled with these settings
  ir::NodeId node = ir::kNone;                             ///< of the programs
  int output = 0;
};

struct NodeValues {
  ir::NodeId node = ir::kNone;
  int output = 0;
  std::string name, value;                        ///< of the node and of its result
  std::vector<exec::ValueSummary> ranks;
  std::optional<exec::ValueSummary> unsharded;    ///< empty: `alone` says why
  std::string reference_node;                     ///< the node of the unsharded program that has this value
  std::string alone;
  exec::Assembly how;                             ///< how the ranks' parts were put together
  exec::ValueDifference difference;               ///< meaningful where `unsharded` is there
  bool within = true;                             ///< the tolerance that verify has for gradients
};

/// Errors: usage (no such node in the programs), value-not-live (nobody reads it, so it is freed at once), those of compiling the
/// unsharded program, of loading weights and inputs, and of the executor.
Result<NodeValues> nodeValues(const Model& model, const NodeValuesRequest& what, const Request& request);

}  // namespace spscope::session
