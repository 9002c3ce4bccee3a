// SPDX-License-Identifier: Apache-2.0
// The trace in memory: columns keep what was appended, names are interned once, problems are counted with their first place.
#include "profiler/trace/trace.h"

#include <gtest/gtest.h>

#include <set>

namespace spscope::trace {
namespace {

TEST(Trace, ColumnsGiveBackWhatWasAppended) {
  Trace trace;
  const Event event{.start = 5, .end = 9, .correlation = 1LL << 60, .external = 3, .bytes = 0,
                    .name = trace.strings.intern("k"), .track = trace.stream(0, 0, 1, 7), .node = 4, .detail = 2,
                    .category = Category::kKernel, .flags = kRepaired};
  const Event got = trace.event(trace.add(event));
  EXPECT_EQ(got.start, 5);
  EXPECT_EQ(got.end, 9);
  EXPECT_EQ(got.correlation, 1LL << 60);
  EXPECT_EQ(got.external, 3);
  EXPECT_EQ(got.bytes, 0);
  EXPECT_EQ(trace.strings.text(got.name), "k");
  EXPECT_EQ(got.node, 4);
  EXPECT_EQ(got.detail, 2);
  EXPECT_EQ(got.category, Category::kKernel);
  EXPECT_EQ(got.flags, kRepaired);
  EXPECT_EQ(trace.event(trace.add({})).bytes, kUnknown);
}

TEST(Trace, AnEventTakesAtMost64Bytes) {
  const Events e;
  const std::size_t row = sizeof(e.start[0]) + sizeof(e.end[0]) + sizeof(e.correlation[0]) + sizeof(e.external[0]) +
                          sizeof(e.bytes[0]) + sizeof(e.name[0]) + sizeof(e.track[0]) + sizeof(e.node[0]) +
                          sizeof(e.detail[0]) + sizeof(e.category[0]) + sizeof(e.flags[0]);
  EXPECT_LE(row, 64u);
}

TEST(Trace, TracksAreMadeOnce) {
  Trace trace;
  const TrackIndex a = trace.thread(0, 10, 11);
  EXPECT_EQ(trace.thread(0, 10, 11), a);
  EXPECT_NE(trace.thread(1, 10, 11), a);
  EXPECT_NE(trace.stream(0, 10, 11, 0), a);
  EXPECT_EQ(trace.tracks.size(), 3u);
}

TEST(Trace, ParentsComeBeforeTheirChildren) {
  Trace trace;
  trace.add({.start = 10, .end = 20});
  trace.add({.start = 10, .end = 50});
  trace.add({.start = 5, .end = 6});
  EXPECT_EQ(eventsByStart(trace), (std::vector<EventIndex>{2, 1, 0}));
}

TEST(Trace, NamesAreInternedOnceAndMoveWithThePool) {
  StringPool pool;
  const StringId id = pool.intern("ncclDevKernel");
  EXPECT_EQ(pool.intern("ncclDevKernel"), id);
  EXPECT_EQ(pool.intern(""), 0u);
  StringPool moved = std::move(pool);
  EXPECT_EQ(moved.text(id), "ncclDevKernel");
  ASSERT_NE(moved.find("ncclDevKernel"), nullptr);
  EXPECT_EQ(moved.find("absent"), nullptr);
}

TEST(Trace, ProblemsAreCountedWithTheFirstPlace) {
  Problems problems;
  problems.count(Problem::kBadUtf8, "byte 3");
  problems.count(Problem::kBadUtf8, "byte 9", 2);
  problems.count(Problem::kTruncated, "byte 10", 0);
  EXPECT_EQ(problems.countOf(Problem::kBadUtf8), 3);
  EXPECT_EQ(problems.all().at(Problem::kBadUtf8).first, "byte 3");
  EXPECT_EQ(problems.all().size(), 1u);
}

TEST(Trace, EveryProblemHasItsOwnName) {
  std::set<std::string_view> names;
  for (int i = 0; i < kProblems; ++i) {
    const ProblemInfo& info = problemInfo(static_cast<Problem>(i));
    EXPECT_FALSE(info.name.empty());
    EXPECT_FALSE(info.meaning.empty());
    names.insert(info.name);
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kProblems));
}

}  // namespace
}  // namespace spscope::trace
