// SPDX-License-Identifier: Apache-2.0
// The pictures of a trace: well-formed, of bounded size, with what was there in them.
#include "profiler/export/pictures.h"

#include <gmock/gmock.h>

#include "profiler/analyze/analysis.h"
#include "profiler/export/svg.h"
#include "profiler/trace/lanes.h"
#include "tests/support/random_trace.h"

namespace spscope::trace {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Elements close in the order in which they open, attributes are quoted, and there is nothing that XML forbids.
void expectWellFormed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t i = 0; i < xml.size(); ++i) {
    ASSERT_TRUE(xml[i] == '\n' || xml[i] == '\t' || static_cast<unsigned char>(xml[i]) >= 0x20);
    ASSERT_TRUE(xml[i] != '&' || xml.find(';', i) != std::string::npos);
    if (xml[i] != '<') continue;
    const std::size_t end = xml.find('>', i);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = xml.substr(i + 1, end - i - 1);
    ASSERT_EQ(tag.find('<'), std::string::npos) << tag;
    ASSERT_EQ(std::count(tag.begin(), tag.end(), '"') % 2, 0) << tag;
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), tag.substr(1));
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
    i = end;
  }
  ASSERT_TRUE(open.empty());
}

TEST(Pictures, OfRandomTracesAreWellFormed) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Trace trace = RandomTrace(seed).make(static_cast<int>(seed * 20));
    const auto analysis = analyze(trace);
    ASSERT_TRUE(analysis);
    for (const Picture& p : {timelinePicture(trace), breakdownPicture(trace, analysis->breakdown), memoryPicture(trace, analysis->memory)}) {
      if (!p.svg.empty()) expectWellFormed(p.svg);
      EXPECT_THAT(p.svg, Not(HasSubstr("nan")));
      EXPECT_THAT(p.svg, Not(HasSubstr("script")));
      EXPECT_THAT(p.svg, Not(HasSubstr("-9223372036854775808")));
    }
  }
}

TEST(Pictures, OfAnEmptyTraceAreEmpty) {
  const Trace trace;
  EXPECT_EQ(timelinePicture(trace).svg, "");
  EXPECT_EQ(breakdownPicture(trace, {}).svg, "");
  EXPECT_EQ(memoryPicture(trace, {}).svg, "");
}

TEST(Pictures, TheTimelineNamesEventsWithTheirNode) {
  Trace t;
  t.ranks.emplace_back();
  t.ranks[0].number = 5;
  t.nodes.push_back({.id = 3, .name = t.strings.intern("%mm_3"), .module = t.strings.intern("layers.0"), .source = t.strings.intern("model.py:41")});
  t.add({.start = 1000000, .end = 3000000, .name = t.strings.intern("aten::mm<&>"), .track = t.thread(0, 1, 2), .node = 0, .category = Category::kOperator});
  const Picture p = timelinePicture(t);
  EXPECT_THAT(p.svg, HasSubstr("rank 5"));
  EXPECT_THAT(p.svg, HasSubstr("<title>aten::mm&lt;&amp;&gt;\n2.0 ms at 0 ns\n%mm_3\nlayers.0\nmodel.py:41</title>"));
}

TEST(Pictures, TheTimelineOfManyEventsIsBounded) {
  Trace t;
  t.ranks.emplace_back();
  const StringId name = t.strings.intern("k");
  for (int i = 0; i < 300000; ++i) t.add({.start = 100 * i, .end = 100 * i + 60, .name = name, .track = t.stream(0, 0, 1, i % 20), .category = Category::kKernel});
  const Picture p = timelinePicture(t);
  EXPECT_LT(p.svg.size(), 4u << 20);
  EXPECT_THAT(p.svg, HasSubstr("events, the longest:"));
  EXPECT_THAT(p.note, HasSubstr("12 tracks"));
}

TEST(Pictures, TheBreakdownHasEachPartWithItsShare) {
  Trace t;
  t.ranks.emplace_back();
  Breakdown b;
  b.lane.rank = 0, b.lane.host = true;
  b.span_ns = 1000, b.compute_ns = 500, b.exposed_communication_ns = 250, b.exposed_memory_ns = 0, b.idle_ns = 250, b.communication_ns = 500, b.overlapped_communication_ns = 250;
  Breakdown absent;
  absent.absent = "nothing was recorded";
  const Picture p = breakdownPicture(t, {b, absent});
  for (const char* text : {"compute 500 ns (50.0%)", "exposed communication 250 ns (25.0%)", "idle 250 ns (25.0%)", "communication under compute 250 ns (50.0%)", "nothing was recorded"}) EXPECT_THAT(p.svg, HasSubstr(text));
  EXPECT_THAT(p.svg, Not(HasSubstr("copies and sets 0")));
}

TEST(Pictures, TheMemoryCurveKeepsItsPeak) {
  Trace t;
  t.ranks.emplace_back();
  MemoryUse u;
  u.peak_bytes = 1000000, u.peak_ns = 77777, u.predicted_peak = 999;
  for (int i = 0; i < 200000; ++i) u.curve.push_back({i, i == 77777 ? 1000000 : 1000});
  const Picture p = memoryPicture(t, {u});
  EXPECT_LT(p.svg.size(), 200u << 10);
  EXPECT_THAT(p.svg, HasSubstr("peak 977 KiB, predicted 999 B"));
  // The top of the picture is the peak: a point of the line lies there, and only there.
  EXPECT_THAT(p.svg, HasSubstr(",30.0 "));
}

TEST(Pictures, AxisTicksAreRoundNumbers) {
  EXPECT_EQ(axisTicks(1000), (std::vector<std::int64_t>{0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000}));
  for (const std::int64_t span : std::initializer_list<std::int64_t>{1, 7, 999, 123456789, INT64_MAX / 2, INT64_MAX}) {
    EXPECT_GE(axisTicks(span).size(), 2u) << span;
    EXPECT_LE(axisTicks(span).size(), 12u) << span;
  }
}

TEST(Lanes, WaitsOnAStreamDoNotPushItsWorkAside) {
  Trace t;
  t.ranks.emplace_back();
  const TrackIndex stream = t.stream(0, 0, 1, 7);
  t.add({.start = 0, .end = 100, .track = stream, .category = Category::kSynchronize});
  t.add({.start = 50, .end = 150, .track = stream, .category = Category::kKernel});
  const std::vector<LanePlace> places = lanesOf(t, eventsByStart(t));
  EXPECT_EQ(places[0].lane, 1);
  EXPECT_EQ(places[1].lane, 0);
  EXPECT_FALSE(places[0].split || places[1].split);
}

}  // namespace
}  // namespace spscope::trace
