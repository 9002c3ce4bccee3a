// SPDX-License-Identifier: Apache-2.0
// The memory policies by name, as `--save` and Settings::save spell them.
#pragma once

#include <string_view>

#include "core/base/result.h"

namespace spscope::passes {

struct SavePolicy {
  enum class Kind {
    kAll,     ///< what the backward uses is kept, as eager PyTorch does
    kSac,     ///< the lowest predicted peak that needs no fused kernel twice
    kMinCut,  ///< PyTorch's partitioner (torch_partition.h)
    kLayerInputs,  ///< what layers hand on; all else inside of them is made again, attention and exchanges too
    kBudget,  ///< the cheapest choice whose peak is at most `budget` of the way from the lowest to that of `all`
  };
  Kind kind = Kind::kSac;
  double budget = 1;  ///< 0 ... 1, kBudget only
};

/// "all", "sac", "min-cut", "layer-inputs" or "budget=F". Errors: setting-save, with what is legal.
Result<SavePolicy> parseSavePolicy(std::string_view text);

}  // namespace spscope::passes
