// SPDX-License-Identifier: Apache-2.0
// Masks that are read instead of made, and the loss in blocks: on real models, against the references and the unsharded
// graph, which keeps its masks and logits whole.
#include <gmock/gmock.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/torch/tensor_store.h"
#include "tests/support/temp_folder.h"
#include "tests/support/zoo.h"

namespace spscope::zoo {
namespace {

using testing::Contains;
using testing::Not;

std::int64_t statistic(const session::CompileOutcome& c, const std::string& stage, const std::string& name) {
  for (const passes::StageRecord& s : c.compiled.stages)
    if (s.name == stage)
      if (const auto it = s.statistics.find(name); it != s.statistics.end()) return it->second;
  return 0;
}

std::vector<std::string> said(const session::CompileOutcome& c) {
  std::vector<std::string> out;
  for (const passes::StageRecord& s : c.compiled.stages)
    for (const Diagnostic& d : s.diagnostics)
      if (d.code == "mask-recognised") out.push_back(d.message.substr(d.message.find(": ") + 2));
  return out;
}

/// What is left of a mask in the step: matrices of integers or truths, and attention that takes one.
std::vector<std::string> matrices(const ir::Graph& joint, std::int64_t seq) {
  std::vector<std::string> out;
  for (ir::NodeId id : joint.order) {
    const ir::Node& n = joint.node(id);
    if (ir::isAttention(n.op) && ir::useArg(n, "attn_mask") != ir::kNone) out.push_back(n.name);
    for (ir::ValueId v : n.outputs)
      if (v != ir::kNone && !ir::isFloating(joint.value(v).dtype) && ir::numel(joint.value(v).local) >= seq * seq) out.push_back(n.name);
  }
  return out;
}

class Masks : public testing::TestWithParam<std::tuple<std::string, int>> {};

const std::map<std::string, std::string> kSays{
    {"llama_packed_pos", "causal, document"}, {"mistral_sw_pos", "window, causal, document"}, {"llama_gqa_pad", "causal, padding"}, {"bert_mask", "padding"},
    {"opt_mask", "causal, padding"},          {"bert_pos", "none"},                           {"gpt2", "causal"}};

TEST_P(Masks, AreReadAndGiveTheReference) {
  const auto& [model, ranks] = GetParam();
  const auto verified = verify(caseOf(model, ranks));
  ASSERT_TRUE(verified) << verified.error().format();
  expectEqual(*verified);
  const session::CompileOutcome& compiled = verified->outcome.compiled;
  EXPECT_GT(statistic(compiled, "recognise-masks", "recognised"), 0);
  EXPECT_EQ(statistic(compiled, "recognise-masks", "kept"), 0);
  EXPECT_THAT(said(compiled), testing::ElementsAre(kSays.at(model)));
  EXPECT_THAT(matrices(*compiled.compiled.programs.front(), 64), testing::IsEmpty());
  const Distance far = distance(verified->outcome.loss, verified->gradients, reference(model), "f64");
  EXPECT_LE(far.loss, 1e-10);
  EXPECT_LE(far.gradient, 1e-8) << far.worst;
}
INSTANTIATE_TEST_SUITE_P(Zoo, Masks,
                         testing::Combine(testing::Values("llama_packed_pos", "mistral_sw_pos", "llama_gqa_pad", "bert_mask", "opt_mask", "bert_pos", "gpt2"),
                                          testing::Values(2, 8)),
                         nameWithRanks);

class TiledLoss : public testing::TestWithParam<std::tuple<std::string, int>> {};

Case tiledCase(const std::string& name, int ranks) {
  Case out = caseOf(name, ranks, name.starts_with("s_"));
  out.tile_bytes = 4096;  // a few rows at a time
  return out;
}

TEST_P(TiledLoss, GivesTheReference) {
  const auto& [name, ranks] = GetParam();
  const auto verified = verify(tiledCase(name, ranks));
  ASSERT_TRUE(verified) << verified.error().format();
  expectEqual(*verified);
  EXPECT_EQ(statistic(verified->outcome.compiled, "tile-loss", "tiled"), 1);
  EXPECT_THAT(verified->warnings, Not(Contains("loss-untiled")));
  const Distance far = distance(verified->outcome.loss, verified->gradients, reference(name, name.starts_with("s_")), "f64");
  EXPECT_LE(far.loss, 1e-10);
  EXPECT_LE(far.gradient, 1e-8) << far.worst;
}
// Llama's shifted labels; GPT-2 and Gemma with tied weights; OPT; nanoGPT's own loss with ignore_index -1; smoothing.
INSTANTIATE_TEST_SUITE_P(Models, TiledLoss,
                         testing::Combine(testing::Values("llama_gqa_pos", "gpt2_pos", "gemma_pos", "opt", "nanogpt", "s_ce_smooth"), testing::Values(1, 3, 4)),
                         nameWithRanks);

TEST(TiledLossKept, LogitsOfAZLossStayWholeWithTheReason) {
  const auto verified = verify(tiledCase("s_zloss", 2));
  ASSERT_TRUE(verified) << verified.error().format();
  expectEqual(*verified);
  EXPECT_EQ(statistic(verified->outcome.compiled, "tile-loss", "tiled"), 0);
  EXPECT_THAT(verified->warnings, Contains("loss-untiled"));
}

/// The compiled step of the large model at 131072 tokens on 8 ranks.
class Long : public testing::Test {
 protected:
  void compile(bool tile) {
    const std::string path = std::string(SPSCOPE_SOURCE_DIR) + "/../shared/zoo/big/llama3_1b_masked.pt2";
    if (!std::ifstream(path)) GTEST_SKIP() << "needs " << path;
    DiagnosticSink diagnostics;
    session::Request request;
    request.diagnostics = &diagnostics;
    session::OpenRequest open;
    open.path = path;
    open.seq = 131072;
    const auto model = session::open(open, request);
    ASSERT_TRUE(model) << model.error().format();
    session::CompileRequest what;
    what.settings.sp = 8;
    what.settings.seq = 131072;
    what.settings.tile_loss = tile;
    auto out = session::compile(**model, what, request);
    ASSERT_TRUE(out) << out.error().format();
    outcome_ = std::move(*out);
  }
  session::CompileOutcome outcome_;
};

TEST_F(Long, NothingThatStemsFromTheMaskExceedsTwoMebibytes) {
  compile(false);
  if (IsSkipped()) return;
  EXPECT_THAT(said(outcome_), testing::ElementsAre("causal, document"));
  const ir::Graph& joint = *outcome_.compiled.programs.front();
  std::vector<bool> stems(joint.valueCount(), false);
  int attentions = 0;
  for (const ir::Input& input : joint.inputs) stems[static_cast<std::size_t>(input.value)] = input.name == "position_ids";
  for (ir::NodeId id : joint.order) {
    const ir::Node& n = joint.node(id);
    if (ir::isAttention(n.op)) {
      ++attentions;
      continue;  // from here on it is the tokens' values
    }
    bool from = false;
    ir::forEachUse(n, [&](const ir::Use& use) { from = from || (stems[static_cast<std::size_t>(use.value)] && !ir::isFloating(joint.value(use.value).dtype)); });
    for (ir::ValueId v : n.outputs) {
      if (v == ir::kNone || !from || ir::isFloating(joint.value(v).dtype)) continue;
      stems[static_cast<std::size_t>(v)] = true;
      EXPECT_LE(joint.value(v).localBytes(), std::int64_t{2} << 20) << n.name;
    }
  }
  EXPECT_EQ(attentions, 32);  // 16 layers, forward and backward
  EXPECT_THAT(matrices(joint, 131072), testing::IsEmpty());
}

TEST_F(Long, WithTheTiledLossNoValueExceedsTwoGibibytes) {
  compile(true);
  if (IsSkipped()) return;
  EXPECT_EQ(statistic(outcome_, "tile-loss", "tiled"), 1);
  for (const auto& [node, bytes] : outcome_.figures.largest_values) EXPECT_LE(bytes, std::int64_t{2} << 30) << node;
}

// --- field cases ----------------------------------------------------------------------------------------------------

/// A model's batch with its documents set: positions begin again at each, and what else a test changes.
class Batches {
 public:
  /// `change(name, row, at, value)` gives the new element of an input of one number per token.
  template <typename F>
  Case withInputs(const std::string& model, int sp, std::int64_t seq, F&& change) {
    Case out = caseOf(model, sp);
    auto bag = exec::loadBag(out.inputs[0]).value();
    for (const std::string& name : bag.names()) {
      const ir::Dims shape = bag.entry(name).value().shape;
      if (shape.size() != 2) continue;
      const std::vector<double> old = bag.values(name).value();
      std::vector<std::int64_t> made;
      for (std::int64_t row = 0; row < shape[0]; ++row)
        for (std::int64_t at = 0; at < seq; ++at)
          made.push_back(change(name, row, at, static_cast<std::int64_t>(old[static_cast<std::size_t>(row * shape[1] + at)])));
      EXPECT_TRUE(bag.add(name, ir::DType::kI64, {shape[0], seq}, std::as_bytes(std::span(made))));
    }
    out.inputs = {folder_.path(std::to_string(++files_) + ".safetensors")};
    EXPECT_TRUE(exec::saveBag(bag, out.inputs[0]));
    if (seq != 64) out.seq = seq;
    return out;
  }

