// SPDX-License-Identifier: Apache-2.0
// Memory, time by node, statistics, queues, comparison of traces.
#include "profiler/analyze/nodes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "profiler/analyze/compare.h"
#include "profiler/analyze/memory.h"
#include "profiler/analyze/queue.h"
#include "profiler/analyze/statistics.h"
#include "tests/support/trace_builder.h"

namespace spscope::trace {
namespace {

using test::TraceBuilder;

std::string textOf(const Trace& t, StringId id) { return std::string(t.strings.text(id)); }

TEST(Memory, PeakByClassAndNodeAgainstThePrediction) {
  TraceBuilder b;
  const auto r0 = b.rank(3), r1 = b.rank(4);
  const NodeIndex mm = b.node("mm"), tanh = b.node("tanh");
  b.memory(r0, 0, 1000, 1, "parameters");
  b.memory(r0, 10, 300, 2, "saved activations", mm);
  b.memory(r0, 20, 500, 3, "temporaries", mm);
  b.memory(r0, 25, -500, 3);
  b.memory(r0, 30, 400, 4, "saved activations", tanh);
  b.memory(r0, 35, 200, 5, "temporaries", tanh);  // the peak: 1900
  b.memory(r0, 40, -300, 2), b.memory(r0, 50, -400, 4);
  b.memory(r1, 5, 70, 1, "parameters");
  b.trace.properties["predicted_peak.3"] = "1900";
  b.trace.properties["predicted_peak.4"] = "unknown";
  const auto use = memoryUse(b.trace);
  ASSERT_EQ(use.size(), 2u);
  EXPECT_EQ(use[0].peak_bytes, 1900);
  EXPECT_EQ(use[0].peak_ns, 35'000);
  EXPECT_EQ(use[0].peak_node, tanh);
  EXPECT_EQ(use[0].predicted_peak, 1900);
  EXPECT_EQ(use[0].before_recording, kUnknown);
  ASSERT_EQ(use[0].at_peak.size(), 3u);
  EXPECT_EQ(textOf(b.trace, use[0].at_peak[0].memory_class), "parameters");
  EXPECT_EQ(use[0].at_peak[0].bytes, 1000);
  EXPECT_EQ(textOf(b.trace, use[0].at_peak[1].memory_class), "saved activations");
  EXPECT_EQ(use[0].at_peak[1].bytes, 700);
  EXPECT_EQ(use[0].at_peak[2].bytes, 200);
  EXPECT_EQ(use[0].curve.size(), 8u);
  EXPECT_EQ(use[0].curve.back().live, 1200);
  EXPECT_EQ(use[1].peak_bytes, 70);
  EXPECT_EQ(use[1].predicted_peak, kUnknown);
}

TEST(Memory, FreesOfWhatWasThereBeforeGiveALowerBound) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.memory(r, 0, 100, 1), b.memory(r, 1, -700, 9), b.memory(r, 2, 50, 2);
  const auto use = memoryUse(b.trace);
  EXPECT_EQ(use[0].before_recording, 600);
  EXPECT_EQ(use[0].peak_bytes, 700);
  EXPECT_EQ(use[0].curve[1].live, 0);
}

TEST(Memory, WhatTheAllocatorSaysCounts) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.memory(r, 0, 100, 1, "", kNoIndex, 1), b.memory(r, 5, 100, 2, "", kNoIndex, 1);
  b.trace.memory[0].live = 5100, b.trace.memory[0].reserved = 9000;
  b.trace.memory[1].live = 5200, b.trace.memory[1].reserved = 8000;
  const auto use = memoryUse(b.trace);
  EXPECT_EQ(use[0].device, 1);
  EXPECT_EQ(use[0].peak_bytes, 5200);
  EXPECT_EQ(use[0].peak_reserved, 9000);
  EXPECT_EQ(use[0].before_recording, 5000);
}

TEST(FieldCases, TR_36_allocated_freed_and_net_stand_apart) {
  TraceBuilder b;
  const auto r = b.rank(0);
  const NodeIndex frees = b.node("frees"), both = b.node("both");
  b.memory(r, 0, 100, 1, "", both), b.memory(r, 1, 40, 2, "", both), b.memory(r, 2, -40, 2, "", both);
  b.memory(r, 3, -100, 1, "", frees);
  const auto rows = memoryByNode(b.trace);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].node, both);
  EXPECT_EQ(rows[0].allocated, 140);
  EXPECT_EQ(rows[0].freed, 40);
  EXPECT_EQ(rows[0].net(), 100);
  EXPECT_EQ(rows[1].allocated, 0);
  EXPECT_EQ(rows[1].freed, 100);
  EXPECT_EQ(rows[1].frees, 1);
}

