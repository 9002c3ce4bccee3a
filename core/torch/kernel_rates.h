// SPDX-License-Identifier: Apache-2.0
// How fast this machine's kernels really are, for `spscope calibrate`. No libtorch in this header.
#pragma once

#include <string>
#include <vector>

#include "core/base/cancel.h"
#include "core/base/result.h"

namespace spscope::exec {

/// Of repeated measurements: those that a quarter of them was slower than, and the fastest.
struct MeasuredRate {
  double low = 0, high = 0;  ///< flop per ns, bytes per ns; of `launch` ns
  std::string how;           ///< "products of 1024 x 1024 x 1024, float32, 21 times"
};

struct KernelRates {
  MeasuredRate matmul, matmul_bfloat16, memory, attention, launch;
  int threads = 1;
};

/// Measures on the CPU with all cores that this process may use, about `seconds` in all; progress is told by name of what
/// comes next. Errors: op-failed, cancelled.
Result<KernelRates> measureKernels(double seconds, const ProgressFn& progress, const CancelToken& cancel);

}  // namespace spscope::exec
