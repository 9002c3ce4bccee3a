// SPDX-License-Identifier: Apache-2.0
// The passes for collectives on programs that nobody would write: whatever is legal goes through, stays legal, sends no more,
// needs no more memory for being overlapped, and issues the same on every rank. (tests/unit/torch runs such programs.)
#include <gtest/gtest.h>

#include <map>

#include "core/ir/text.h"
#include "core/ir/verifier.h"
#include "core/ir/verify_collectives.h"
#include "passes/comm/comm_bytes.h"
#include "passes/manager.h"
#include "passes/registry.h"
#include "tests/support/random_joint.h"

namespace spscope::passes {
namespace {

std::map<std::string, CollectiveTotal> totals(const ir::Graph& graph, bool fused) {
  std::map<std::string, CollectiveTotal> out;
  for (const CollectiveTotal& t : collectiveTotals(graph, fused)) out[t.kind] = t;
  return out;
}

TEST(CommRandom, AnyLegalProgramGoesThrough) {
  std::int64_t collectives = 0, removed = 0, together = 0, moved = 0, in_place = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const testing::RandomJoint program(seed);
    Settings settings;
    settings.sp = static_cast<int>(program.graphs.size());
    settings.bucket_bytes = seed % 3 == 0 ? 64 : 1 << 20;
    std::string first;
    for (const ir::Graph& graph : program.graphs) {
      ASSERT_TRUE(ir::verifyGraph(graph)) << ir::verifyGraph(graph).error().format() << ir::printGraph(graph);
      PassContext context{settings};
      context.rank = graph.rank;
      const PipelineResult result = runPipeline(std::make_shared<ir::Graph>(graph),
          {*findPass("simplify-joint"), *findPass("fuse-collectives"), *findPass("overlap-collectives")}, context, {});
      ASSERT_FALSE(result.failure) << result.failure->format() << ir::printGraph(graph);

      const auto before = totals(graph, false), after = totals(*result.graph, false);
      for (const auto& [kind, total] : after) {
        ASSERT_TRUE(before.contains(kind)) << kind;
        EXPECT_LE(total.count, before.at(kind).count) << kind;
        EXPECT_LE(total.bytes, before.at(kind).bytes) << kind;
        EXPECT_LE(totals(*result.graph, true).at(kind).count, total.count) << kind;
        collectives += total.count;
        together += total.count - totals(*result.graph, true).at(kind).count;
      }
      for (const auto& [kind, total] : before) removed += total.count - (after.contains(kind) ? after.at(kind).count : 0);
      ASSERT_EQ(result.stages.size(), 3u);
      auto fused = result.stages[1].statistics, overlapped = result.stages[2].statistics;
      EXPECT_LE(overlapped["predicted-peak-bytes"], fused["predicted-peak-bytes"]);
      moved += overlapped["moved"], in_place += fused["in-place"];

      const auto sequence = ir::collectiveSequence(*result.graph);
      ASSERT_TRUE(sequence);
      if (graph.rank == 0) first = *sequence;
      EXPECT_EQ(*sequence, first) << "rank " << graph.rank;
      if (seed % 4 == 0) {  // once more, on what is done already
        const PipelineResult again = runPipeline(result.graph,
            {*findPass("fuse-collectives"), *findPass("simplify-joint"), *findPass("overlap-collectives")}, context, {});
        EXPECT_FALSE(again.failure) << again.failure->format();
        EXPECT_FALSE(again.stages.empty() || again.stages[0].changed);
      }
      if (HasFailure()) FAIL() << ir::printGraph(graph) << ir::printGraph(*result.graph);
    }
  }
  // The programs are worth it.
  EXPECT_GT(collectives, 10000);
  EXPECT_GT(removed, 500);
  EXPECT_GT(together, 2000);
  EXPECT_GT(moved, 5000);
  EXPECT_GT(in_place, 1000);
}

}  // namespace
}  // namespace spscope::passes
