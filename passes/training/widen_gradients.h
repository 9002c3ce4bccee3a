// SPDX-License-Identifier: Apache-2.0
// widen-gradients: a sum over the ranks that completes the gradient of a 16-bit parameter is made in float32. Each rank's part is
// rounded to 16 bits by the kernel that makes it, as on one rank; the sum of the parts is not rounded again, and is handed
// to the optimizer as it is. Settings::wide_gradients off: sums in the parameter's own type.
//
// Before:  %g = sp.all_reduce.default(self=%part) : bf16[32, 7]                                (an output)
// After:   %w = aten._to_copy.default(self=%part, dtype=f32) : f32[32, 7]
//          %g = sp.all_reduce.default(self=%w) : f32[32, 7]
// Through views and sums of gradients (a tied weight) the wide type goes on to the output. A gradient that no exchange completes
// stays as it is: widening would add bytes and no digit.
#pragma once

#include "passes/pass.h"

namespace spscope::passes {

Pass widenGradientsPass();

}  // namespace spscope::passes
