// SPDX-License-Identifier: Apache-2.0
// A joint graph as dense arrays: what the memory passes ask thousands of times, looked up once.
//
// Storages are numbered 0 .. storages.size()-1; every value in use maps to the storage that holds its bytes. Nodes are
// addressed by their place in Graph::order. The model does not follow later changes of the graph.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ir/graph.h"
#include "passes/memory/liveness.h"
#include "passes/memory/op_cost.h"

namespace spscope::passes {

struct StepStorage {
  ir::ValueId base = ir::kNone;  ///< the value that made it
  std::int64_t bytes = 0;
  std::int32_t producer = -1;    ///< place of the node that makes it; -1: a graph input
  bool input = false;
  bool forward = false;          ///< made in the forward phase
  bool output = false;           ///< holds a graph output
  bool gradient = false;         ///< ... that is a gradient
  bool used_after = false;       ///< a node after the forward phase uses it
};

struct StepNode {
  ir::NodeId id = ir::kNone;
  bool forward = false;          ///< Phase::kForward
  bool view = false;             ///< makes no storage: free to run, may be repeated at no cost
  OpCost cost;
  std::int64_t packing = 0;      ///< communication buffers beyond the results
  std::int64_t workspace = 0;
  std::int32_t uses_begin = 0, uses_end = 0;  ///< into StepModel::uses
  std::int32_t outs_begin = 0, outs_end = 0;  ///< into StepModel::outs
};

class StepModel {
 public:
  StepModel(const ir::Graph& graph, const LivenessOptions& options, const DeviceRates& rates);

  const ir::Graph& graph() const { return *graph_; }
  std::vector<StepNode> nodes;        ///< parallel to Graph::order
  std::vector<StepStorage> storages;
  std::vector<ir::ValueId> uses;      ///< operand values, in argument order
  std::vector<ir::ValueId> outs;      ///< result values, without the undefined ones
  std::vector<std::int32_t> place_of; ///< by node id: place in order, -1 where dead

  std::span<const ir::ValueId> usesOf(const StepNode& n) const {
    return {uses.data() + n.uses_begin, uses.data() + n.uses_end};
  }
  std::span<const ir::ValueId> outsOf(const StepNode& n) const {
    return {outs.data() + n.outs_begin, outs.data() + n.outs_end};
  }
  std::int32_t storageOf(ir::ValueId value) const { return storage_of_[static_cast<std::size_t>(value)]; }
  const StepStorage& storageAt(ir::ValueId value) const {
    return storages[static_cast<std::size_t>(storageOf(value))];
  }
  bool ownsStorage(ir::ValueId value) const { return storageAt(value).base == value; }
  std::int64_t resident_parameters = 0;
  std::int64_t resident_optimizer = 0;
  std::int64_t resident_gradients = 0;  ///< accumulated over batches

 private:
  std::int32_t intern(ir::ValueId value);
  const ir::Graph* graph_;
  std::vector<std::int32_t> storage_of_;
};

}  // namespace spscope::passes
