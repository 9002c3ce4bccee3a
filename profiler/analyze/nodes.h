// SPDX-License-Identifier: Apache-2.0
// Time and bytes by what caused them: node of the graph, or op where a trace has no graph; and summed by op, module, stage or
// phase.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/analyze/work.h"

namespace spscope::trace {

/// For each event of the host or a device, what it belongs to: its node, or the op whose launch it was. Device work finds
/// its op by id (external id, then correlation id of its launch), never by comparing its time with the host's; the launch
/// call lies inside its op on one and the same thread.
struct Attribution {
  std::vector<NodeIndex> node;   ///< by event; kNoIndex
  std::vector<StringId> op;      ///< by event: name of the innermost op or, in traces without ops, range; 0: none
};
Attribution attribute(const Trace& trace);

/// The name of an op without the numbers that PyTorch's NVTX ranges bear: "aten::mm, seq = 3, op_id = 7" is "aten::mm".
std::string_view plainOpName(std::string_view name);

/// All ranks together.
struct NodeTime {
  NodeIndex node = kNoIndex;    ///< kNoIndex: a row by the name of an op
  StringId name = 0;            ///< of the node, or of an op of this plainOpName; 0: not attributed
  std::int64_t count = 0;       ///< how often it ran
  std::int64_t total_ns = 0;    ///< device_ns where the trace has device work, otherwise host_ns
  std::int64_t device_ns = kUnknown;         ///< durations of its kernels, copies and sets; kUnknown: it has none
  std::int64_t host_ns = kUnknown;           ///< of its ops, without the ops inside them; kUnknown: none
  std::int64_t communication_ns = kUnknown;  ///< of its collectives
  std::int64_t wait_ns = kUnknown;           ///< the host stood still
  std::int64_t bytes = kUnknown;             ///< moved (copies, collectives), sum of what is known
  std::int64_t bytes_unknown = 0;            ///< events that move bytes of unknown number
};
/// The largest total first. `left_out` as in breakdown(). O(n log n).
std::vector<NodeTime> timeByNode(const Trace& trace, const WorkMap& map, const std::vector<bool>& left_out = {});

enum class NodeKey : std::uint8_t { kOp, kModule, kStage, kPhase };
struct GroupTime {
  std::string key;  ///< "" where a node says nothing of it
  std::int64_t total_ns = 0, count = 0, nodes = 0, bytes = 0, bytes_unknown = 0;
};
/// Rows without a node count under their name for kOp, under "" for the rest. The largest total first.
std::vector<GroupTime> timeBy(const Trace& trace, const std::vector<NodeTime>& nodes, NodeKey key);

/// Rates of a device, as its data sheet or a calibration gives them; not known: <= 0.
struct Peak {
  double flops_per_second = 0, bytes_per_second = 0;
};
struct RooflineRow {
  std::size_t row = 0;                  ///< into the list of NodeTime
  double flops_per_second = 0;          ///< achieved
  std::optional<double> intensity;      ///< flops per byte moved, where the bytes are known
  std::optional<double> of_roofline;    ///< achieved / what the peak rates allow; none: no peak given
  bool memory_bound = false;            ///< the bandwidth is the lower roof
};
/// Of the nodes that compute, as far as their flops are known, and that took time; in the order of `nodes`.
std::vector<RooflineRow> roofline(const Trace& trace, const std::vector<NodeTime>& nodes, const Peak& peak);

}  // namespace spscope::trace
