// SPDX-License-Identifier: Apache-2.0
// Which value of the unsharded program a value of a rank's program is, once the ranks' parts are put together.
//
// What the pipeline keeps, and what build-joint makes of it, bears the same names on both sides; a node without a namesake is
// the one that does the same with the same operands. What sp.* ops move is the same value before and after. Whatever has no
// counterpart (the local sum of a mean, a count) is left out, never guessed; so is the gradient of equal copies.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "core/torch/value_compare.h"

namespace spscope::session {

struct Counterpart {
  ir::ValueId reference = ir::kNone;
  std::optional<exec::Assembly> how;  ///< empty: the graph does not say (gradients); any that fits
};

/// By value id of `sharded` (a local or joint graph). `any_float`: the reference computes in another type, floats are floats.
std::vector<Counterpart> counterpartsOf(const ir::Graph& sharded, const ir::Graph& reference, bool any_float = false);

/// What `outer` of a shard may be where the placement is not known: that of every shard of the graph, also with the dimensions
/// before it merged into one.
std::vector<std::int64_t> shardOuters(const ir::Graph& sharded);

/// The ranks' parts against the whole value, put together in the way `how`; where the graph does not say, in the way that fits best.
struct Nearest {
  exec::Assembly how;
  exec::ValueDifference difference;
};
/// Empty: they do not make up the value, they lie in another shape. `outers`: see shardOuters. Errors: those of compareValue.
Result<std::optional<Nearest>> nearestTo(const exec::TensorBag& whole, const std::vector<exec::TensorBag>& parts, const std::optional<exec::Assembly>& how,
                                         const std::vector<std::int64_t>& outers);

/// Which ranks are off: `errors` are ValueDifference::rank_error, `allowed` what each may be off by. All of them for a sum. Never empty.
std::vector<int> offRanks(const std::vector<double>& errors, double allowed, int ranks);

/// How the graph says that the ranks' parts of a value go together; empty where it says nothing (gradients).
std::optional<exec::Assembly> assemblyOf(const ir::Value& value);

/// Whether the graph says where the value lives: the planner places the forward; what the backward is captured into has local shapes only.
bool isPlaced(const ir::Value& value);
/// "sharded: dimension 1, the sequence, blocks [32, 32]".
std::string placementSentence(const ir::Value& value);
/// "replicated", "partial sum", "sharded on dimension 1 in blocks of 32, 32".
std::string placementWords(const exec::Assembly& how);

}  // namespace spscope::session
