// SPDX-License-Identifier: Apache-2.0
// The predicted curve against a simulation that does nothing clever: at each node, add up every storage that still has
// a use, found by scanning the rest of the program.
#include "passes/memory/liveness.h"

#include <gtest/gtest.h>

#include <set>

#include "passes/memory/choose_saved.h"
#include "passes/memory/price_search.h"
#include "passes/memory/replay_plan.h"
#include "passes/memory/schedule.h"
#include "passes/memory/tags.h"
#include "tests/support/joint_builder.h"

namespace spscope::passes {
namespace {

using testing::JointBuilder;
using testing::llamaJoint;
using testing::smallShape;

ir::ValueId rootOf(const ir::Graph& graph, ir::ValueId value) {
  while (graph.value(value).storage != ir::kNone) value = graph.value(value).storage;
  return value;
}

std::vector<std::int64_t> naiveCurve(const ir::Graph& graph) {
  std::int64_t resident = 0;
  for (const ir::Input& input : graph.inputs) resident += graph.value(input.value).localBytes();
  std::vector<std::int64_t> curve;
  for (std::size_t i = 0; i < graph.order.size(); ++i) {
    std::set<ir::ValueId> made, needed;
    for (std::size_t j = 0; j <= i; ++j)
      for (const ir::ValueId out : graph.node(graph.order[j]).outputs)
        if (out != ir::kNone) made.insert(rootOf(graph, out));
    for (std::size_t j = i; j < graph.order.size(); ++j)
      ir::forEachUse(graph.node(graph.order[j]), [&](const ir::Use& use) { needed.insert(rootOf(graph, use.value)); });
    for (const ir::ValueId out : graph.node(graph.order[i]).outputs) needed.insert(rootOf(graph, out));
    for (const ir::Output& output : graph.outputs) needed.insert(rootOf(graph, output.value));
    std::int64_t live = resident + packingBytes(graph, graph.node(graph.order[i]));
    for (const ir::ValueId v : made)
      if (needed.count(v) && graph.value(v).producer != ir::kNone) live += graph.value(v).localBytes();
    curve.push_back(live);
  }
  return curve;
}

TEST(Liveness, EqualsANaiveSimulation) {
  LivenessOptions plain;
  plain.master_weights = false;  // nothing but the graph
  ir::Graph graph = llamaJoint(smallShape(2));
  EXPECT_EQ(predictMemory(graph, plain).live, naiveCurve(graph));

  // And after rematerialisation, where copies of nodes and their storages have been added.
  const StepModel model(graph, {}, nominalRates("cpu"));
  const auto choice = searchSaving(model, findLongValues(graph), {});
  ASSERT_TRUE(choice);
  const Plan plan = planReplay(model, choice->decisions);
  ASSERT_GT(applyPlan(graph, model, choice->decisions, plan), 0);
  EXPECT_EQ(predictMemory(graph, plain).live, naiveCurve(graph));
}

TEST(Liveness, ClassesSumToTheCurve) {
  const ir::Graph graph = llamaJoint(smallShape(2));
  LivenessOptions options;
  options.optimizer = "adamw";
  const MemoryCurve curve = curveInOrder(StepModel(graph, options, nominalRates("cpu")), graph.order, true);
  ASSERT_EQ(curve.by_class.size(), curve.live.size());
  for (std::size_t i = 0; i < curve.live.size(); ++i) {
    std::int64_t sum = 0;
    for (const std::int64_t bytes : curve.by_class[i]) {
      EXPECT_GE(bytes, 0);
      sum += bytes;
    }
    ASSERT_EQ(sum, curve.live[i]);
  }
  EXPECT_EQ(curve.live[static_cast<std::size_t>(curve.peak_position)], curve.peak);
  EXPECT_EQ(curve.by_class[static_cast<std::size_t>(curve.peak_position)], curve.at_peak);
  EXPECT_EQ(*std::max_element(curve.live.begin(), curve.live.end()), curve.peak);
  // At the end: parameters, optimizer, the loss and a gradient of each parameter.
  const auto at = [](MemoryClass c) { return static_cast<std::size_t>(c); };
  std::int64_t parameters = 0, elements = 0;
  for (const ir::Input& input : graph.inputs)
    if (input.trainable) parameters += graph.value(input.value).localBytes(), elements += ir::numel(graph.value(input.value).local);
  EXPECT_EQ(curve.by_class.back()[at(MemoryClass::kGradients)], parameters);
  EXPECT_EQ(curve.by_class.back()[at(MemoryClass::kOptimizer)], 12 * elements);  // bf16: a float32 master and two moments
  options.master_weights = false;
  EXPECT_EQ(optimizerBytes(graph, options), 2 * parameters);
  options.optimizer = "sgd";
  EXPECT_EQ(optimizerBytes(graph, options), 0);
  options.master_weights = true;
  EXPECT_EQ(optimizerBytes(graph, options), 4 * elements);
}

TEST(Liveness, ViewsAreFreeAndOutputsStay) {
  JointBuilder b;
  const auto x = b.input("x", ir::DType::kF32, {4, 8}, ir::InputKind::kUser);
  const auto y = b.op("aten.neg.default", {{"self", b.use(x)}}, ir::DType::kF32, {4, 8});
  const auto t = b.view("aten.t.default", y, {}, {8, 4});
  const auto z = b.op("aten.neg.default", {{"self", b.use(t)}}, ir::DType::kF32, {8, 4});
  const auto wide = b.view("aten.expand.default", z, {{"size", ir::Dims{100, 8, 4}}}, {100, 8, 4});
  b.op("aten.sum.default", {{"self", b.use(wide)}}, ir::DType::kF32, {});
  b.graph.outputs.push_back({y, ir::OutputKind::kUser, ir::kNone});
  // x 128, y 128, then z 128 beside both, the sum's 4; the expanded view counts as its storage.
  EXPECT_EQ(predictMemory(b.graph, {}).live, (std::vector<std::int64_t>{256, 256, 384, 384, 388}));
}

TEST(Liveness, AllToAllCountsTheBuffersThatAreNotAlreadyInOrder) {
  const auto packing = [](ir::Dims in, ir::Dims out, std::int64_t gather, std::int64_t scatter) {
    JointBuilder b;
    const auto x = b.input("x", ir::DType::kF32, std::move(in), ir::InputKind::kUser);
    b.op("sp.all_to_all.default", {{"self", b.use(x)}, {"gather_dim", gather}, {"scatter_dim", scatter}}, ir::DType::kF32, std::move(out));
    return packingBytes(b.graph, b.graph.node(b.graph.order[0]));
  };
  EXPECT_EQ(packing({1, 4, 8}, {1, 8, 4}, 1, 2), 128);   // send is packed; what arrives is the result
  EXPECT_EQ(packing({1, 8, 4}, {1, 4, 8}, 2, 1), 128);   // the operand is the send buffer; the result is unpacked
  EXPECT_EQ(packing({2, 4, 8}, {2, 8, 4}, 1, 2), 256);   // both, one after the other
  EXPECT_EQ(packing({8, 4}, {4, 8}, 1, 0), 128);
}

TEST(Liveness, ASavedInputReturnedAsAGradientIsThereOnce) {  // AC-12
  JointBuilder b;
  const auto w = b.input("w", ir::DType::kF32, {16}, ir::InputKind::kParameter, true);
  const auto y = b.op("aten.neg.default", {{"self", b.use(w)}}, ir::DType::kF32, {16});
  b.graph.outputs.push_back({y, ir::OutputKind::kLoss, ir::kNone});
  b.graph.outputs.push_back({w, ir::OutputKind::kGradient, 0});
  EXPECT_EQ(predictMemory(b.graph, {}).live, (std::vector<std::int64_t>{128}));
}

}  // namespace
}  // namespace spscope::passes
