// SPDX-License-Identifier: Apache-2.0
// The loss over shards: plain labels, counts of valid labels that differ between shards, shards without any, sums that
// are divided later; odd lengths and fewer kv heads than ranks.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <random>

#include "core/torch/compare.h"
#include "core/torch/tensor_store.h"
#include "tests/support/figures.h"
#include "tests/support/temp_folder.h"
#include "tests/support/zoo.h"

namespace spscope::zoo {
namespace {

/// Label of a row and position; -100 is not counted.
using LabelOf = std::function<std::int64_t(std::int64_t row, std::int64_t at)>;

class Labels : public testing::TestWithParam<int> {
 protected:
  /// The model's own batch with other labels.
  Case withLabels(const std::string& model, const LabelOf& label) const {
    Case out = caseOf(model, GetParam());
    auto bag = exec::loadBag(out.inputs[0]).value();
    const auto entry = bag.entry("labels").value();
    std::vector<std::int64_t> labels;
    for (std::int64_t row = 0; row < entry.shape[0]; ++row)
      for (std::int64_t at = 0; at < entry.shape[1]; ++at) labels.push_back(label(row, at));
    EXPECT_TRUE(bag.add("labels", ir::DType::kI64, entry.shape, std::as_bytes(std::span(labels))));
    out.inputs = {folder_.path("batch.safetensors")};
    EXPECT_TRUE(exec::saveBag(bag, out.inputs[0]));
    return out;
  }

  void expectExact(const Case& what) {
    const auto verified = verify(what);
    ASSERT_TRUE(verified) << verified.error().format();
    expectEqual(*verified);
    EXPECT_TRUE(std::isfinite(verified->outcome.loss));
    WorstFigures::table().add("labels against unsharded, P = " + std::to_string(GetParam()), verified->outcome.loss_rel,
                              verified->outcome.gradients.rel_max, what.path.substr(what.path.rfind('/') + 1));
  }
  void expectReference(const std::string& model) {
    const auto verified = verify(caseOf(model, GetParam()));
    ASSERT_TRUE(verified) << verified.error().format();
    expectEqual(*verified);
    const Distance far = distance(verified->outcome.loss, verified->gradients, reference(model), "f64");
    EXPECT_LE(far.loss, 1e-10);
    EXPECT_LE(far.gradient, 1e-8) << far.worst;
  }
  const TempFolder folder_;
};

std::int64_t drawn(std::int64_t row, std::int64_t at) { return (row * 64 + at) * 37 % 96; }

const char* const kShifted[] = {"llama_causal_gqa_pos", "gpt2_pos", "nanogpt"};

TEST_P(Labels, PlainOnesAreExact) {
  for (const char* model : kShifted) {
    SCOPED_TRACE(model);
    expectExact(withLabels(model, drawn));
  }
}

TEST_P(Labels, UnevenCountsAreExact) {
  for (const char* model : kShifted) {
    SCOPED_TRACE(model);
    // 4 valid in the first half, 31 in the second of each row.
    expectExact(withLabels(model, [](std::int64_t row, std::int64_t at) { return (at < 32 ? at % 8 == 3 : at != 40) ? drawn(row, at) : -100; }));
  }
}

TEST_P(Labels, ShardsWithoutAnyAreExact) {
  for (const char* model : kShifted) {
    SCOPED_TRACE(model);
    expectExact(withLabels(model, [](std::int64_t row, std::int64_t at) { return at >= 50 ? drawn(row, at) : -100; }));
  }
  expectReference("llama_deadshard_pos");
}

TEST_P(Labels, TheOnlyOneIsTheFirstOfAShard) {
  // The model shifts: its logits are those of the position before, on the rank before.
  expectExact(withLabels("llama_causal_gqa_pos", [](std::int64_t row, std::int64_t at) { return row == 1 && at == 32 ? 7 : -100; }));
}

TEST_P(Labels, NoneAtAllIsNoNumberOnEitherSideAndNeverCalledEqual) {
  const auto verified = verify(withLabels("llama_causal_gqa_pos", [](std::int64_t, std::int64_t) { return std::int64_t{-100}; }));
  ASSERT_TRUE(verified) << verified.error().format();
  EXPECT_TRUE(std::isnan(verified->outcome.reference_loss));
  EXPECT_TRUE(std::isnan(verified->outcome.loss));
  EXPECT_FALSE(verified->outcome.equal);
}

TEST_P(Labels, SumOverNumItemsIsExact) { expectReference("llama_numitems_pos"); }

TEST_P(Labels, OddLengthsAreExact) {
  for (const char* model : {"llama_causal_gqa_dyn", "llama_gqa_dyn_pos", "gpt2_dyn_pos", "nanogpt_dyn", "llama_mha_dyn"}) {
    for (const std::int64_t seq : {63, 37}) {
      SCOPED_TRACE(model + std::string(" S = ") + std::to_string(seq));
      Case what = caseOf(model, GetParam());
      what.inputs.clear();  // seeded: every label counts
      what.seq = seq;
      what.seed = 11;
      const auto verified = verify(what);
      ASSERT_TRUE(verified) << verified.error().format();
      expectEqual(*verified);
      EXPECT_TRUE(verified->outcome.compiled.sharded);
    }
  }
}

TEST_P(Labels, StaticFilesAtOtherLengthsAreExact) {
  for (const char* model : {"llama_causal_gqa_pos", "gpt2_pos", "nanogpt"}) {
    SCOPED_TRACE(model);
    Case what = caseOf(model, GetParam());
    what.inputs.clear();
    what.seq = 61;
    const auto verified = verify(what);
    ASSERT_TRUE(verified) << verified.error().format();
    expectEqual(*verified);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Labels, testing::Values(2, 3, 4), [](const auto& p) { return "P" + std::to_string(p.param); });

// 8 heads, 2 kv heads: at three ranks the kv heads are repeated to six, and the heads are uneven; at four each rank has
// its own copy of half a kv head's readers.
TEST(KvHeads, FewerThanRanksAreRepeatedAsFarAsNeeded) {
  for (const int ranks : {3, 4, 8}) {
    SCOPED_TRACE(ranks);
    const auto verified = verify(caseOf("llama_causal_gqa_pos", ranks));
    ASSERT_TRUE(verified) << verified.error().format();
    expectEqual(*verified);
    EXPECT_EQ(verified->outcome.compiled.figures.inserted_all_to_all, 8);
    EXPECT_TRUE(verified->outcome.compiled.figures.gathers.empty());
  }
}

TEST(Saving, AllAndSacGiveTheSameGradients) {
  for (const char* save : {"all", "sac"}) {
    SCOPED_TRACE(save);
    Case what = caseOf("llama_gqa_pos", 2);
    what.save = save;
    const auto verified = verify(what);
    ASSERT_TRUE(verified) << verified.error().format();
    expectEqual(*verified);
    EXPECT_LE(distance(verified->outcome.loss, verified->gradients, reference("llama_gqa_pos"), "f64").gradient, 1e-8);
  }
}

TEST(SeededInputs, ThatRunPastAPositionTableAreRefusedBeforeAnythingRuns) {
  // nanogpt's table has 64 rows; a static file at another length reads further with its own 0, 1, 2, ...
  Case longer = caseOf("nanogpt_pos_slice", 3);
  longer.inputs.clear();
  longer.seq = 96;
  longer.batch = 3;
  const auto verified = verify(longer);
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().outcome, Outcome::kRefused) << verified.error().format();
  EXPECT_EQ(verified.error().code, "input-out-of-range") << verified.error().format();
}

}  // namespace
}  // namespace spscope::zoo
