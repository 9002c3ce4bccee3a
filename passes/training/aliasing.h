// SPDX-License-Identifier: Apache-2.0
// Which results share memory with an operand, and how a write through such a view reaches the operand. Private to
// functionalize.
#pragma once

#include <functional>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace spscope::passes {

enum class Sharing : std::uint8_t {
  kNone,   ///< results have memory of their own
  kView,   ///< results are views of the first operand
  kMaybe,  ///< a view or a copy, depending on strides that the graph does not know (reshape, contiguous)
};

/// Follows the program in order: what is certainly contiguous decides whether a reshape is certainly a view.
class Aliasing {
 public:
  explicit Aliasing(const ir::Graph& graph);
  /// Must be called once for each node, in program order; values made later are not contiguous unless said so.
  Sharing visit(const ir::Node& node);

 private:
  bool contiguous(ir::ValueId v) const {
    return v >= 0 && static_cast<std::size_t>(v) < contiguous_.size() && contiguous_[static_cast<std::size_t>(v)];
  }
  Sharing classify(const ir::Node& node) const;
  bool resultsContiguous(const ir::Node& node, Sharing sharing) const;

  const ir::Graph& graph_;
  std::vector<bool> contiguous_;
};

/// The first tensor operand ("self", "input"), kNone where there is none.
ir::ValueId firstOperand(const ir::Node& node);

/// Makes a node with one output at the place where the caller is.
using EmitFn = std::function<ir::ValueId(Symbol op, std::vector<ir::Argument> args, ir::DType dtype, ir::Dims shape)>;

/// Output `index` of the view node, taken of `parent` (the operand's newer content) instead.
ir::ValueId rederiveView(const ir::Graph& graph, ir::NodeId view, int index, ir::ValueId parent, const EmitFn& emit);

/// The operand's content after `written` was written into output `index` of the view node; `parent` is its content
/// before. Error: mutation-unknown, for views through which we cannot write.
Result<ir::ValueId> writeBack(const ir::Graph& graph, ir::NodeId view, int index, ir::ValueId parent,
                              ir::ValueId written, const EmitFn& emit);

}  // namespace spscope::passes
