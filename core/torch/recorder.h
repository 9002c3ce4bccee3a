// SPDX-License-Identifier: Apache-2.0
// Writes down the ATen calls that pass below autograd on this thread, as nodes of a joint graph. Used by capture.cpp.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/cancel.h"
#include "core/ir/graph.h"

namespace spscope::exec {

/// What the capture needs to know of an op, looked up once per op and process.
struct CapturedOp {
  Symbol symbol;                    ///< as written into the graph
  std::vector<Symbol> arguments;    ///< names; empty for those that the graph never says (device, layout, pin_memory)
  const c10::FunctionSchema* schema = nullptr;
  bool mutates = false;
  std::string failure;              ///< why the op cannot be written down; empty: it can
};

class Recorder {
 public:
  /// `graph` is the joint graph under construction: a copy of the forward graph with an empty `order`.
  Recorder(ir::Graph& graph, const CancelToken& cancel);

  /// Binds a graph input to its meta tensor.
  void bindInput(ir::ValueId value, const at::Tensor& tensor);

  /// All calls until endForward belong to this node of the forward graph.
  void beginForward(ir::NodeId node);
  /// `outputs` are what the node gave; they get the node's value ids. Returns a message when they do not fit the plan.
  std::string endForward(const std::vector<at::Tensor>& outputs);
  /// From here on calls belong to the backward of the autograd node that runs.
  void beginBackward(const at::Tensor& loss);

  /// The graph value that a tensor is; kNone where it is none.
  ir::ValueId valueOf(const at::Tensor& tensor);
  /// The joint graph's value for a value of the forward graph (they differ where a node returned its operand).
  ir::ValueId replaced(ir::ValueId forward_value) const;

  /// Called around each ATen call, with the call's arguments and results on the stack.
  void before(const c10::OperatorHandle& op, const c10::IValue* arguments);
  void after(const c10::IValue* results);

  /// The op that was running when an exception passed, or empty.
  const std::string& running() const { return running_; }
  ir::NodeId currentNode() const { return current_; }

 private:
  struct Slot {  ///< a tensor that the graph knows
    at::Tensor tensor;
    ir::ValueId value = ir::kNone;  ///< kNone until its node is written
    std::int32_t owner = -1;        ///< slot whose storage it shares; itself where it is the first
    std::int64_t bytes = 0;
  };
  struct Record {
    const CapturedOp* op = nullptr;
    std::vector<ir::Argument> args;  ///< Use::value holds slots until the record is written
    std::vector<std::int32_t> outputs;  ///< slots; -1: undefined
    std::int64_t first_sequence = 0;    ///< autograd's sequence numbers that belong to this call
    std::int64_t end_sequence = 0;
  };

  std::int32_t addSlot(const at::Tensor& tensor, bool own_storage = false);
  std::int32_t find(const at::Tensor& tensor) const;
  ir::Attribute operand(const at::Tensor& tensor);
  ir::Attribute numberOrConstant(const at::Tensor& tensor);
  bool attribute(const c10::IValue& value, const c10::Argument& argument, ir::Attribute* out);
  void rebind(const at::Tensor& tensor);
  /// Adds the record to the graph, as the node `keep` or as a new one.
  void write(Record& record, ir::NodeId keep);
  bool sameOperands(const Record& record, ir::NodeId node) const;
  void writeOutput(std::int32_t slot, ir::NodeId node);

  ir::Graph& graph_;
  const CancelToken& cancel_;
  std::vector<Slot> slots_;
  std::vector<at::Tensor> kept_;        ///< further tensors whose addresses must stay theirs
  std::unordered_map<const c10::TensorImpl*, std::int32_t> by_impl_;
  std::unordered_map<const c10::StorageImpl*, std::vector<std::int32_t>> by_storage_;
  std::vector<ir::ValueId> replaced_;
  std::vector<Record> pending_;         ///< of the forward node that runs
  Record open_;                         ///< the call between before() and after()
  std::vector<at::Tensor> mutated_;     ///< operands that the open call changes
  ir::NodeId current_ = ir::kNone;      ///< forward node that runs, or whose backward runs
  ir::Phase phase_ = ir::Phase::kForward;
  std::uint64_t first_sequence_ = 0;
  std::uint64_t seen_sequence_ = 0;
  struct Origin {
    ir::NodeId joint = ir::kNone;    ///< node of the joint graph that made the autograd node
    ir::NodeId forward = ir::kNone;  ///< node of the forward graph
  };
  std::vector<Origin> origins_;         ///< by sequence number
  Origin backward_;                     ///< origin of the autograd node that runs
  std::string running_;
};

/// The recorder of this thread while a capture runs, else nullptr.
Recorder*& activeRecorder();

/// Registers the boxed fallback that feeds the active recorder, once per process.
void registerCaptureFallback();

}  // namespace spscope::exec