TEST(FieldCases, TR_37_classes_are_a_view_that_can_be_done_again) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.memory(r, 0, 100, 1, "parameters"), b.memory(r, 1, 30, 2, "parameters");
  const StringId big = b.trace.strings.intern("big"), small = b.trace.strings.intern("small");
  const auto again = memoryUse(b.trace, [&](const MemoryEvent& m) { return m.bytes >= 50 ? big : small; });
  ASSERT_EQ(again[0].at_peak.size(), 2u);
  EXPECT_EQ(again[0].at_peak[0].memory_class, big);
  EXPECT_EQ(again[0].at_peak[0].bytes, 100);
  EXPECT_EQ(textOf(b.trace, b.trace.memory[1].memory_class), "parameters");  // the events are what they were
  EXPECT_EQ(memoryUse(b.trace)[0].at_peak.size(), 1u);
}

TEST(Memory, NoneRecordedIsNoUse) {
  TraceBuilder b;
  b.rank(0);
  EXPECT_TRUE(memoryUse(b.trace).empty());
}

TEST(Nodes, OfTheHostTakeTheirOpsTimeWithoutOpsInside) {
  TraceBuilder b;
  const auto r0 = b.rank(0), r1 = b.rank(1);
  const NodeIndex mm = b.node("mm", "aten.mm.default", "layers.0.mlp", Phase::kForward, 2'000'000);
  const NodeIndex a2a = b.node("a2a", "sp.all_to_all", "layers.0.attn", Phase::kForward, kUnknown, "insert-all-to-all");
  for (const auto r : {r0, r1}) {
    b.op(r, "mm", 0, 10, 1, mm), b.op(r, "mm", 20, 40, 1, mm);
    b.op(r, "a2a", 40, 41, 1, a2a);
    const EventIndex whole = b.host(r, Category::kCollective, "all_to_all", 40, 70, 1, a2a);
    b.trace.events.bytes[static_cast<std::size_t>(whole)] = 512;
    b.host(r, Category::kWait, "wait", 60, 70, 1, a2a);
  }
  const auto rows = timeByNode(b.trace, classifyWork(b.trace));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].node, mm);
  EXPECT_EQ(rows[0].total_ns, 60'000);
  EXPECT_EQ(rows[0].count, 4);
  EXPECT_EQ(rows[0].device_ns, kUnknown);
  EXPECT_EQ(rows[0].bytes, kUnknown);
  EXPECT_EQ(rows[1].total_ns, 2'000);
  EXPECT_EQ(rows[1].communication_ns, 60'000);
  EXPECT_EQ(rows[1].wait_ns, 20'000);
  EXPECT_EQ(rows[1].bytes, 1024);

  const auto by_module = timeBy(b.trace, rows, NodeKey::kModule);
  EXPECT_EQ(by_module[0].key, "layers.0.mlp");
  EXPECT_EQ(by_module[0].total_ns, 60'000);
  const auto by_stage = timeBy(b.trace, rows, NodeKey::kStage);
  EXPECT_EQ(by_stage[1].key, "insert-all-to-all");
  EXPECT_EQ(by_stage[1].bytes, 1024);
  EXPECT_EQ(timeBy(b.trace, rows, NodeKey::kOp)[0].key, "aten.mm.default");
  EXPECT_EQ(timeBy(b.trace, rows, NodeKey::kPhase)[0].key, "forward");

  const auto roof = roofline(b.trace, rows, {.flops_per_second = 1e12});
  ASSERT_EQ(roof.size(), 1u);  // only where the flops are known
  EXPECT_DOUBLE_EQ(roof[0].flops_per_second, 4 * 2e6 / 60e-6);
  EXPECT_DOUBLE_EQ(roof[0].of_roofline.value(), 4 * 2e6 / 60e-6 / 1e12);
  EXPECT_FALSE(roof[0].intensity.has_value());
  EXPECT_FALSE(roofline(b.trace, rows, {})[0].of_roofline.has_value());
}

TEST(Nodes, ALowBandwidthIsTheLowerRoof) {
  TraceBuilder b;
  const auto r = b.rank(0);
  const NodeIndex mm = b.node("mm", "aten.mm.default", "", Phase::kForward, 1000);
  const EventIndex i = b.op(r, "mm", 0, 1, 1, mm);
  b.trace.events.bytes[static_cast<std::size_t>(i)] = 500;
  const auto rows = timeByNode(b.trace, classifyWork(b.trace));
  const auto roof = roofline(b.trace, rows, {.flops_per_second = 1e12, .bytes_per_second = 1e9});
  ASSERT_EQ(roof.size(), 1u);
  EXPECT_DOUBLE_EQ(roof[0].intensity.value(), 2);
  EXPECT_TRUE(roof[0].memory_bound);
  EXPECT_DOUBLE_EQ(roof[0].of_roofline.value(), 1e9 / 2e9);
}

TEST(FieldCases, TR_27_device_work_finds_its_op_by_id_whatever_the_clocks_say) {
  TraceBuilder b;
  const auto r = b.rank(0);
  const NodeIndex mm = b.node("mm"), add = b.node("add");
  const EventIndex op_mm = b.op(r, "aten::mm", 0, 10, 1, mm), op_add = b.op(r, "aten::add", 10, 20, 1, add);
  b.op(r, "aten::empty", 1, 3);
  b.trace.events.external[static_cast<std::size_t>(op_mm)] = 41;
  b.trace.events.external[static_cast<std::size_t>(op_add)] = 42;
  const EventIndex by_external = b.kernel(r, "gemm", 12, 19);  // lies under add by the clock, and is mm's
  b.trace.events.external[static_cast<std::size_t>(by_external)] = 41;
  b.call(r, 5, 15, 16);
  const EventIndex by_launch = b.kernel(r, "vectorized", 500, 530, 7, 5);
  const EventIndex nobodys = b.kernel(r, "stray", 600, 601);
  const Attribution cause = attribute(b.trace);
  EXPECT_EQ(cause.node[static_cast<std::size_t>(by_external)], mm);
  EXPECT_EQ(cause.node[static_cast<std::size_t>(by_launch)], add);
  EXPECT_EQ(textOf(b.trace, cause.op[static_cast<std::size_t>(by_launch)]), "aten::add");
  EXPECT_EQ(cause.node[static_cast<std::size_t>(nobodys)], kNoIndex);
  const auto rows = timeByNode(b.trace, classifyWork(b.trace));
  EXPECT_EQ(rows[0].node, add);
  EXPECT_EQ(rows[0].total_ns, 30'000);
  EXPECT_EQ(rows[0].host_ns, 10'000);
  EXPECT_EQ(rows[1].node, mm);
  EXPECT_EQ(rows[1].total_ns, 7'000);
  EXPECT_EQ(rows[1].host_ns, 10'000);  // aten::empty inside it bears the same node
  EXPECT_EQ(rows[1].count, 2);
  EXPECT_EQ(rows[2].name, 0u);         // not attributed, and shown
  EXPECT_EQ(rows[2].total_ns, 1'000);
}

TEST(Nodes, RangesOfPyTorchAreOneOpWhateverTheirNumbers) {
  TraceBuilder b;
  const auto r = b.rank(0);
  for (int i = 0; i < 3; ++i) {
    b.host(r, Category::kRange, "aten::mm, seq = " + std::to_string(i) + ", op_id = 7", 10 * i, 10 * i + 5);
    b.call(r, i + 1, 10 * i + 1, 10 * i + 2), b.kernel(r, "gemm", 10 * i + 3, 10 * i + 7, 7, i + 1);
  }
  const auto rows = timeByNode(b.trace, classifyWork(b.trace));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].total_ns, 12'000);
  EXPECT_EQ(plainOpName(b.trace.strings.text(rows[0].name)), "aten::mm");
}

TEST(FieldCases, TR_39_what_is_not_known_is_counted_apart_not_added_as_zero) {
  TraceBuilder b;
  const auto r = b.rank(0);
  const EventIndex known = b.device(r, Category::kMemcpy, "Memcpy HtoD", 0, 10);
  b.device(r, Category::kMemcpy, "Memcpy HtoD", 20, 30);
  b.trace.events.bytes[static_cast<std::size_t>(known)] = 64;
  const WorkMap map = classifyWork(b.trace);
  const auto names = totalsByName(b.trace, map);
  EXPECT_EQ(names[0].bytes, 64);
  EXPECT_EQ(names[0].bytes_unknown, 1);
  const auto rows = timeByNode(b.trace, map);
  EXPECT_EQ(rows[0].bytes, 64);
  EXPECT_EQ(rows[0].bytes_unknown, 1);
  b.trace.events.bytes[static_cast<std::size_t>(known)] = kUnknown;
  EXPECT_EQ(timeByNode(b.trace, map)[0].bytes, kUnknown);
}

TEST(FieldCases, TR_14_statistics_of_one_have_no_deviation_and_of_none_do_not_exist) {
  EXPECT_FALSE(statisticsOf({}).has_value());
  const Statistics one = statisticsOf({7}).value();
  EXPECT_EQ(one.count, 1);
  EXPECT_EQ(one.mean, 7);
  EXPECT_EQ(one.median, 7);
  EXPECT_FALSE(one.deviation.has_value());
}

TEST(Statistics, AsPandasHasThem) {
  const Statistics s = statisticsOf({4, 1, 2, 10}).value();
  EXPECT_DOUBLE_EQ(s.mean, 4.25);
  EXPECT_DOUBLE_EQ(s.lower_quartile, 1.75);
  EXPECT_DOUBLE_EQ(s.median, 3);
  EXPECT_DOUBLE_EQ(s.upper_quartile, 5.5);
  EXPECT_DOUBLE_EQ(s.deviation.value(), std::sqrt((0.0625 + 10.5625 + 5.0625 + 33.0625) / 3));
  // Absolute times: their squares would not fit a double.
  EXPECT_DOUBLE_EQ(statisticsOf({1'700'000'000'000'000'000, 1'700'000'000'000'000'512}).value().deviation.value(), 512 / std::sqrt(2.0));
}

TEST(Statistics, ByNameWithTheLongestFirst) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.kernel(r, "short", 0, 1), b.kernel(r, "long", 1, 10), b.kernel(r, "short", 10, 13);
  b.host(r, Category::kInstant, "mark", 5, 5);
  const auto names = totalsByName(b.trace, classifyWork(b.trace));
  ASSERT_EQ(names.size(), 2u);
  EXPECT_EQ(textOf(b.trace, names[0].name), "long");
  EXPECT_EQ(names[0].total_ns, 9'000);
  EXPECT_EQ(names[1].statistics.count, 2);
  EXPECT_DOUBLE_EQ(names[1].statistics.mean, 2'000);
  EXPECT_EQ(names[1].work, Work::kCompute);
}

TEST(Queue, CountsWhatIsLaunchedAndNotStarted) {
  TraceBuilder b;
  const auto r = b.rank(0);
  for (int i = 0; i < 4; ++i) b.call(r, i + 1, i, i + 0.5), b.kernel(r, "k", 10 + 10 * i, 20 + 10 * i, 7, i + 1);
  b.kernel(r, "stray", 0, 5, 8);
  const auto queues = queueLengths(b.trace);
  ASSERT_EQ(queues.size(), 2u);
  EXPECT_EQ(queues[0].launched, 4);
  EXPECT_EQ(queues[0].length->max, 4);   // 1 2 3 4 3 2 1 0
  EXPECT_EQ(queues[0].length->min, 0);
  EXPECT_EQ(queues[0].length->count, 8);
  EXPECT_DOUBLE_EQ(queues[0].length->mean, 2);
  EXPECT_FALSE(queues[1].length.has_value());  // no launch is known
}

TEST(Compare, OtherNumbersOfStepsAreComparedPerExecution) {
  TraceBuilder a, b;
  a.rank(0), b.rank(0);
  for (int step = 0; step < 2; ++step) a.kernel(0, "gemm", 100.0 * step, 100.0 * step + 10);
  for (int step = 0; step < 6; ++step) b.kernel(0, "gemm", 100.0 * step, 100.0 * step + 8);
  const Comparison c = compareTraces(a.trace, b.trace);
  ASSERT_EQ(c.changed.size(), 1u);
  EXPECT_EQ(c.counts_differ, 1);
  EXPECT_TRUE(c.changed[0].counts_differ);
  EXPECT_EQ(c.changed[0].aEachNs(), 10'000);
  EXPECT_EQ(c.changed[0].bEachNs(), 8'000);
  EXPECT_EQ(c.changed[0].changeNs(), -2'000);  // faster, though its total is larger
}

TEST(Compare, AddedRemovedChangedSame) {
  TraceBuilder a, b;
  a.rank(0), b.rank(0);
  a.kernel(0, "gemm", 0, 10), a.kernel(0, "gone", 10, 12), a.kernel(0, "same", 12, 13), a.op(0, "aten::mm", 0, 5);
  b.kernel(0, "gemm", 0, 25), b.kernel(0, "gemm", 30, 35), b.kernel(0, "new", 35, 36), b.kernel(0, "same", 40, 41), b.op(0, "aten::mm", 0, 5);
  const Comparison c = compareTraces(a.trace, b.trace);
  ASSERT_EQ(c.added.size(), 1u);
  EXPECT_EQ(c.added[0].name, "new");
  EXPECT_FALSE(c.added[0].a_ns.has_value());
  ASSERT_EQ(c.removed.size(), 1u);
  EXPECT_EQ(c.removed[0].name, "gone");
  ASSERT_EQ(c.changed.size(), 1u);
  EXPECT_EQ(c.changed[0].name, "gemm");
  EXPECT_EQ(c.changed[0].kind, "kernel");
  EXPECT_EQ(*c.changed[0].a_ns, 10'000);
  EXPECT_EQ(*c.changed[0].b_ns, 30'000);
  EXPECT_EQ(*c.changed[0].b_count, 2);
  EXPECT_EQ(c.same, 2);
}

}  // namespace
}  // namespace spscope::trace
