// SPDX-License-Identifier: Apache-2.0
// The predicted memory curve of one rank's step: a walk over a joint graph in its order, without running it.
//
// What counts is what the allocator is asked for: a value without a storage of its own (a view) is free, a storage is
// there from the node that makes it to the last node that uses any value on it, graph outputs stay to the end. While a
// node runs, its operands, its results, its kernel's workspace and its packing buffers are there together. Parameters,
// buffers, inputs and optimizer states are there always. Rounding by the allocator is not counted.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/ir/op_services.h"

namespace spscope::passes {

struct Settings;  // passes/pass.h

enum class MemoryClass : std::uint8_t {
  kParameters,     ///< parameters, buffers, constants and user inputs
  kGradients,      ///< storages of the graph's gradient outputs
  kOptimizer,      ///< adamw: two moments per trainable parameter; sgd: none; 16-bit parameters: float32 masters
  kActivations,    ///< made in forward, used after it (or forward outputs)
  kTemporaries,    ///< everything else that a node makes
  kCommunication,  ///< results of collectives that are not kept for backward, send and receive buffers
  kWorkspace,      ///< scratch memory inside kernels
};
inline constexpr std::size_t kMemoryClasses = 7;
/// "parameters", "gradients", ... as reports spell them.
std::string_view memoryClassName(MemoryClass memory_class);
using ClassBytes = std::array<std::int64_t, kMemoryClasses>;

struct MemoryCurve {
  std::vector<std::int64_t> live;     ///< bytes while the node at this place of Graph::order runs
  std::vector<ClassBytes> by_class;   ///< the same by class, each row summing to `live`; empty unless asked for
  std::int64_t peak = 0;
  std::int32_t peak_position = -1;    ///< place in Graph::order, the first with the peak; -1: an empty graph
  ClassBytes at_peak{};               ///< classes at that place, summing to `peak`
  std::int64_t resident = 0;          ///< parameters, optimizer, accumulated gradients: there before the step begins
  std::int64_t saved_bytes = 0;       ///< storages that cross from forward to backward, each once, inputs not counted
  /// Peak of what the step itself allocates besides gradients: activations, temporaries, communication, workspace.
  std::int64_t working_peak = 0;
  std::int64_t stepPeak() const { return peak - resident; }  ///< what an allocator hook sees during a step
};

struct LivenessOptions {
  const ir::OpServices* services = nullptr;  ///< null: no workspaces
  std::string_view device = "cpu";  ///< whose kernels the workspaces are of: cpu or cuda
  int threads = 1;
  std::string_view optimizer = "sgd";
  int zero = 0;        ///< 1: states of this rank's blocks only
  bool master_weights = true;  ///< 16-bit parameters have a float32 master and float32 states
  int accumulate = 1;  ///< above 1: a sum of gradients is kept beside those of the batch at hand
};

/// What a pipeline's settings say of a step.
LivenessOptions livenessOptions(const Settings& settings, const ir::OpServices* services);

/// Needs a kJoint graph with `storage` / `storage_bytes` set (values without them count by their local shape).
/// O(graph). Never fails on a verified graph. Without MemoryCurve::by_class: curveInOrder (replay_plan.h) has it.
MemoryCurve predictMemory(const ir::Graph& graph, const LivenessOptions& options);

/// Bytes that an sp.* node allocates beyond its result while it runs: the send buffer where the parts that leave are
/// not consecutive in a contiguous operand, the receive buffer where they are not in the result. `ranks` is the size
/// of the sequence axis. Mirrors core/torch's redistribution.
std::int64_t packingBytes(const ir::Graph& graph, const ir::Node& node);

/// Bytes of this rank's optimizer states, masters of 16-bit parameters included: those of all trainable inputs, or (zero 1) of
/// its blocks of them. As exec::Optimizer::stateBytes.
std::int64_t optimizerBytes(const ir::Graph& graph, const LivenessOptions& options);
/// Bytes of the sums of gradients that are kept from batch to batch.
std::int64_t accumulatorBytes(const ir::Graph& graph, int accumulate);

}  // namespace spscope::passes
