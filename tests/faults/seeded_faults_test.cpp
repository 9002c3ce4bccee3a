// SPDX-License-Identifier: Apache-2.0
// Planted faults are found where they were planted; programs without any are found right. A part of the 200 that
// `./run bench faults` goes through.
#include <gmock/gmock.h>

#include "tests/faults/seeded_faults.h"

namespace spscope::zoo {
namespace {

struct Share {
  const char* model;
  int ranks;
  int faults;
};

class SeededFaults : public testing::TestWithParam<Share> {};

TEST_P(SeededFaults, AreNamedWithTheirRanksAndTheirPass) {
  const auto bench = FaultBench::open(GetParam().model, GetParam().ranks);
  ASSERT_TRUE(bench) << bench.error().format();
  const auto nothing = (*bench)->findsNothing();
  ASSERT_TRUE(nothing) << nothing.error().format();
  EXPECT_TRUE(*nothing);
  std::vector<Trial> others;
  for (int seed = 0; seed < GetParam().faults; ++seed) {
    const auto trial = (*bench)->next(static_cast<std::uint64_t>(seed), others);
    ASSERT_TRUE(trial) << trial.error().format();
    EXPECT_TRUE(trial->ending == Ending::kExact || trial->ending == Ending::kListed)
        << trial->fault.text() << " planted %" << trial->fault.planted << ": " << endingWord(trial->ending) << ", " << trial->why << "; named %" << trial->node << " of " << trial->pass;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SeededFaults,
                         testing::Values(Share{"llama_causal_gqa_pos", 2, 4}, Share{"llama_gqa_pos", 4, 4}, Share{"gpt2_pos", 2, 4}, Share{"llama_packed_pos", 2, 3},
                                         Share{"qwen2_pos", 2, 3}, Share{"nanogpt", 4, 3}, Share{"bert_pos", 2, 3}),
                         [](const auto& test) { return std::string(test.param.model) + "_P" + std::to_string(test.param.ranks); });

}  // namespace
}  // namespace spscope::zoo
