// SPDX-License-Identifier: Apache-2.0
// Calling an op of the graph through libtorch's dispatcher: resolve and convert once, then call many times.
//
// Only for core/torch (it includes ATen). A PreparedOp holds the arguments as a boxed stack whose constants are built
// already; a call copies that stack, puts the tensors in and runs it, so that a step of thousands of small ops costs
// no more than PyTorch's eager mode. `aten.view` runs as `aten.reshape`: after a rewrite the strides that made a view
// possible may be gone.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function.h>
#include <ATen/core/ivalue.h>

#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace spscope::exec {

class Equivalents;

/// An op with its constant arguments, ready to be called. Independent of the graph that it was made from.
struct PreparedOp {
  /// Where tensors go: stack[argument] is one tensor, or a list of `count` of them, from operands[first] on.
  struct Slot {
    enum class Kind : std::uint8_t { kTensor, kTensorList, kOptionalTensorList };
    std::int32_t argument = 0;
    Kind kind = Kind::kTensor;
    std::int32_t first = 0;
    std::vector<bool> present;  ///< lists only: false where the entry is None
  };

  std::optional<c10::OperatorHandle> handle;    ///< libtorch's op; or
  torch::jit::Function* function = nullptr;     ///< the user's equivalent of another library's op, which must outlive this
  std::vector<c10::IValue> stack;       ///< arguments in schema order; None where a slot puts tensors
  std::vector<Slot> slots;
  std::vector<ir::ValueId> operands;    ///< the node's uses in the order of ir::forEachUse
  std::vector<ir::ValueId> outputs;     ///< as in the node: kNone for outputs that nobody computes
  std::string node;                     ///< for messages
  std::string source;
  std::int32_t query = -1, key = -1;    ///< arguments of a fused attention kernel; -1: it is none

  std::string opName() const { return function ? function->name() : handle->schema().name(); }
};

/// Resolves the node's op and converts its constant arguments. Every device named by the node becomes `device`, and a
/// factory op without tensor operands makes its result there. Numbers given for tensors become 0-dim tensors on the
/// CPU that count as numbers in type promotion. An op that `equivalents` has is that function. Errors: op-unknown, op-argument.
Result<PreparedOp> prepare(const ir::Node& node, c10::Device device = c10::Device(c10::kCPU), const Equivalents* equivalents = nullptr);

/// Calls the op. `operands` are in the order of PreparedOp::operands; `outputs` is cleared and gets one tensor per
/// output of the node, lists flattened, undefined where the op returns None or something that is not a tensor.
/// Autograd and the observer are the caller's business (the executor excludes the autograd keys once, around the step).
/// Errors: op-failed (outcome kRunFailed).
Status call(const PreparedOp& op, std::span<const at::Tensor> operands, std::vector<at::Tensor>& outputs);

/// The same over a table of all values, indexed by ValueId: reads the operands from it and stores the outputs in it
/// without copies in between. This is the executor's inner loop.
Status callInPlace(const PreparedOp& op, std::span<at::Tensor> values);

/// "aten.mm.default" -> {"aten::mm", ""}; nullopt-like empty name where the symbol is not of that form.
std::pair<std::string, std::string> dispatcherName(Symbol op);
/// {"aten::mm", ""} -> "aten.mm.default".
Symbol symbolOf(const c10::OperatorName& name);

}  // namespace spscope::exec
