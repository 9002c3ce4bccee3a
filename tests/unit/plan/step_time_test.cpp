// SPDX-License-Identifier: Apache-2.0
// A step's time by hand: rooflines, collectives, what overlaps; checkpoints on the host.
#include "core/session/plan/step_time.h"

#include <gtest/gtest.h>

#include "core/ir/mesh_axis.h"
#include "core/ir/text.h"

namespace spscope::session {
namespace {

/// 10 flop per ns, 1 byte per ns for memory, 0.5 for links, no latency; every interval a point.
DeviceProfile device() {
  DeviceProfile p;
  p.name = "made up";
  p.device = "cpu";
  p.matmul = {10, 10, "t"};
  p.memory = {1, 1, "t"};
  p.node_link = {0.5, 0.5, "t"};
  p.capacity = {1e12, 1e12, "t"};
  return p;
}

/// A chain of `layers` blocks of one product each, forward and backward, with a checkpoint between them: x_k = mm(x_{k-1}, w_k).
/// Every tensor is n x n float32.
class StepTimes : public ::testing::Test {
 protected:
  static constexpr std::int64_t n = 64;
  static constexpr std::int64_t kBytes = n * n * 4;

  ir::ValueId input(const std::string& name, bool trainable) {
    const ir::ValueId v = g_.addValue(name, ir::DType::kF32, {n, n});
    g_.value(v).local = {n, n};
    ir::Input in;
    in.value = v;
    in.kind = trainable ? ir::InputKind::kParameter : ir::InputKind::kUser;
    in.name = name;
    in.trainable = trainable;
    g_.inputs.push_back(in);
    return v;
  }
  ir::ValueId op(const char* name, const std::string& label, std::vector<std::pair<const char*, ir::ValueId>> operands, int layer, ir::Phase phase) {
    const ir::NodeId id = g_.addNode(name, label);
    ir::Node& node = g_.node(id);
    for (const auto& [argument, v] : operands) node.set(argument, ir::Use{v});
    node.phase = phase;
    auto location = std::make_shared<ir::Location>();
    if (layer >= 0) location->module_path = "model.layers." + std::to_string(layer);
    node.location = location;
    const ir::ValueId out = g_.addOutput(id, ir::DType::kF32, {n, n});
    g_.value(out).local = {n, n};
    g_.value(out).storage_bytes = kBytes;
    g_.order.push_back(id);
    return out;
  }
  void chain(int layers) {
    g_.form = ir::Form::kJoint;
    std::vector<ir::ValueId> w, x{input("x", false)};
    for (int i = 0; i < layers; ++i) w.push_back(input("model.layers." + std::to_string(i) + ".weight", true));
    for (int i = 0; i < layers; ++i) x.push_back(op("aten.mm.default", "f", {{"self", x.back()}, {"mat2", w[static_cast<std::size_t>(i)]}}, i, ir::Phase::kForward));
    ir::ValueId grad = x.back();
    for (int i = layers; i-- > 0;) {
      const ir::ValueId gw = op("aten.mm.default", "gw", {{"self", x[static_cast<std::size_t>(i)]}, {"mat2", grad}}, i, ir::Phase::kBackward);
      g_.outputs.push_back({gw, ir::OutputKind::kGradient, i + 1});
      grad = op("aten.mm.default", "gx", {{"self", grad}, {"mat2", w[static_cast<std::size_t>(i)]}}, i, ir::Phase::kBackward);
    }
    settings_.sp = 1;
    settings_.optimizer = "sgd";
  }
  /// Of one product: 2 n^3 flop at 10 per ns beat 3 n^2 floats at 1 byte per ns only for large n.
  static double product() { return std::max(2.0 * n * n * n / 10, 3.0 * kBytes); }
  double update(int layers) const { return 3.0 * kBytes * layers; }

