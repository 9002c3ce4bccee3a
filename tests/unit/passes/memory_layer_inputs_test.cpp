// SPDX-License-Identifier: Apache-2.0
// Policy layer-inputs: what a layer hands on is kept, all else inside of it is made again in that layer's own backward.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "passes/memory/choose_saved.h"
#include "passes/memory/schedule.h"
#include "tests/support/joint_builder.h"
#include "tests/support/run_pass.h"

namespace spscope::passes {
namespace {

using testing::JointBuilder;
using testing::LlamaShape;
using testing::llamaJoint;
using testing::runPass;
using testing::smallShape;
using V = JointBuilder::V;

const std::string kPolicy = "layer-inputs";

struct Decided {
  ir::Graph graph;
  MemoryReport report;
  ValueDecision of(V value) const {
    const ir::Value& v = graph.value(value);
    const V base = v.storage == ir::kNone ? value : v.storage;
    for (const ValueDecision& d : report.values)
      if (d.value == base) return d;
    ADD_FAILURE() << "no decision about %" << v.name;
    return {};
  }
};
Decided decide(ir::Graph graph) {
  Decided out{std::move(graph), {}};
  runPass(chooseSaved(), out.graph, kPolicy, &out.report);
  return out;
}

std::string layerOf(const ir::Node& node) { return node.location ? std::string(ir::layerOf(node.location->module_path)) : std::string(); }

/// Two layers of one linear each, `inner` inside of the first.
struct TwoLayers {
  JointBuilder b;
  V x, first, second;
  template <typename Inner>
  explicit TwoLayers(const Inner& inner) {
    b.dtype = ir::DType::kF32;
    const V w0 = b.parameter("h.0.w", {8, 8}), w1 = b.parameter("h.1.w", {8, 8});
    for (const V w : {w0, w1}) b.setLearned(w);
    x = b.sequence(b.input("x", ir::DType::kF32, {1, 64, 8}, ir::InputKind::kUser), 1);
    b.inModule("h.0");
    first = inner(b, b.linear(x, w0));
    b.inModule("h.1");
    second = b.silu(b.linear(b.silu(first), w1));
    b.inModule("");
    b.backward(b.sum(b.mul(second, second)));
  }
};

TEST(LayerInputs, KeepsWhatLayersHandOnAndNothingElseOfThem) {
  for (const int layers : {1, 3}) {
    SCOPED_TRACE(layers);
    const ir::Graph graph = llamaJoint(smallShape(layers));
    Decided decided = decide(graph);
    std::map<std::string, int> kept, again;  // by layer
    std::int64_t kept_bytes = 0;
    for (const ValueDecision& d : decided.report.values) {
      const ir::Node& node = graph.node(d.node);
      const std::string layer = layerOf(node);
      if (layer.empty() || d.decision == Decision::kFree) continue;
      EXPECT_EQ(d.reason, d.decision == Decision::kSave ? SavingReason::kCrossesLayer : SavingReason::kInsideLayer) << node.name;
      ++(d.decision == Decision::kSave ? kept : again)[layer];
      if (d.decision == Decision::kSave) kept_bytes += d.bytes;
    }
    ASSERT_EQ(again.size(), static_cast<std::size_t>(layers));
    // The head keeps the norm's float32 copy of what the last layer hands to it, which frees that.
    EXPECT_EQ(kept.size(), again.size() - 1);
    for (const auto& [layer, count] : kept) EXPECT_EQ(count, 1) << layer << " hands on the sum of its halves";
    EXPECT_EQ(kept_bytes, (layers - 1) * 128 * 64 * 2);  // rows of this rank x hidden x bf16

    const auto statistics = runPass(schedule(), decided.graph, kPolicy);
    EXPECT_GT(statistics.at("nodes-added"), 0);
    int attention = 0, exchanges = 0, all_exchanges = 0;
    for (const ir::NodeId id : decided.graph.order) {
      const ir::Node& node = decided.graph.node(id);
      all_exchanges += ir::isCollective(node.op);
      if (node.phase != ir::Phase::kRecompute) continue;
      attention += ir::isAttention(node.op);
      exchanges += ir::isCollective(node.op);
    }
    EXPECT_EQ(attention, layers);
    EXPECT_EQ(exchanges, 4 * layers) << "q, k, v and the result";
    EXPECT_EQ(all_exchanges, 12 * layers) << "forward, again, backward: each once";
  }
}

TEST(LayerInputs, EachLayerIsMadeAgainInItsOwnBackward) {
  Decided decided = decide(llamaJoint(smallShape(4)));
  runPass(schedule(), decided.graph, kPolicy);
  std::string current = "none yet";
  std::set<std::string> over;
  int layers = 0;
  for (const ir::NodeId id : decided.graph.order) {
    const ir::Node& node = decided.graph.node(id);
    const std::string layer = layerOf(node);
    if (node.phase == ir::Phase::kForward || layer.empty() || layer == current) continue;
    EXPECT_TRUE(over.insert(layer).second) << "back in " << layer << " at " << node.name;
    current = layer;
    ++layers;
  }
  EXPECT_EQ(layers, 4);
}

TEST(LayerInputs, AnotherLayerCostsWhatItHandsOn) {
  const auto working = [](int layers) {
    LlamaShape shape = smallShape(layers);
    shape.seq = 4096;
    return decide(llamaJoint(shape)).report.choice().working_peak;
  };
  const std::int64_t handed_on = 2048 * 64 * 2;
  EXPECT_EQ(working(8) - working(4), 4 * handed_on);
  EXPECT_EQ(working(12) - working(8), 4 * handed_on);
}

// A short one may take more: a layer is made again as a whole, whatever that costs.
TEST(LayerInputs, TakesLessThanSacOfALongSequence) {
  for (const std::int64_t seq : {8192, 65536}) {
    LlamaShape shape;
    shape.seq = seq;
    shape.layers = 8;
    ir::Graph sac = llamaJoint(shape);
    const auto of_sac = runPass(chooseSaved(), sac, "sac");
    const Decided by_layer = decide(llamaJoint(shape));
    EXPECT_LT(by_layer.report.choice().saved_bytes, of_sac.at("saved-bytes"));
    EXPECT_LT(by_layer.report.choice().peak_bytes, of_sac.at("predicted-peak-bytes")) << seq;
    EXPECT_GT(by_layer.report.choice().recompute_ns, 0);
    EXPECT_GT(by_layer.report.points.size(), 5U) << "the curve that it stands beside";
  }
}

// Attention as the last op of a layer: its result goes on, the rest of what it makes is not worth running it, and all layers
// behind it, again.
TEST(LayerInputs, TheNodeThatEndsALayerIsKeptWhole) {
  V lse = ir::kNone, before = ir::kNone;
  const TwoLayers step([&](JointBuilder& b, V h) {
    before = b.silu(h);
    const V heads = b.reshape(before, {1, 1, 64, 8});
    const V out = b.attention(heads, heads, heads);
    lse = b.graph.node(b.graph.value(out).producer).outputs[1];
    return out;
  });
  const Decided decided = decide(step.b.graph);
  for (const V v : {step.first, lse}) {
    EXPECT_EQ(decided.of(v).decision, Decision::kSave);
    EXPECT_EQ(decided.of(v).reason, SavingReason::kCrossesLayer);
  }
  EXPECT_EQ(decided.of(before).decision, Decision::kRecompute);
  EXPECT_EQ(decided.of(step.second).decision, Decision::kSave) << "read behind the last layer";
  EXPECT_EQ(decided.of(step.second).reason, SavingReason::kCrossesLayer);
}

// A mask drawn by position depends on no parameter; it is made again with its layer all the same. A table that
// several layers read is handed on.
TEST(LayerInputs, MasksOfALayerAreItsOwnTablesAreNot) {
  V mask = ir::kNone, table = ir::kNone;
  const TwoLayers step([&](JointBuilder& b, V h) {
    mask = b.sequence(b.op("rng.keep_at.default", {{"size", ir::Dims{1, 64, 8}}, {"p", 0.1}}, ir::DType::kBool, {1, 64, 8}), 1);
    table = b.sequence(b.op("aten.cos.default", {{"self", b.use(0)}}, ir::DType::kF32, {1, 64, 8}), 1);
    const V y = b.mul(b.mul(h, mask), table);
    b.inModule("h.1");
    return b.mul(y, table);
  });
  const Decided decided = decide(step.b.graph);
  EXPECT_EQ(decided.of(mask).decision, Decision::kRecompute);
  EXPECT_EQ(decided.of(mask).reason, SavingReason::kInsideLayer);
  EXPECT_EQ(decided.of(table).decision, Decision::kSave);
  EXPECT_EQ(decided.of(table).reason, SavingReason::kCrossesLayer);
}

// A layer whose parameters are frozen, with an exchange in it: what it hands on is kept whatever the price, or ranks with other
// prices would exchange other things.
TEST(LayerInputs, FrozenLayersAreNotRunAgainForAPrice) {
  JointBuilder b;
  b.dtype = ir::DType::kF32;
  b.ranks = 2;
  const V frozen = b.input("h.0.w", ir::DType::kF32, {8, 8}, ir::InputKind::kParameter), w = b.parameter("h.1.w", {8, 8});
  b.setLearned(w);
  const V x = b.sequence(b.input("x", ir::DType::kF32, {1, 2, 64, 8}, ir::InputKind::kUser), 2);
  b.inModule("h.0");
  const V exchanged = b.allToAll(b.linear(x, frozen), 2, 1);
  const V out = b.silu(exchanged);
  b.inModule("h.1");
  const V y = b.silu(b.linear(out, w));
  b.inModule("");
  b.backward(b.sum(b.mul(y, y)));
  const Decided decided = decide(std::move(b.graph));
  EXPECT_EQ(decided.of(out).decision, Decision::kSave);
  EXPECT_EQ(decided.of(out).reason, SavingReason::kCrossesLayer);
  EXPECT_EQ(decided.of(exchanged).decision, Decision::kFree);
}

// AC-04: what is exchanged, and in which order, does not depend on what that costs a rank.
TEST(LayerInputs, AC_04_ranksOfOtherSizesExchangeTheSame) {
  std::vector<std::string> first;
  for (const std::int64_t seq : {64, 256, 16384}) {
    for (const std::int64_t vocab : {128, 65536}) {
      LlamaShape shape = smallShape(3);
      shape.seq = seq;
      shape.vocab = vocab;
      Decided decided = decide(llamaJoint(shape));
      runPass(schedule(), decided.graph, kPolicy);
      std::vector<std::string> exchanges;
      for (const ir::NodeId id : decided.graph.order)
        if (const ir::Node& node = decided.graph.node(id); ir::isCollective(node.op))
          exchanges.push_back(std::to_string(static_cast<int>(node.phase)) + (node.forward == ir::kNone ? node.name : decided.graph.node(node.forward).name));
      if (first.empty()) first = exchanges;
      EXPECT_EQ(exchanges, first) << seq << " tokens, " << vocab << " words";
    }
  }
  EXPECT_EQ(first.size(), 3U * 12);
}

TEST(LayerInputs, MarksAndRandomOpsInsideHold) {
  V dropped = ir::kNone, mask = ir::kNone, activated = ir::kNone, square = ir::kNone;
  const TwoLayers step([&](JointBuilder& b, V h) {
    dropped = b.dropout(h, 0.5);
    mask = b.graph.node(b.graph.value(dropped).producer).outputs[1];
    activated = b.silu(dropped);
    square = b.mul(activated, activated);
    return b.silu(square);
  });
  ir::Graph graph = step.b.graph;
  graph.node(graph.value(square).producer).must_save = true;
  const Decided decided = decide(std::move(graph));
  EXPECT_EQ(decided.of(mask).decision, Decision::kSave);
  EXPECT_EQ(decided.of(mask).reason, SavingReason::kRandom);
  EXPECT_EQ(decided.of(square).decision, Decision::kSave);
  EXPECT_EQ(decided.of(square).reason, SavingReason::kUserSave);
  EXPECT_EQ(decided.of(activated).decision, Decision::kRecompute);
}

TEST(LayerInputs, AModelWithoutLayersIsRefused) {
  JointBuilder b;
  const V w = b.parameter("w", {8, 8});
  b.setLearned(w);
  b.inModule("net.encoder");
  const V x = b.sequence(b.input("x", ir::DType::kBF16, {1, 64, 8}, ir::InputKind::kUser), 1);
  b.backward(b.sum(b.silu(b.linear(x, w))));
  Settings settings;
  settings.save = kPolicy;
  PassContext context{settings};
  const auto status = chooseSaved().checkLegal(b.graph, context);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, "save-no-layers");
  settings.save = "sac";
  EXPECT_TRUE(chooseSaved().checkLegal(b.graph, context));
}

TEST(Layers, NodesWithoutANameBelongToTheLayerThatRuns) {
  JointBuilder b;
  b.dtype = ir::DType::kF32;
  const V x = b.parameter("x", {4}), ids = b.input("ids", ir::DType::kF32, {4}, ir::InputKind::kUser);
  const auto in = [&](const char* path, V of) {
    b.inModule(path);
    return b.op("aten.silu.default", {{"self", b.use(of)}}, ir::DType::kF32, {4});
  };
  const V embedded = in("embed", x), first = in("layers.4.mlp", embedded), between = in("", first), table = in("rotary", ids), second = in("layers.7", between), head = in("norm", second);
  b.inModule("layers.9");
  b.op("aten.add.Tensor", {{"self", b.use(embedded)}, {"other", b.use(head)}}, ir::DType::kF32, {4});
  b.inModule("");
  b.op("aten.silu.default", {{"self", b.use(head)}}, ir::DType::kF32, {4});
  const Layers layers = findLayers(b.graph);
  EXPECT_EQ(layers.count, 3);
  const auto of = [&](V v) { return layers.of[static_cast<std::size_t>(b.graph.value(v).producer)]; };
  EXPECT_EQ(of(embedded), 0);
  EXPECT_EQ(of(first), 1);
  EXPECT_EQ(of(between), 1);
  EXPECT_EQ(of(table), 0) << "depends on no parameter";
  EXPECT_EQ(of(second), 2);
  EXPECT_EQ(of(head), 2) << "another layer follows";
  EXPECT_EQ(layers.of[static_cast<std::size_t>(b.graph.order.back())], 0) << "behind the last one";

  const std::vector<HandedOn> handed_on = findHandedOn(b.graph, layers);
  ASSERT_EQ(handed_on.size(), 3U);
  EXPECT_EQ(handed_on[0].base, embedded);
  EXPECT_EQ(handed_on[0].from, 0);
  EXPECT_EQ(handed_on[0].to, 1);
  EXPECT_TRUE(handed_on[0].shared);
  EXPECT_EQ(handed_on[1].base, between);
  EXPECT_EQ(handed_on[1].to, 2);
  EXPECT_FALSE(handed_on[1].shared);
  EXPECT_EQ(handed_on[2].base, head);
  EXPECT_EQ(handed_on[2].to, 3);
}

}  // namespace
}  // namespace spscope::passes
