// SPDX-License-Identifier: Apache-2.0
// What a joint graph keeps of the forward graph, the sp.* ops in both directions, constants, mutations and refusals.
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/ir/sp_ops.h"
#include "core/torch/capture.h"
#include "tests/unit/torch/capture_support.h"

namespace spscope::exec {
namespace {

using ir::Dims;
using ir::DType;

/// Builds kLocal graphs by hand: every value is added with its local shape, replicated unless said otherwise.
struct Builder {
  ir::Graph g;

  explicit Builder(int ranks = 1, int rank = 0) {
    g.form = ir::Form::kLocal;
    g.rank = rank;
    g.mesh.axes = {{"sp", ranks}};
  }
  ir::ValueId input(const char* name, DType type, Dims shape, bool trainable = false) {
    const ir::ValueId v = g.addValue(name, type, shape);
    ir::Input in;
    in.value = v;
    in.kind = trainable ? ir::InputKind::kParameter : ir::InputKind::kUser;
    in.name = name;
    in.trainable = trainable;
    g.inputs.push_back(in);
    return v;
  }
  ir::ValueId parameter(const char* name, Dims shape) { return input(name, DType::kF32, std::move(shape), true); }
  ir::ValueId op(Symbol name, std::vector<std::pair<const char*, ir::Attribute>> args, Dims shape, DType type = DType::kF32) {
    const ir::NodeId n = g.addNode(name, std::string(ir::baseName(name)));
    for (auto& [key, value] : args) g.node(n).set(key, std::move(value));
    auto location = std::make_shared<ir::Location>();
    location->source = "model.py:" + std::to_string(n);
    g.node(n).location = location;
    const ir::ValueId v = g.addOutput(n, type, std::move(shape));
    g.order.push_back(n);
    return v;
  }
  void loss(ir::ValueId v) { g.outputs.push_back({v, ir::OutputKind::kLoss, ir::kNone}); }
};

ir::Use use(ir::ValueId v) { return ir::Use{v}; }

std::vector<const ir::Node*> nodesOf(const ir::Graph& g, Symbol op) {
  std::vector<const ir::Node*> found;
  for (const ir::NodeId id : g.order)
    if (g.node(id).op == op) found.push_back(&g.node(id));
  return found;
}

Builder perceptron() {
  Builder b;
  const auto x = b.input("x", DType::kF32, {4, 8});
  const auto w = b.parameter("w", {16, 8});
  const auto bias = b.parameter("bias", {16});
  const auto unused = b.parameter("unused", {3});
  (void)unused;
  const auto h = b.op("aten.linear.default", {{"input", use(x)}, {"weight", use(w)}, {"bias", use(bias)}}, {4, 16});
  const auto a = b.op("aten.relu.default", {{"self", use(h)}}, {4, 16});
  const auto half = b.op("aten.mul.Tensor", {{"self", use(a)}, {"other", 0.5}}, {4, 16});
  b.loss(b.op("aten.mean.default", {{"self", use(half)}}, {}));
  return b;
}

TEST(Capture, KeepsIdsNamesAndValuesOfWhatDoesNotDecompose) {
  Builder b = perceptron();
  const auto joint = captureJoint(b.g);
  ASSERT_TRUE(joint.has_value()) << joint.error().format();
  EXPECT_EQ(joint->form, ir::Form::kJoint);
  EXPECT_EQ(joint->inputs, b.g.inputs);
  const auto relu = nodesOf(*joint, "aten.relu.default");
  ASSERT_EQ(relu.size(), 1u);
  EXPECT_EQ(relu[0]->id, b.g.order[1]);
  EXPECT_EQ(relu[0]->name, "relu");
  EXPECT_EQ(relu[0]->outputs[0], b.g.node(b.g.order[1]).outputs[0]);
  // linear becomes addmm, which gives linear's value and is named after it.
  const auto addmm = nodesOf(*joint, "aten.addmm.default");
  ASSERT_EQ(addmm.size(), 1u);
  EXPECT_EQ(addmm[0]->name, "linear.addmm");
  EXPECT_EQ(addmm[0]->outputs[0], b.g.node(b.g.order[0]).outputs[0]);
  EXPECT_EQ(addmm[0]->provenance.from[0], b.g.order[0]);
  EXPECT_EQ(addmm[0]->location->source, "model.py:0");
  EXPECT_TRUE(nodesOf(*joint, "aten.linear.default").empty());
  // Numbers stay numbers.
  const auto mul = nodesOf(*joint, "aten.mul.Tensor");
  ASSERT_GE(mul.size(), 1u);
  EXPECT_EQ(std::get<double>(*mul[0]->find("other")), 0.5);
}

TEST(Capture, BackwardNodesNameTheForwardNodeThatTheyDerive) {
  Builder b = perceptron();
  const auto joint = captureJoint(b.g);
  ASSERT_TRUE(joint.has_value()) << joint.error().format();
  const auto threshold = nodesOf(*joint, "aten.threshold_backward.default");
  ASSERT_EQ(threshold.size(), 1u);
  EXPECT_EQ(threshold[0]->phase, ir::Phase::kBackward);
  EXPECT_EQ(threshold[0]->forward, b.g.order[1]);
  EXPECT_EQ(threshold[0]->location->source, "model.py:1");
  const auto addmm = nodesOf(*joint, "aten.addmm.default");
  bool found = false;
  for (const auto* mm : nodesOf(*joint, "aten.mm.default")) found = found || mm->forward == addmm[0]->id;
  EXPECT_TRUE(found);
  bool backward = false;
  for (const ir::NodeId id : joint->order) {  // forward first, then only backward
    if (joint->node(id).phase == ir::Phase::kBackward) backward = true;
    EXPECT_EQ(joint->node(id).phase == ir::Phase::kBackward, backward);
  }
}

TEST(Capture, OutputsAreLossThenGradientsThenTheRest) {
  Builder b = perceptron();
  b.g.outputs.push_back({b.g.node(b.g.order[1]).outputs[0], ir::OutputKind::kUser, ir::kNone});
  const auto joint = captureJoint(b.g);
  ASSERT_TRUE(joint.has_value()) << joint.error().format();
  ASSERT_EQ(joint->outputs.size(), 4u);
  EXPECT_EQ(joint->outputs[0].kind, ir::OutputKind::kLoss);
  EXPECT_EQ(joint->outputs[1].input, 1);  // w
  EXPECT_EQ(joint->outputs[2].input, 2);  // bias; `unused` reaches no loss
  EXPECT_EQ(joint->outputs[3].kind, ir::OutputKind::kUser);
}

TEST(Capture, ViewsShareStorageAndOthersOwnIt) {
  Builder b;
  const auto w = b.parameter("w", {4, 6});
  const auto t = b.op("aten.transpose.int", {{"self", use(w)}, {"dim0", std::int64_t{0}}, {"dim1", std::int64_t{1}}}, {6, 4});
  const auto e = b.op("aten.exp.default", {{"self", use(t)}}, {6, 4});
  const auto v = b.op("aten.view.default", {{"self", use(e)}, {"size", Dims{24}}}, {24});
  b.loss(b.op("aten.sum.default", {{"self", use(v)}}, {}));
  const auto joint = captureJoint(b.g);
  ASSERT_TRUE(joint.has_value()) << joint.error().format();
  EXPECT_EQ(joint->value(t).storage, w);
  EXPECT_EQ(joint->value(t).storage_bytes, 0);
  EXPECT_EQ(joint->value(w).storage_bytes, 96);
  EXPECT_EQ(joint->value(e).storage, ir::kNone);
  EXPECT_EQ(joint->value(e).storage_bytes, 96);
  // exp keeps the transposed memory, so this view has to copy: aten.view is run as reshape.
  EXPECT_NE(joint->value(v).storage, e);
}

TEST(Capture, DetachStopsTheGradient) {
  Builder b;
  const auto w = b.parameter("w", {4});
  const auto d = b.op("aten.detach.default", {{"self", use(w)}}, {4});
  const auto p = b.op("aten.mul.Tensor", {{"self", use(w)}, {"other", use(d)}}, {4});
  b.loss(b.op("aten.sum.default", {{"self", use(p)}}, {}));
  const auto joint = captureJoint(b.g);
  ASSERT_TRUE(joint.has_value()) << joint.error().format();
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::tensor({1.f, 2.f, 3.f, 4.f});
  const auto values = testing::runGraph(*joint, {x});
  EXPECT_TRUE(values[static_cast<std::size_t>(joint->outputs[1].value)].equal(x));
}

TEST(Capture, AChangeInPlaceIsWrittenAsItsFunctionalTwin) {
  Builder b;
  const auto w = b.parameter("w", {4});
  const auto e = b.op("aten.exp.default", {{"self", use(w)}}, {4});
  const auto s = b.op("aten.mul.Tensor", {{"self", use(e)}, {"other", 2.0}}, {4});
  const auto a = b.op("aten.add_.Tensor", {{"self", use(s)}, {"other", use(w)}}, {4});
  const auto u = b.op("aten.mul.Tensor", {{"self", use(s)}, {"other", use(a)}}, {4});  // both are the changed value
  b.loss(b.op("aten.sum.default", {{"self", use(u)}}, {}));
  const auto joint = captureJoint(b.g);
  ASSERT_TRUE(joint.has_value()) << joint.error().format();
  EXPECT_TRUE(nodesOf(*joint, "aten.add_.Tensor").empty());
  const at::Tensor x = at::rand({4});
  const at::NoGradGuard no_grad;
  const auto values = testing::runGraph(*joint, {x});
  const at::Tensor changed = 2 * x.exp() + x;
  EXPECT_TRUE(values[static_cast<std::size_t>(joint->outputs[0].value)].allclose((changed * changed).sum()));
  EXPECT_TRUE(values[static_cast<std::size_t>(joint->outputs[1].value)].allclose(2 * changed * (2 * x.exp() + 1)));
}

TEST(Capture, AChangeOfAViewIsRefused) {
  Builder b;
  const auto w = b.parameter("w", {4});
  const auto e = b.op("aten.exp.default", {{"self", use(w)}}, {4});
  const auto s = b.op("aten.slice.Tensor", {{"self", use(e)}, {"dim", std::int64_t{0}}, {"start", std::int64_t{0}}, {"end", std::int64_t{2}}}, {2});
  b.op("aten.mul_.Tensor", {{"self", use(s)}, {"other", 2.0}}, {2});
  b.loss(b.op("aten.sum.default", {{"self", use(e)}}, {}));
  const auto joint = captureJoint(b.g);
  ASSERT_FALSE(joint.has_value());
  EXPECT_EQ(joint.error().code, "capture-failed");
  EXPECT_EQ(joint.error().node, "%mul_");
}

TEST(Capture, RefusalsNameTheOpAndTheSource) {
  Builder b;
  const auto w = b.parameter("w", {4});
  b.op("aten.nonzero.default", {{"self", use(w)}}, {4, 1}, DType::kI64);
  b.loss(b.op("aten.sum.default", {{"self", use(w)}}, {}));
  const auto joint = captureJoint(b.g);
  ASSERT_FALSE(joint.has_value());
  EXPECT_EQ(joint.error().code, "capture-failed");
  EXPECT_NE(joint.error().message.find("nonzero"), std::string::npos);
  EXPECT_EQ(joint.error().node, "%nonzero");
  EXPECT_EQ(joint.error().source, "model.py:0");

  Builder wrong;
  const auto p = wrong.parameter("w", {4});
  wrong.loss(wrong.op("aten.exp.default", {{"self", use(p)}}, {5}));
  EXPECT_EQ(captureJoint(wrong.g).error().code, "capture-failed");  // planned 5, is 4

  Builder none;
  const auto x = none.input("x", DType::kF32, {4});
  none.loss(none.op("aten.sum.default", {{"self", use(x)}}, {}));
  EXPECT_EQ(captureJoint(none.g).error().code, "capture-failed");  // nothing to train

  const CancelToken cancel;
  cancel.cancel();
  EXPECT_EQ(captureJoint(perceptron().g, cancel).error().code, "cancelled");
}

TEST(Capture, ACancelAtAnyMomentIsNoFailureOfAnOp) {
  Builder b;
  auto x = b.parameter("w", {4});
  for (int i = 0; i < 400; ++i) x = b.op("aten.sin.default", {{"self", use(x)}}, {4});
  b.loss(b.op("aten.sum.default", {{"self", use(x)}}, {}));
  int cancelled = 0;
  for (int microseconds = 0; microseconds < 12'000; microseconds += 60) {
    const CancelToken cancel;
    std::atomic<bool> begun{false};
    std::thread other([&] {
      while (!begun) std::this_thread::yield();
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
      while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
      cancel.cancel();
    });
    begun = true;
    const auto joint = captureJoint(b.g, cancel);
    other.join();
    if (joint) continue;
    ASSERT_EQ(joint.error().code, "cancelled") << joint.error().format();
    ++cancelled;
  }
  EXPECT_GT(cancelled, 0);
}

TEST(Capture, UlyssesAttentionInBothDirections) {
  // Rank 1 of 2; 7 rows in uneven blocks, 4 heads of 8.
  Builder b(2, 1);
  const Dims rows{4, 3}, head_blocks{2, 2};
  const auto x = b.input("x", DType::kF32, {1, 3, 32});
  const auto w = b.parameter("w", {32, 32});
  const auto vary = b.op(ir::sp::kVary, {{"self", use(w)}}, {32, 32});
  const auto h = b.op("aten.linear.default", {{"input", use(x)}, {"weight", use(vary)}}, {1, 3, 32});
  const auto q = b.op("aten.view.default", {{"self", use(h)}, {"size", Dims{1, 3, 4, 8}}}, {1, 3, 4, 8});
  const auto s = b.op(ir::sp::kAllToAll, {{"self", use(q)}, {"gather_dim", std::int64_t{1}}, {"gather_blocks", rows},
                                          {"scatter_dim", std::int64_t{2}}, {"scatter_blocks", head_blocks}}, {1, 7, 2, 8});
  const auto t = b.op("aten.transpose.int", {{"self", use(s)}, {"dim0", std::int64_t{1}}, {"dim1", std::int64_t{2}}}, {1, 2, 7, 8});
  const ir::NodeId n = b.g.addNode("aten._scaled_dot_product_flash_attention_for_cpu.default", "attention");
  b.g.node(n).set("query", use(t));
  b.g.node(n).set("key", use(t));
  b.g.node(n).set("value", use(t));
  b.g.node(n).set("is_causal", true);
  const auto out = b.g.addOutput(n, DType::kF32, {1, 2, 7, 8});
  b.g.addOutput(n, DType::kF32, {1, 2, 7});
  b.g.order.push_back(n);
  const auto back = b.op(ir::sp::kAllToAll, {{"self", use(out)}, {"gather_dim", std::int64_t{1}}, {"gather_blocks", head_blocks},
                                             {"scatter_dim", std::int64_t{2}}, {"scatter_blocks", rows}}, {1, 4, 3, 8});
  const auto sum = b.op("aten.sum.default", {{"self", use(back)}}, {});
  b.loss(b.op(ir::sp::kAllReduce, {{"self", use(sum)}}, {}));
  const auto joint = captureJoint(b.g);
  ASSERT_TRUE(joint.has_value()) << joint.error().format();

  const auto exchanges = nodesOf(*joint, ir::sp::kAllToAll);
  ASSERT_EQ(exchanges.size(), 4u);
  EXPECT_EQ(exchanges[0]->id, joint->value(s).producer);
  // The gradient of the first exchange is the last: the two dims change roles.
  EXPECT_EQ(exchanges[3]->phase, ir::Phase::kBackward);
  EXPECT_EQ(exchanges[3]->forward, exchanges[0]->id);
  EXPECT_EQ(std::get<std::int64_t>(*exchanges[3]->find("gather_dim")), 2);
  EXPECT_EQ(std::get<Dims>(*exchanges[3]->find("gather_blocks")), head_blocks);
  EXPECT_EQ(std::get<std::int64_t>(*exchanges[3]->find("scatter_dim")), 1);
  EXPECT_EQ(joint->value(exchanges[3]->outputs[0]).local, (Dims{1, 3, 4, 8}));
  // The loss's all-reduce has the identity as gradient, vary's gradient is an all-reduce.
  const auto reduces = nodesOf(*joint, ir::sp::kAllReduce);
  ASSERT_EQ(reduces.size(), 2u);
  EXPECT_EQ(reduces[0]->phase, ir::Phase::kForward);
  EXPECT_EQ(reduces[1]->phase, ir::Phase::kBackward);
  EXPECT_EQ(reduces[1]->forward, joint->value(vary).producer);
  EXPECT_EQ(joint->outputs[1].value, reduces[1]->outputs[0]);
  EXPECT_EQ(nodesOf(*joint, ir::sp::kVary).size(), 1u);
  EXPECT_EQ(joint->value(vary).storage, w);  // moves no bytes
  EXPECT_EQ(nodesOf(*joint, "aten._scaled_dot_product_flash_attention_for_cpu_backward.default").size(), 1u);
}

TEST(Capture, GradientsOfAttentionOnCudaCanBeCalled) {
  // Their forward kernels leave results undefined, and no mask is given: the joint graph has no values for these arguments.
  const Dims shape{1, 2, 32, 16};
  for (const bool flash : {true, false}) {
    Builder b;
    const auto x = b.input("x", DType::kBF16, shape), w = b.input("w", DType::kBF16, shape, true);
    const auto q = b.op("aten.mul.Tensor", {{"self", use(x)}, {"other", use(w)}}, shape, DType::kBF16);
    const std::string op = flash ? "aten._scaled_dot_product_flash_attention" : "aten._scaled_dot_product_efficient_attention";
    const ir::NodeId n = b.g.addNode(Symbol(op + ".default"), "attention");
    for (const char* name : {"query", "key", "value"}) b.g.node(n).set(name, use(q));
    b.g.node(n).set("is_causal", true);
    if (!flash) {
      b.g.node(n).set("attn_bias", std::monostate{});
      b.g.node(n).set("compute_log_sumexp", true);
    }
    const auto out = b.g.addOutput(n, DType::kBF16, shape);
    b.g.addOutput(n, DType::kF32, {1, 2, 32});
    if (flash) {
      for (int i = 0; i < 4; ++i) b.g.node(n).outputs.push_back(ir::kNone);
      b.g.addOutput(n, DType::kU64, {2});
      b.g.addOutput(n, DType::kU64, {});
    } else {
      b.g.addOutput(n, DType::kI64, {});
      b.g.addOutput(n, DType::kI64, {});
    }
    b.g.order.push_back(n);
    b.loss(b.op("aten.sum.default", {{"self", use(out)}}, {}, DType::kBF16));
    const auto joint = captureJoint(b.g);
    ASSERT_TRUE(joint.has_value()) << joint.error().format();
    const auto backward = nodesOf(*joint, Symbol(op + "_backward.default"));
    ASSERT_EQ(backward.size(), 1u);
    EXPECT_EQ(backward[0]->find(flash ? "cum_seq_q" : "attn_bias"), nullptr);
    const auto prepared = prepare(*backward[0], c10::Device(c10::kMeta));
    ASSERT_TRUE(prepared.has_value()) << prepared.error().format();
    std::vector<at::Tensor> operands, gradients;
    for (const ir::ValueId v : prepared->operands)
      operands.push_back(at::empty(joint->value(v).local, at::TensorOptions().dtype(toScalarType(joint->value(v).dtype)).device(c10::kMeta)));
    const at::AutoDispatchBelowADInplaceOrView below;
    const Status called = call(*prepared, operands, gradients);  // the dispatcher and the boxed kernel take them
    ASSERT_TRUE(called.has_value()) << called.error().format();
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(gradients[i].sizes().vec(), shape);
  }
}

TEST(Capture, GradientsOfSliceGatherAndReduceScatter) {
  Builder b(2, 0);
  const Dims rows{3, 2};
  const auto w = b.parameter("w", {5, 2});
  const auto mine = b.op(ir::sp::kSlice, {{"self", use(w)}, {"dim", std::int64_t{0}}, {"blocks", rows}}, {3, 2});
  const auto e = b.op("aten.exp.default", {{"self", use(mine)}}, {3, 2});
  const auto all = b.op(ir::sp::kAllGather, {{"self", use(e)}, {"dim", std::int64_t{0}}, {"blocks", rows}}, {5, 2});
  const auto f = b.op("aten.exp.default", {{"self", use(all)}}, {5, 2});
  const auto part = b.op(ir::sp::kReduceScatter, {{"self", use(f)}, {"dim", std::int64_t{0}}, {"blocks", rows}}, {3, 2});
  b.loss(b.op("aten.sum.default", {{"self", use(part)}}, {}));
  const auto joint = captureJoint(b.g);
  ASSERT_TRUE(joint.has_value()) << joint.error().format();
  std::vector<std::string> backward;
  for (const ir::NodeId id : joint->order)
    if (joint->node(id).phase == ir::Phase::kBackward && joint->node(id).op.str().rfind("sp.", 0) == 0)
      backward.push_back(std::string(ir::baseName(joint->node(id).op)));
  EXPECT_EQ(backward, (std::vector<std::string>{"all_gather", "slice", "all_gather"}));
  EXPECT_EQ(joint->value(joint->outputs[1].value).local, (Dims{5, 2}));
}

TEST(Capture, IntegerOperandsOfCollectivesHaveNoGradient) {
  Builder b(2, 0);
  const auto ids = b.input("ids", DType::kI64, {4});
  const auto w = b.parameter("w", {9, 2});
  const auto mine = b.op(ir::sp::kSlice, {{"self", use(ids)}, {"dim", std::int64_t{0}}, {"blocks", Dims{2, 2}}}, {2}, DType::kI64);
  const auto e = b.op("aten.embedding.default", {{"weight", use(w)}, {"indices", use(mine)}, {"padding_idx", std::int64_t{0}}}, {2, 2});
  b.loss(b.op("aten.sum.default", {{"self", use(e)}}, {}));
  const auto joint = captureJoint(b.g);
  ASSERT_TRUE(joint.has_value()) << joint.error().format();
  const auto backward = nodesOf(*joint, "aten.embedding_dense_backward.default");
  ASSERT_EQ(backward.size(), 1u);
  EXPECT_EQ(std::get<std::int64_t>(*backward[0]->find("padding_idx")), 0);
}

}  // namespace
}  // namespace spscope::exec
