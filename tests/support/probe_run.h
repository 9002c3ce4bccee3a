// SPDX-License-Identifier: Apache-2.0
// One supervised run of rank_probe, and what every failed one must fulfil. Times are counted from the fault itself, so that
// a busy machine that starts processes slowly does not fail a test.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/dist/launcher.h"
#include "tests/support/processes.h"

namespace spscope::dist {


struct ProbeRun {
  RunOutcome outcome;
  double seconds_after_fault = 0;
  std::vector<std::pair<int, Message>> messages;
  ProbeRun() = default;
  ProbeRun(ProbeRun&&) = default;
  ProbeRun& operator=(ProbeRun&&) = default;
  ~ProbeRun() {  // kept for its logs
    std::error_code ignored;
    if (!outcome.directory.empty()) std::filesystem::remove_all(outcome.directory, ignored);
  }
};

inline ProbeRun runProbe(int ranks, std::vector<std::string> arguments, LaunchSpec spec = {}) {
  spec.program = SPSCOPE_RANK_PROBE;
  spec.arguments = std::move(arguments);
  spec.ranks = ranks;
  ProbeRun run;
  auto fault = std::chrono::steady_clock::now();
  auto out = launch(spec, [&](int rank, const Message& m) {
    run.messages.emplace_back(rank, m);
    if (m.kind == "fault") fault = std::chrono::steady_clock::now();
  });
  EXPECT_TRUE(out) << out.error().format();
  if (!out) return run;
  run.seconds_after_fault = std::chrono::duration<double>(std::chrono::steady_clock::now() - fault).count();
  run.outcome = std::move(*out);
  for (const RankRecord& r : run.outcome.ranks) EXPECT_FALSE(isRunning(r.pid)) << "rank " << r.rank << " is still there";
  return run;
}

/// The run failed, by this rank, in time.
inline void expectFailure(const ProbeRun& run, double deadline = 0, int rank = 1) {
  ASSERT_TRUE(run.outcome.failure.has_value());
  EXPECT_EQ(run.outcome.failure->rank, rank) << formatTable(run.outcome.ranks);
  EXPECT_EQ(run.outcome.failure->node, "%linear_2");
  EXPECT_LT(run.seconds_after_fault, deadline + kEndsWithin) << formatTable(run.outcome.ranks);
  EXPECT_TRUE(std::filesystem::exists(run.outcome.failure->log));
}

}  // namespace spscope::dist
