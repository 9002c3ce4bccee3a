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

/// By value id of `sharded` (a local or joint graph).
std::vector<Counterpart> counterpartsOf(const ir::Graph& sharded, const ir::Graph& reference);

/// What `outer` of a shard may be where the placement is not known: that of every shard of the graph, also with the dimensions
/// before it merged into one.
std::vector<std::int64_t> shardOuters(const ir::Graph& sharded);

/// "replicated", "partial sum", "sharded on dimension 1 in blocks of 32, 32".
std::string placementWords(const exec::Assembly& how);

}  // namespace spscope::session
