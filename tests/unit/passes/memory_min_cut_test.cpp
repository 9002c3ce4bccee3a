// SPDX-License-Identifier: Apache-2.0
// The inner solver against brute force, and the cases that break partitioners (field cases AC-05, AC-11, AC-12).
#include "passes/memory/min_cut.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace spscope::passes {
namespace {

CutProblem randomProblem(std::mt19937& random) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  CutProblem problem;
  const int ops = 1 + pick(12);
  for (int o = 0; o < ops; ++o) {
    CutProblem::Op op;
    op.cost = 1 + pick(40);
    op.banned = pick(5) == 0;
    const int known = static_cast<int>(problem.storages.size());
    for (int i = pick(3); i > 0 && known > 0; --i) {
      const int s = pick(known);
      if (std::find(op.reads.begin(), op.reads.end(), s) == op.reads.end()) op.reads.push_back(s);
    }
    for (int i = 1 + (pick(4) == 0); i > 0; --i) {
      op.writes.push_back(static_cast<std::int32_t>(problem.storages.size()));
      problem.storages.push_back({pick(50), pick(3) == 0, pick(8) == 0});
    }
    problem.ops.push_back(op);
  }
  return problem;
}

/// Cost of running exactly these ops again, or max where that is impossible. Everything needed that no re-run op makes
/// is kept; an op that makes what is never kept runs again for nothing.
double costOf(const CutProblem& problem, double price, unsigned rerun_mask) {
  double cost = 0;
  std::vector<bool> wanted(problem.storages.size(), false);
  for (std::size_t s = 0; s < problem.storages.size(); ++s) wanted[s] = problem.storages[s].needed;
  for (std::size_t o = 0; o < problem.ops.size(); ++o) {
    if (!(rerun_mask >> o & 1)) continue;
    bool forced = false;
    if (problem.ops[o].banned) return std::numeric_limits<double>::max();
    const auto never = [&](std::int32_t s) { return problem.storages[static_cast<std::size_t>(s)].never_kept; };
    if (std::any_of(problem.ops[o].writes.begin(), problem.ops[o].writes.end(), never)) forced = true;
    if (!forced) cost += static_cast<double>(std::llround(price * static_cast<double>(problem.ops[o].cost)));
    for (const std::int32_t s : problem.ops[o].reads) wanted[static_cast<std::size_t>(s)] = true;
  }
  for (std::size_t o = 0; o < problem.ops.size(); ++o)
    if (!(rerun_mask >> o & 1))
      for (const std::int32_t s : problem.ops[o].writes)
        if (wanted[static_cast<std::size_t>(s)]) {
          const CutProblem::Storage& storage = problem.storages[static_cast<std::size_t>(s)];
          if (storage.never_kept && !problem.ops[o].banned) return std::numeric_limits<double>::max();
          cost += static_cast<double>(storage.bytes);
        }
  return cost;
}

TEST(MinCut, EqualsBruteForceOnSmallGraphs) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const CutProblem problem = randomProblem(random);
    const double price = std::array{0.0, 0.1, 0.7, 1.0, 3.0, 1e9}[round % 6];
    double best = std::numeric_limits<double>::max();
    for (unsigned mask = 0; mask < 1u << problem.ops.size(); ++mask) best = std::min(best, costOf(problem, price, mask));

    const CutSolution solution = solveCut(problem, price);
    unsigned mask = 0;
    for (std::size_t o = 0; o < problem.ops.size(); ++o) mask |= solution.rerun[o] ? 1u << o : 0;
    ASSERT_EQ(costOf(problem, price, mask), best) << "round " << round << " price " << price;
    // The solution is complete: what is needed is kept or made again, and so is whatever a re-run op reads.
    for (std::size_t s = 0; s < problem.storages.size(); ++s) {
      ASSERT_FALSE(solution.kept[s] && solution.remade[s]);
      ASSERT_TRUE(!problem.storages[s].needed || solution.kept[s] || solution.remade[s]);
      if (!solution.kept[s] || !problem.storages[s].never_kept) continue;
      const auto writes = [&](const CutProblem::Op& op) { return std::find(op.writes.begin(), op.writes.end(), static_cast<std::int32_t>(s)) != op.writes.end(); };
      ASSERT_TRUE(std::find_if(problem.ops.begin(), problem.ops.end(), writes)->banned);
    }
    for (std::size_t o = 0; o < problem.ops.size(); ++o)
      for (const std::int32_t s : problem.ops[o].reads)
        ASSERT_TRUE(!solution.rerun[o] || solution.kept[static_cast<std::size_t>(s)] || solution.remade[static_cast<std::size_t>(s)]);
  }
}

TEST(MinCut, RunsNothingAgainWhereItSavesNothing) {
  CutProblem problem;
  problem.ops = {{.cost = 1, .banned = false, .reads = {}, .writes = {0}}, {.cost = 1, .banned = false, .reads = {0}, .writes = {1}}};
  problem.storages = {{.bytes = 100, .needed = true}, {.bytes = 0, .needed = true}};
  const CutSolution solution = solveCut(problem, 1000.0);
  EXPECT_TRUE(solution.kept[0]);
  EXPECT_TRUE(solution.kept[1]);
  EXPECT_EQ(solution.cost, 0);
}

TEST(MinCut, KeepsResultsOfBannedOpsOneByOne) {
  // AC-05: attention gives out and lse; a cheap op reads out, backward reads lse and the cheap op's result.
  CutProblem problem;
  problem.ops = {{.cost = 1000, .banned = true, .reads = {}, .writes = {0, 1}}, {.cost = 1, .banned = false, .reads = {0}, .writes = {2}}};
  problem.storages = {{.bytes = 40, .needed = false}, {.bytes = 1, .needed = true}, {.bytes = 80, .needed = true}};
  const CutSolution solution = solveCut(problem, 1.0);
  EXPECT_TRUE(solution.kept[0]);
  EXPECT_TRUE(solution.kept[1]);
  EXPECT_TRUE(solution.remade[2]);
  EXPECT_EQ(solution.bytes, 41);
}

TEST(MinCut, LargeBytesAndPricesDoNotOverflow) {
  CutProblem problem;
  problem.ops = {{.cost = std::int64_t{1} << 40, .banned = false, .reads = {}, .writes = {0}}};
  problem.storages = {{.bytes = std::int64_t{1} << 50, .needed = true}};
  EXPECT_TRUE(solveCut(problem, 1e18).kept[0]);
  EXPECT_TRUE(solveCut(problem, 1e-6).remade[0]);
}

}  // namespace
}  // namespace spscope::passes