  ir::Graph g_;
  passes::Settings settings_;
};

TEST_F(StepTimes, ARooflinePerNodeAndTheUpdate) {
  chain(3);
  const StepTime t = estimateStep(g_, settings_, device(), {});
  EXPECT_DOUBLE_EQ(t.middle, 9 * product() + update(3)) << "three products a layer; weights and gradients of sgd";
  EXPECT_DOUBLE_EQ(t.low, t.middle);
  EXPECT_DOUBLE_EQ(t.high, t.middle);
  EXPECT_DOUBLE_EQ(t.compute, t.middle);
  EXPECT_DOUBLE_EQ(t.communication, 0);
}

TEST_F(StepTimes, TheIntervalIsThatOfTheRates) {
  chain(1);
  DeviceProfile p = device();
  p.memory = {0.5, 2, "t"};
  p.launch = {10, 30, "t"};
  const StepTime t = estimateStep(g_, settings_, p, {});
  const double flops = 2.0 * n * n * n / 10;
  EXPECT_DOUBLE_EQ(t.low, 3 * (std::max(flops, 3.0 * kBytes / 2) + 10) + update(1) / 2);
  EXPECT_DOUBLE_EQ(t.high, 3 * (std::max(flops, 3.0 * kBytes / 0.5) + 30) + update(1) / 0.5);
  EXPECT_GT(t.middle, t.low);
  EXPECT_LT(t.middle, t.high);
}

TEST_F(StepTimes, RanksThatShareAMachineShareItsCores) {
  chain(1);
  g_.mesh.axes.push_back({"sp", 2});
  DeviceProfile p = device();
  const double alone = estimateStep(g_, settings_, p, {.gpus_per_node = 2}).middle;
  p.shared = true;
  EXPECT_DOUBLE_EQ(estimateStep(g_, settings_, p, {.gpus_per_node = 2}).middle, 2 * alone);
  EXPECT_DOUBLE_EQ(estimateStep(g_, settings_, p, {.gpus_per_node = 1}).middle, alone) << "one rank a node";
}

TEST_F(StepTimes, GradientsOfReplicasAreSummedBehindTheBackward) {
  chain(3);
  const StepTime alone = estimateStep(g_, settings_, device(), {});
  const StepTime two = estimateStep(g_, settings_, device(), {.gpus_per_node = 2, .replicas = 2});
  const double sum = kBytes / 2.0 / 0.5;
  EXPECT_DOUBLE_EQ(two.communication, 3 * sum);
  EXPECT_LT(two.exposed, two.communication) << "most of it is behind the backward";
  EXPECT_LE(two.middle, alone.middle + 3 * sum);
}

TEST_F(StepTimes, Zero3GathersTheNextLayerMeanwhile) {
  chain(4);
  DeviceProfile p = device();
  p.node_link = {1e6, 1e6, "t"};
  const StepExtras extras{.gpus_per_node = 4, .gathers_layers = true, .replicas = 4};
  const StepTime fast = estimateStep(g_, settings_, p, extras);
  p.node_link = {1e-3, 1e-3, "t"};
  const StepTime slow = estimateStep(g_, settings_, p, extras);
  EXPECT_LT(fast.exposed, 1);
  EXPECT_GT(slow.exposed, 0.5 * slow.middle) << "a slow link is waited for";
  // Four layers twice, and four sums of gradients, three quarters of a weight each.
  EXPECT_NEAR(slow.communication, 12 * 0.75 * kBytes / 1e-3, 1);
}

TEST_F(StepTimes, CheckpointsLeaveAndComeBackInTime) {
  chain(4);
  const std::vector<Checkpoint> checkpoints = findCheckpoints(g_);
  ASSERT_EQ(checkpoints.size(), 3U) << "what a layer hands to the next; the last result stays in its layer";
  std::vector<std::int64_t> live(g_.order.size(), 10 * kBytes);
  const HostBytes host = moveToHost(checkpoints, live);
  EXPECT_EQ(host.high, host.low) << "blocks of 16 KiB";
  EXPECT_EQ(host.low, 2 * kBytes) << "the backward begins with the last one";
  for (const Checkpoint& c : checkpoints) {
    EXPECT_LE(c.back, c.first_backward) << "back before it is read";
    EXPECT_GT(c.gone, c.made);
    if (c.back > c.gone) {
      EXPECT_EQ(c.bytes, kBytes);
    }
  }
  EXPECT_EQ(*std::min_element(live.begin(), live.end()), 8 * kBytes);
  EXPECT_EQ(live.front(), 10 * kBytes);
  EXPECT_EQ(live.back(), 10 * kBytes);

  DeviceProfile p = device();
  p.host_link = {1e6, 1e6, "t"};
  const StepTime plain = estimateStep(g_, settings_, p, {});
  StepExtras extras;
  extras.offloaded = checkpoints;
  EXPECT_NEAR(estimateStep(g_, settings_, p, extras).middle, plain.middle, 1) << "behind compute";
  p.host_link = {1e-3, 1e-3, "t"};
  EXPECT_GT(estimateStep(g_, settings_, p, extras).middle, plain.middle + kBytes / 1e-3) << "a slow link is waited for";
}

TEST_F(StepTimes, StatesOnTheHostComeAndGoDuringTheUpdate) {
  chain(2);
  DeviceProfile p = device();
  p.host_link = {0.01, 0.02, "t"};
  const StepTime plain = estimateStep(g_, settings_, p, {});
  StepExtras extras;
  extras.passing_states = 8 * kBytes;
  const StepTime passing = estimateStep(g_, settings_, p, extras);
  EXPECT_GT(passing.low, plain.low);
  EXPECT_NEAR(passing.high - passing.low, 8 * kBytes * (2 / 0.01 - 1 / 0.02), 1) << "at once on a fast link, one after the other on a slow one";
  p.host_link = {1e6, 1e6, "t"};
  EXPECT_NEAR(estimateStep(g_, settings_, p, extras).middle, plain.middle, 1) << "behind the update's own reading and writing";
}

}  // namespace
}  // namespace spscope::session
