// SPDX-License-Identifier: Apache-2.0
// A program with smaller sizes everywhere: fewer tokens, narrower weights, the same ops in the same order.
//
// Which numbers belong together is found as for another sequence length (passes/sequence/size_system.h), but here what the file
// stores may change, too. Sizes that no other size gives (the size of a head, the width of a hidden layer, the vocabulary) are
// made smaller one after the other; where a choice contradicts anything, the next is tried, and at last the size stays. Kept:
//   - the remainder structure: a size has the same common divisor with the number of ranks, and with 16, as before (with twice the ranks the
//     sequence), so that shards are even or uneven as before;
//   - counts of heads, experts and whatever else a batched product runs over: q to kv heads, heads per rank;
//   - sizes that are equal stay equal, sizes that differ stay different, as far as the equations let them;
//   - small sizes (at most 16).
//   Before:  %q = linear(%x, %w) : [1, 131072, 4096]    %v = view(%q, size=[1, 131072, -1, 128])
//   After:   %q = linear(%x, %w) : [1, 512, 512]        %v = view(%q, size=[1, 512, -1, 16])
// Numbers used as values (a scale, the window of a mask) stay.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "passes/pass.h"

namespace spscope::passes {

struct Dimension {
  std::string name;  ///< "sequence", "heads", "head size", "hidden", "vocabulary", or "of model.layers.*.mlp.up_proj.weight"
  std::int64_t from = 0, to = 0;
  std::string kept_because;  ///< where it stayed although it is large
};

struct NarrowLimits {
  std::int64_t tokens_per_rank = 64;  ///< aimed at
  std::int64_t small = 16;            ///< sizes up to this stay
  std::int64_t batch = 4;             ///< rows up to this stay
};

struct Narrowed {
  ir::Graph graph;
  std::vector<Dimension> dimensions;  ///< sequence first
  std::int64_t seq = 0, batch = 0;
};

/// `graph` is a kGlobal one with sequence length `seq` and `batch` (0 where unknown). Never fails for a model that compiles: what
/// cannot change stays. Error: cancelled.
Result<Narrowed> narrow(const ir::Graph& graph, const Settings& settings, std::int64_t seq, std::int64_t batch, const NarrowLimits& limits, const CancelToken& cancel);

}  // namespace spscope::passes
