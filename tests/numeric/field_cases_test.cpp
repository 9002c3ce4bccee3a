// SPDX-License-Identifier: Apache-2.0
// Field cases of sequence parallelism (docs/field-cases.md): labels and losses, heads, positions, what the pipeline must not leave
// out. Each against PyTorch's loss and gradients where a model of tests/data has them, else against the unsharded step.
#include <gmock/gmock.h>

#include <fstream>
#include <numeric>

#include "core/torch/tensor_store.h"
#include "tests/support/mesh_run.h"
#include "tests/support/zoo.h"

namespace spscope::zoo {
namespace {

using testing::Contains;
using testing::HasSubstr;

const std::string kCases = std::string(SPSCOPE_SOURCE_DIR) + "/tests/data/cases/";

Case smallCase(const std::string& name, int ranks) {
  Case out;
  out.path = kCases + name + ".pt2";
  out.inputs = {kCases + name + ".inputs.safetensors"};
  out.sp = ranks;
  return out;
}

void expectRight(const Case& what) {
  SCOPED_TRACE(what.path + " P = " + std::to_string(what.sp));
  const auto verified = verify(what);
  ASSERT_TRUE(verified) << verified.error().format();
  expectEqual(*verified);
  EXPECT_TRUE(verified->outcome.compiled.sharded);
}

/// The model of tests/data/cases gives PyTorch's loss and gradients, without a gather.
void expectReference(const std::string& name, int ranks) {
  SCOPED_TRACE(name + " P = " + std::to_string(ranks));
  const auto verified = verify(smallCase(name, ranks));
  ASSERT_TRUE(verified) << verified.error().format();
  expectEqual(*verified);
  const Distance far = distance(verified->outcome.loss, verified->gradients, Json::parse(std::ifstream(kCases + name + ".ref.json")), "f64");
  EXPECT_GT(far.gradients, 0);
  EXPECT_LE(far.loss, 1e-10);
  EXPECT_LE(far.gradient, 1e-8) << far.worst;
  EXPECT_TRUE(verified->outcome.compiled.sharded);
  EXPECT_EQ(verified->outcome.compiled.figures.inserted_all_to_all, 4);
  std::string list;
  for (const auto& g : verified->outcome.compiled.figures.gathers) list += "\n  " + g.node + ": " + g.reason;
  EXPECT_TRUE(verified->outcome.compiled.figures.gathers.empty()) << list;
}

/// A model with one label per place as `label` says, at another length than the file's.
Case withLabels(const mesh::Folder& folder, const std::string& model, int ranks, std::int64_t seq, std::int64_t (*label)(std::int64_t at)) {
  Case out = caseOf(model, ranks);
  auto bag = exec::loadBag(out.inputs[0]).value();
  for (const std::string& name : bag.names()) {
    const auto entry = bag.entry(name).value();
    if (entry.shape.size() != 2) continue;
    const std::vector<double> old = bag.values(name).value();
    std::vector<std::int64_t> made;
    for (std::int64_t row = 0; row < entry.shape[0]; ++row)
      for (std::int64_t at = 0; at < seq; ++at)
        made.push_back(name == "labels" ? label(at) : static_cast<std::int64_t>(old[static_cast<std::size_t>(row * entry.shape[1] + at)]));
    EXPECT_TRUE(bag.add(name, ir::DType::kI64, {entry.shape[0], seq}, std::as_bytes(std::span(made))));
  }
  out.inputs = {folder.path + "/" + model + std::to_string(seq) + ".safetensors"};
  EXPECT_TRUE(exec::saveBag(bag, out.inputs[0]));
  out.seq = seq;
  return out;
}

// --- labels and losses -------------------------------------------------------------------------------------------------

TEST(FieldCases, SP_01_targets_across_the_cut_keep_their_logits) {
  const mesh::Folder folder;
  expectRight(withLabels(folder, "llama_causal_gqa_dyn", 2, 8, [](std::int64_t at) { return at; }));
  // The one target that counts is the first of the second rank: its logits are the last of the first.
  expectRight(withLabels(folder, "llama_causal_gqa_dyn", 2, 10, [](std::int64_t at) { return at == 5 ? std::int64_t{7} : -100; }));
}

TEST(FieldCases, SP_02_ranks_with_4_4_1_and_0_valid_labels_count_by_label) {
  const mesh::Folder folder;
  expectRight(withLabels(folder, "llama_causal_gqa_dyn", 4, 16, [](std::int64_t at) { return at <= 9 && at > 0 ? at : -100; }));
}

TEST(FieldCases, SP_03_SP_05_a_shift_inside_the_graph_is_made_once_however_the_loss_is_written) {
  for (const int ranks : {2, 3, 4}) {
    expectReference("loss_shift", ranks);
    expectReference("loss_external", ranks);
  }
}

TEST(FieldCases, SP_07_weights_per_token_go_with_their_labels) {
  for (const int ranks : {2, 4}) expectReference("loss_weighted", ranks);  // B = 2, S = 5
}

TEST(FieldCases, SP_08_the_mean_divides_by_labels_that_count_not_by_the_mask) {
  // Every token is attended to; the labels of the prompt do not count.
  const mesh::Folder folder;
  Case what = caseOf("llama_gqa_pad", 4);
  auto bag = exec::loadBag(what.inputs[0]).value();
  const auto entry = bag.entry("labels").value();
  std::vector<std::int64_t> ones(static_cast<std::size_t>(ir::numel(entry.shape)), 1), labels;
  for (std::int64_t i = 0; i < ir::numel(entry.shape); ++i) labels.push_back(i % entry.shape[1] < 40 ? -100 : i % 50);
  EXPECT_TRUE(bag.add("attention_mask", ir::DType::kI64, entry.shape, std::as_bytes(std::span(ones))));
  EXPECT_TRUE(bag.add("labels", ir::DType::kI64, entry.shape, std::as_bytes(std::span(labels))));
  what.inputs = {folder.path + "/batch.safetensors"};
  ASSERT_TRUE(exec::saveBag(bag, what.inputs[0]));
  expectRight(what);
}

TEST(FieldCases, SP_12_ranks_without_a_valid_label_add_nothing) {
  const mesh::Folder folder;
  const auto verified = verify(withLabels(folder, "llama_causal_gqa_dyn", 4, 32, [](std::int64_t at) { return at < 8 ? at : -100; }));
  ASSERT_TRUE(verified) << verified.error().format();
  expectEqual(*verified);
  EXPECT_TRUE(std::isfinite(verified->outcome.loss));
}

TEST(FieldCases, SP_13_SP_15_losses_per_token_and_metrics_agree_at_every_place) {
  for (const int ranks : {2, 3}) {
    expectReference("loss_each", ranks);
    DiagnosticSink diagnostics;
    session::Request request;
    request.diagnostics = &diagnostics;
    const Case what = smallCase("loss_each", ranks);
    session::OpenRequest open;
    open.path = what.path;
    open.dtype = ir::DType::kF64;
    const auto model = session::open(open, request).value();
    passes::Settings settings;
    settings.sp = ranks;
    session::CompileRequest compile;
    compile.settings = settings;
    const auto compiled = session::compile(*model, compile, request).value();
    session::DataRequest data;
    data.inputs = what.inputs;
    session::Sides sides;
    sides.reference = session::compileUnsharded(*model, settings, request).value();
    sides.programs = session::programsOf(compiled.compiled);
    sides.state = session::loadState(*model, data, request).value();
    sides.inputs = session::loadInputs(*model, data, 0, request).value();
    sides.tolerance = exec::Tolerance::of(ir::DType::kF64);
    const session::ValueComparison all = session::compareValues(sides, request).value();
    EXPECT_FALSE(all.first.has_value()) << all.first->node;
    EXPECT_GT(all.compared, 30);
    // The loss of each token stays in blocks, the metric is one number over all of them.
    const ir::Graph& planned = *compiled.compiled.planned;
    ASSERT_EQ(planned.outputs.size(), 3u);
    EXPECT_TRUE(planned.value(planned.outputs[1].value).placement.isSharded());
    EXPECT_TRUE(planned.value(planned.outputs[2].value).placement.isReplicated());
  }
}

TEST(FieldCases, SP_18_a_loss_of_whole_sequences_is_one_of_their_sums) {
  for (const int ranks : {2, 3, 4}) expectReference("loss_pair", ranks);
}

// --- heads, sizes ------------------------------------------------------------------------------------------------------

TEST(FieldCases, SP_22_key_heads_are_no_limit) { expectReference("heads_40_8", 16); }

TEST(FieldCases, SP_23_SP_27_head_counts_that_do_not_divide_keep_their_ratio) {
  for (const int ranks : {2, 4}) {
    expectReference("heads_28_7", ranks);
    expectReference("heads_7_7", ranks);
  }
}

TEST(FieldCases, SP_24_key_heads_are_repeated_as_often_as_ranks_need_them) {
  const auto verified = verify(caseOf("llama_causal_gqa_pos", 4));  // 8 heads, 2 key heads
  ASSERT_TRUE(verified) << verified.error().format();
  expectEqual(*verified);
  EXPECT_TRUE(verified->outcome.compiled.figures.gathers.empty());
}

TEST(FieldCases, SP_26_models_opened_one_after_the_other_do_not_know_of_each_other) {
  for (int i = 0; i < 2; ++i) {
    expectReference("heads_6_3", 3);
    expectReference("heads_12_12", 4);
  }
}

TEST(FieldCases, SP_29_SP_31_lengths_that_do_not_divide_are_cut_unevenly) {
  for (const auto& [seq, ranks] : {std::pair{63, 2}, {10, 4}}) {
    Case what = caseOf("llama_causal_gqa_dyn", ranks);
    what.inputs.clear();
    what.seq = seq;
    expectRight(what);
  }
}

// --- positions ---------------------------------------------------------------------------------------------------------

TEST(FieldCases, SP_37_rotary_tables_are_those_of_the_ranks_own_positions) {
  for (const char* model : {"rope_inputs", "rope_constants", "rope_arange"})
    for (const int ranks : {2, 4}) expectReference(model, ranks);
}

TEST(FieldCases, SP_38_SP_39_three_positions_per_token_are_cut_along_the_tokens) {
  for (const char* model : {"positions_3", "positions_3_packed"})
    for (const int ranks : {2, 3}) expectReference(model, ranks);
}

// --- precision, sizes by name, adapters ----------------------------------------------------------------------------------

TEST(FieldCases, SP_41_in_bfloat16_zero_0_and_1_give_the_same_gradients) {
  std::vector<exec::TensorBag> gradients;
  for (const int zero : {0, 1}) {
    Case what = caseOf("llama_bf16_pos", 2);
    what.dtype.reset();
    what.dp = 2, what.zero = zero, what.batch = 2;
    what.inputs.clear();
    const auto verified = verify(what);
    ASSERT_TRUE(verified) << verified.error().format();
    EXPECT_TRUE(verified->outcome.equal);
    gradients.push_back(verified->gradients);
  }
  ASSERT_EQ(gradients[0].names(), gradients[1].names());
  for (const std::string& name : gradients[0].names()) EXPECT_EQ(gradients[0].values(name).value(), gradients[1].values(name).value()) << name;
}

TEST(FieldCases, SP_42_lengths_that_the_file_leaves_open_are_cut_like_others) {
  for (const char* model : {"gpt2_dyn_pos", "llama_gqa_dyn_pos"}) {
    Case what = caseOf(model, 2);
    what.inputs.clear();
    what.seq = 50;
    expectRight(what);
  }
}

TEST(FieldCases, SP_43_adapters_change_nothing_and_get_their_gradients) {
  for (const int ranks : {2, 4}) {
    expectReference("lora", ranks);
    const auto verified = verify(smallCase("lora", ranks));
    ASSERT_TRUE(verified);
    EXPECT_TRUE(verified->gradients.contains("attention.a.weight"));
    EXPECT_FALSE(verified->gradients.contains("attention.q.weight"));  // frozen
  }
}

// --- completeness ------------------------------------------------------------------------------------------------------

TEST(FieldCases, SP_59_attention_inside_a_checkpoint_gets_its_exchanges) {
  const auto verified = verify(caseOf("llama_ckpt_pos", 2));
  ASSERT_TRUE(verified) << verified.error().format();
  expectEqual(*verified);
  const auto& figures = verified->outcome.compiled.figures;
  EXPECT_EQ(figures.expected_all_to_all, 8);  // two layers
  EXPECT_EQ(figures.inserted_all_to_all, 8);
}

TEST(FieldCases, SP_60_what_cannot_be_sharded_is_said_and_not_trained) {
  const auto verified = verify(caseOf("vit", 2));
  ASSERT_TRUE(verified) << verified.error().format();
  EXPECT_THAT(verified->warnings, Contains("nothing-sharded"));
  mesh::Training t;
  t.path = folder() + "vit.pt2";
  t.inputs = {folder() + "vit.inputs.safetensors"};
  t.sp = 2, t.steps = 1, t.batch = 0;
  const auto trained = mesh::tryTrain(t);
  ASSERT_FALSE(trained);
  EXPECT_EQ(trained.error().code, "nothing-sharded");
  EXPECT_EQ(trained.error().outcome, Outcome::kRefused);
  EXPECT_THAT(trained.error().format(), HasSubstr("--sequence"));
}

TEST(FieldCases, SP_63_the_peak_says_when_it_is_and_what_it_is_made_of) {
  const auto verified = verify(caseOf("llama_gqa_pos", 2));
  ASSERT_TRUE(verified) << verified.error().format();
  const auto& figures = verified->outcome.compiled.figures;
  EXPECT_FALSE(figures.peak_node.empty());
  EXPECT_EQ(std::accumulate(figures.memory.at_peak.begin(), figures.memory.at_peak.end(), std::int64_t{0}), figures.memory.peak);
  for (const std::size_t shown : {0, 1, 2}) EXPECT_GT(figures.memory.at_peak[shown], 0) << passes::memoryClassName(static_cast<passes::MemoryClass>(shown));
}

}  // namespace
}  // namespace spscope::zoo