  /// Loss of the second document alone (its labels count), with other tokens in the first or not.
  double lossOfSecond(const std::string& model, int sp, bool perturbed) {
    constexpr std::int64_t kFirst = 24;
    const Case what = withInputs(model, sp, 64, [&](const std::string& name, std::int64_t, std::int64_t at, std::int64_t old) {
      if (name == "position_ids") return at < kFirst ? at : at - kFirst;
      if (name == "labels") return at <= kFirst ? std::int64_t{-100} : old;
      return perturbed && name == "input_ids" && at < kFirst ? (old + 1) % 50 : old;
    });
    const auto verified = verify(what);
    EXPECT_TRUE(verified) << verified.error().format();
    if (!verified) return 0;
    expectEqual(*verified);
    return verified->outcome.loss;
  }

 private:
  const TempFolder folder_;
  int files_ = 0;
};

TEST(FieldCases, SP_50_other_tokens_in_document_1_leave_the_loss_of_document_2) {
  Batches batches;
  for (const int sp : {1, 2, 4}) EXPECT_EQ(batches.lossOfSecond("llama_packed_pos", sp, false), batches.lossOfSecond("llama_packed_pos", sp, true)) << sp;
}

TEST(FieldCases, SP_52_positions_that_begin_again_isolate_nothing_where_the_mask_does_not_say_so) {
  // The same documents in a model that is only causal: it leaks, and its mask is not said to hold documents.
  Batches batches;
  EXPECT_NE(batches.lossOfSecond("llama_causal_gqa_pos", 2, false), batches.lossOfSecond("llama_causal_gqa_pos", 2, true));
  const auto verified = verify(caseOf("llama_causal_gqa_pos", 2));
  ASSERT_TRUE(verified);
  EXPECT_THAT(said(verified->outcome.compiled), testing::IsEmpty());
}

TEST(FieldCases, SP_53_SP_54_documents_of_5_7_and_4_tokens_across_the_cuts) {
  Batches batches;
  for (const int sp : {2, 4}) {
    const auto verified = verify(batches.withInputs("llama_packed_pos", sp, 16, [](const std::string& name, std::int64_t, std::int64_t at, std::int64_t old) {
      return name == "position_ids" ? (at < 5 ? at : at < 12 ? at - 5 : at - 12) : old;
    }));
    ASSERT_TRUE(verified) << verified.error().format();
    expectEqual(*verified);
    EXPECT_LE(verified->outcome.gradients.rel_max, 1e-8) << verified->outcome.gradients.worst;
  }
}

TEST(FieldCases, SP_57_weights_per_token_follow_their_rows_into_the_blocks) {
  for (const int sp : {1, 2, 3}) {
    const auto verified = verify(tiledCase("s_ce_none_weighted", sp));
    ASSERT_TRUE(verified) << verified.error().format();
    expectEqual(*verified);
    EXPECT_EQ(statistic(verified->outcome.compiled, "tile-loss", "tiled"), 1);
  }
}

}  // namespace
}  // namespace spscope::zoo
