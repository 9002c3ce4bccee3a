// SPDX-License-Identifier: Apache-2.0
// insert-all-to-all: exchanges between two sharded layouts (the Ulysses exchange around attention) become sp.all_to_all.
//
// Before:  %q2 = sp.redistribute.default(self=%q) : f32[2, 8, {64 s}, 4] S(1.0)     (%q: S(2.0))
// After:   %q2 = sp.all_to_all.default(self=%q, gather_dim=2, gather_blocks=[32, 32], scatter_dim=1, scatter_blocks=[4, 4])
#pragma once

#include "passes/pass.h"

namespace spscope::passes {

Pass insertAllToAllPass();

}  // namespace spscope::passes
