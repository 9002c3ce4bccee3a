// SPDX-License-Identifier: Apache-2.0
// The prepared nodes of a Program. Only for core/torch (it includes ATen).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/torch/op_call.h"
#include "core/torch/program.h"
#include "core/torch/redistribution.h"

namespace spscope::exec {

struct Program::Impl {
  struct Step {
    std::optional<PreparedOp> op;  ///< aten nodes
    const ir::Node* node = nullptr;
    std::int32_t sp = -1;          ///< sp.* nodes that are complete in themselves: index into `redistributions`
    std::int32_t start = -1;       ///< index into `exchanges` of the one that it starts
    std::int32_t wait = -1;        ///< ... of the one that it waits for; all three -1: an aten node
    ir::ValueId input = ir::kNone, output = ir::kNone;  ///< sp.* nodes
    bool aten() const { return op.has_value(); }
    std::int32_t free_begin = 0, free_end = 0;  ///< values in `frees` that die after this node
  };
  /// A started collective, from its start to its wait.
  struct Exchange {
    std::vector<Redistribution> parts;
    std::vector<ir::ValueId> inputs, receives, sends, results;  ///< one per part; all_reduce: no sends
    std::vector<char> in_place;                                 ///< all_reduce: receives in its operand
    std::int64_t bytes = 0;                                     ///< that this rank sends
  };
  ir::Mesh mesh;
  std::array<std::string, 3> groups;  ///< by MeshAxis: the name of this rank's group
  std::vector<Step> steps;
  std::vector<Exchange> exchanges;
  std::vector<Redistribution> redistributions;
  std::vector<ir::ValueId> frees;
  std::vector<ir::ValueId> unused_inputs;
  bool random = false;
};

}  // namespace spscope::exec
