// SPDX-License-Identifier: Apache-2.0
// Does libtorch work here at all? For `spscope doctor`. No libtorch in this header.
#pragma once

#include <string>

#include "core/base/result.h"

namespace spscope::exec {

struct TorchFacts {
  std::string capability;  ///< instruction set that its kernels use: "AVX2", "AVX512", "DEFAULT"
  int threads = 1;         ///< intra-op
};

/// Runs a matrix product, forward and backward, and compares it with the numbers known beforehand. Error op-failed.
Result<TorchFacts> torchSelfTest();

}  // namespace spscope::exec
