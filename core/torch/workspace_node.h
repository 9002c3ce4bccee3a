// SPDX-License-Identifier: Apache-2.0
// What the scratch memory of CPU and of CUDA kernels is worked out from: the operands of a node as they lie in memory, and
// the copies and steps that are the same on both. No libtorch in this header.
#pragma once

#include <cstdint>
#include <utility>

#include "core/ir/graph.h"
#include "core/ir/layout.h"

namespace spscope::exec {

struct Operand {
  ir::ValueId id = ir::kNone;
  const ir::Value* value = nullptr;
  explicit operator bool() const { return value != nullptr; }
  std::int64_t elements() const { return ir::numel(value->local); }
  std::int64_t bytes() const { return value->localBytes(); }
};

class WorkspaceNode {
 protected:
  WorkspaceNode(const ir::Graph& graph, const ir::Node& node) : graph_(graph), node_(node) {}

  Operand operand(Symbol name) const;
  std::int64_t bytesOf(Symbol name) const { return operand(name) ? operand(name).bytes() : 0; }
  const ir::Value* output(std::size_t index = 0) const;
  std::int64_t outputBytes() const { return output() ? output()->localBytes() : 0; }
  ir::Dims stridesOf(const Operand& o) const { return ir::layoutOf(graph_, o.id).strides; }

  static bool reduced(ir::DType type) { return type == ir::DType::kBF16 || type == ir::DType::kF16; }
  static std::int64_t accumulated(ir::DType type) { return type == ir::DType::kF64 ? 8 : 4; }

  /// Kernels that want contiguous memory copy operands that are not.
  std::int64_t copyOf(Symbol name) const;
  /// The same where the kernel sees dimensions 1 and 2 the other way round: attention's [B, H, S, D] as [B, S, H, D].
  std::int64_t copyOfHeadsInside(Symbol name) const;
  /// A product takes matrices whose rows or whose columns lie together, and copies others.
  bool isMatrix(const Operand& o) const;
  /// Of mm, addmm, bmm, baddbmm: the two that are multiplied; empty where one is no matrix.
  std::pair<Operand, Operand> productOperands() const;
  /// What core/torch/tiled_loss.cpp holds at a time beyond its results, step by step, for a block of rows.
  std::int64_t tiledLoss(bool backward) const;
  std::int64_t safeSoftmax() const;
  std::int64_t logSumExp() const { return bytesOf("self") + outputBytes(); }  ///< exponentials and maxima
  /// oneDNN and cuDNN reorder weights and gradients into blocks. For oneDNN between half and twice what was measured; cuDNN chooses, nobody
  /// else knows.
  std::int64_t convolutionBackward() const;

  const ir::Graph& graph_;
  const ir::Node& node_;
};

}  // namespace spscope::exec
