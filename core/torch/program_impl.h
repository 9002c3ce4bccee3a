// SPDX-License-Identifier: Apache-2.0
// The prepared nodes of a Program. Only for core/torch (it includes ATen).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/torch/op_call.h"
#include "core/torch/program.h"
#include "core/torch/redistribution.h"

namespace spscope::exec {

struct Program::Impl {
  struct Step {
    std::optional<PreparedOp> op;  ///< aten nodes
    const ir::Node* node = nullptr;
    std::int32_t sp = -1;          ///< sp.* nodes: index into `redistributions`; -1: an aten node
    ir::ValueId input = ir::kNone, output = ir::kNone;  ///< sp.* nodes
    std::int32_t free_begin = 0, free_end = 0;  ///< values in `frees` that die after this node
  };
  std::vector<Step> steps;
  std::vector<Redistribution> redistributions;
  std::vector<ir::ValueId> frees;
  std::vector<ir::ValueId> unused_inputs;
  bool random = false;
};

}  // namespace spscope::exec
