// SPDX-License-Identifier: Apache-2.0
// Whoever started a run hears, while it runs, where every rank process is; and in the end how each ended.
#include <gtest/gtest.h>

#include <set>

#include "core/session/run.h"

namespace spscope::session {
namespace {

TEST(LiveRanks, EveryRankIsToldOfWhileItRunsAndAtItsEnd) {
  RunRequest what;
  what.open.path = SPSCOPE_SOURCE_DIR "/tests/data/zoo/nanogpt.pt2";
  what.settings.sp = 2;
  what.ranks = "gloo";
  what.steps = 200;
  what.program = SPSCOPE_PROGRAM;
  std::vector<RankStatus> last;
  std::set<std::string> phases;
  std::int64_t highest = -1;
  int told = 0;
  bool collective = false;
  what.on_ranks = [&](const std::vector<RankStatus>& ranks) {
    ++told;
    last = ranks;
    for (const RankStatus& r : ranks) {
      phases.insert(r.phase);
      highest = std::max(highest, r.step);
      collective = collective || !r.collective.empty();
      EXPECT_GE(r.silent_ns, 0);
    }
  };
  DiagnosticSink sink;
  Request request;
  request.diagnostics = &sink;
  const auto out = run(what, request);
  ASSERT_TRUE(out) << out.error().format();
  ASSERT_FALSE(out->failure) << out->failure->error.format();
  EXPECT_GE(told, 2);
  ASSERT_EQ(last.size(), 2u);
  for (const RankStatus& r : last) {
    EXPECT_TRUE(r.ended);
    EXPECT_EQ(r.end, "done");
    EXPECT_EQ(r.step, 199);
  }
  EXPECT_EQ(highest, 199);
  EXPECT_TRUE(collective);
  EXPECT_GT(phases.size(), 1u) << "seen at work, not only at the end";
}

}  // namespace
}  // namespace spscope::session
