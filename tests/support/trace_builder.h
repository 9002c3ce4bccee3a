// SPDX-License-Identifier: Apache-2.0
// Traces made by hand, a line an event: times in microseconds, so that a test reads like the picture of it.
#pragma once

#include <string>
#include <string_view>

#include "profiler/trace/trace.h"

namespace spscope::trace::test {

class TraceBuilder {
 public:
  /// Times and byte counts of one call are microseconds (fractions to the ns) and bytes.
  static std::int64_t ns(double us) { return static_cast<std::int64_t>(us * 1000 + (us < 0 ? -0.5 : 0.5)); }

  /// The next rank; what follows names it by its index.
  std::int32_t rank(std::int64_t number, std::string host = {}) {
    trace.ranks.push_back({.number = number, .file = "rank" + std::to_string(number), .host = std::move(host)});
    return static_cast<std::int32_t>(trace.ranks.size()) - 1;
  }
  NodeIndex node(std::string_view name, std::string_view op = "aten.mm.default", std::string_view module = "",
                 Phase phase = Phase::kForward, std::int64_t flops = kUnknown, std::string_view stage = "import") {
    GraphNode n;
    n.id = static_cast<std::int64_t>(trace.nodes.size());
    n.name = trace.strings.intern(name), n.op = trace.strings.intern(op), n.module = trace.strings.intern(module);
    n.stage = trace.strings.intern(stage), n.phase = phase, n.flops = flops;
    trace.nodes.push_back(n);
    return static_cast<NodeIndex>(trace.nodes.size()) - 1;
  }

  EventIndex host(std::int32_t rank, Category category, std::string_view name, double start, double end, std::int64_t thread = 1,
                  NodeIndex node = kNoIndex) {
    return trace.add({.start = ns(start), .end = ns(end), .name = trace.strings.intern(name),
                      .track = trace.thread(rank, 100 + rank, thread), .node = node, .category = category});
  }
  EventIndex op(std::int32_t rank, std::string_view name, double start, double end, std::int64_t thread = 1, NodeIndex node = kNoIndex) {
    return host(rank, Category::kOperator, name, start, end, thread, node);
  }
  EventIndex call(std::int32_t rank, std::int64_t correlation, double start, double end, std::string_view name = "cudaLaunchKernel",
                  std::int64_t thread = 1) {
    const EventIndex i = host(rank, Category::kRuntime, name, start, end, thread);
    trace.events.correlation[static_cast<std::size_t>(i)] = correlation;
    return i;
  }
  EventIndex device(std::int32_t rank, Category category, std::string_view name, double start, double end, std::int64_t stream = 7,
                    std::int64_t correlation = 0, std::int64_t device = 0) {
    return trace.add({.start = ns(start), .end = ns(end), .correlation = correlation, .name = trace.strings.intern(name),
                      .track = trace.stream(rank, device, 1, stream), .category = category});
  }
  EventIndex kernel(std::int32_t rank, std::string_view name, double start, double end, std::int64_t stream = 7,
                    std::int64_t correlation = 0, std::int64_t of_device = 0) {
    return device(rank, Category::kKernel, name, start, end, stream, correlation, of_device);
  }
  /// Makes an event a rank's part in a collective.
  void collective(std::int32_t rank, EventIndex event, std::string_view kind, std::int64_t sequence, std::int64_t bytes = kUnknown,
                  std::int64_t group_size = kUnknown, EventIndex wait = kNoIndex, std::string_view group = "sp") {
    trace.collectives.push_back({.kind = trace.strings.intern(kind), .group = trace.strings.intern(group), .sequence = sequence,
                                 .bytes = bytes, .group_size = group_size, .rank = rank, .event = event, .wait = wait});
  }
  /// A collective of the host that is waited for in its last part.
  void exchange(std::int32_t rank, std::int64_t sequence, double start, double wait_from, double end, std::int64_t bytes = kUnknown,
                std::int64_t group_size = kUnknown, std::string_view kind = "all_to_all") {
    const EventIndex whole = host(rank, Category::kCollective, kind, start, end);
    const EventIndex wait = host(rank, Category::kWait, "wait", wait_from, end);
    collective(rank, whole, kind, sequence, bytes, group_size, wait);
  }
  void memory(std::int32_t rank, double time, std::int64_t bytes, std::int64_t address = kUnknown, std::string_view memory_class = "",
              NodeIndex node = kNoIndex, std::int32_t on_device = -1) {
    trace.memory.push_back({.time = ns(time), .bytes = bytes, .address = address, .node = node, .rank = rank, .device = on_device,
                            .memory_class = trace.strings.intern(memory_class)});
  }
  void flow(EventIndex from, EventIndex to, std::string_view kind = "fwdbwd") {
    trace.flows.push_back({from, to, trace.strings.intern(kind)});
  }

  Trace trace;
};

}  // namespace spscope::trace::test
