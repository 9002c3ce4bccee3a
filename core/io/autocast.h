// SPDX-License-Identifier: Apache-2.0
// What torch.autocast does to an op's operands, so that the importer can write it into the graph as casts.
// The lists are those registered with the dispatcher of torch 2.15 for AutocastCPU and AutocastCUDA.
#pragma once

#include "core/base/symbol.h"
#include "core/ir/dtype.h"

namespace spscope::io {

enum class CastPolicy : std::uint8_t {
  kNone,
  kLower,     ///< floating operands to the low precision
  kFloat32,   ///< floating operands to float32
  kSoftmax,   ///< as kFloat32, unless the op names its dtype itself
  kWidest,    ///< mixed floating operands to the widest of them
};

/// The state of a torch.autocast region.
struct AutocastState {
  bool enabled = false;
  bool cuda = false;  ///< which list
  ir::DType low = ir::DType::kBF16;
};

CastPolicy castPolicy(Symbol op, bool cuda);

/// The provenance of nodes that autocast inserts: they go when the program is converted to one precision.
inline const Symbol kAutocastPass{"autocast"};

}  // namespace spscope::io
