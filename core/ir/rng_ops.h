// SPDX-License-Identifier: Apache-2.0
// Random numbers by position: what an element draws depends on where it stands in the whole value, on the number of the op
// and on the seed of the step, and on nothing else. So any number of ranks draws what one rank draws, a part computed again
// draws the same again, and replicas of the data axis draw other numbers because their rows are other rows.
//
//   rng.keep_at.default(self?, size, whole, number, p, ...)      bool, false with probability p
//   rng.uniform_at.default(self?, size, whole, number, dtype, ...)  in [0, 1)
//
// `whole` are the factors of all dimensions in a row ([2, 64, 32] for [2·64, 32]), `size` is the shape of the result. Until
// shard-sequence `self` (of which only shape and placement count) says where the result lives; from then on there is no
// operand, and `cut` is the index in `whole` of the factor that is in `blocks` over the ranks, `batch` that of the factor
// which the data axis splits, and `start`/`part` (where given) a window of each factor.
#pragma once

#include "core/base/symbol.h"

namespace spscope::ir::rng {

inline const Symbol kKeepAt{"rng.keep_at.default"};
inline const Symbol kUniformAt{"rng.uniform_at.default"};

inline bool isRng(Symbol op) { return op == kKeepAt || op == kUniformAt; }

}  // namespace spscope::ir::rng
