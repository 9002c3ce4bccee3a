// SPDX-License-Identifier: Apache-2.0
// Calling ops: conversions of arguments, lists, errors, and the cost of a call.
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <chrono>

#include "core/torch/dtype_convert.h"
#include "core/torch/op_call.h"

namespace spscope::exec {
namespace {

ir::Node nodeOf(std::string_view op) {
  ir::Node node;
  node.op = Symbol(op);
  node.name = "n";
  return node;
}

std::vector<at::Tensor> callOk(const ir::Node& node, std::vector<at::Tensor> operands,
                               c10::Device device = c10::Device(c10::kCPU)) {
  auto op = prepare(node, device);
  EXPECT_TRUE(op.has_value()) << op.error().format();
  std::vector<at::Tensor> out;
  if (!op) return out;
  const Status status = call(*op, operands, out);
  EXPECT_TRUE(status.has_value()) << status.error().format();
  return out;
}

TEST(OpCall, NumberForATensorDoesNotPromote) {
  ir::Node node = nodeOf("aten.mul.Tensor");
  node.set("self", ir::Use{0});
  node.set("other", 0.5);
  const auto out = callOk(node, {at::ones({2}, at::kBFloat16)});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].scalar_type(), at::kBFloat16);
  EXPECT_EQ(out[0][0].item<float>(), 0.5f);
}

TEST(OpCall, IntForAFloatAndDefaults) {
  ir::Node node = nodeOf("aten.native_layer_norm.default");
  node.set("input", ir::Use{0});
  node.set("normalized_shape", std::int64_t{3});
  node.set("weight", std::monostate{});
  node.set("bias", std::monostate{});
  node.set("eps", std::int64_t{0});
  EXPECT_EQ(callOk(node, {at::rand({2, 3})}).size(), 3u);
}

TEST(OpCall, ListWithNones) {
  ir::Node node = nodeOf("aten.index.Tensor");
  node.set("self", ir::Use{0});
  node.set("indices", ir::UseList{{ir::kNone}, {1}});
  const at::Tensor x = at::arange(6).view({2, 3});
  const auto out = callOk(node, {x, at::tensor({2, 0})});
  EXPECT_TRUE(out[0].equal(x.index({at::indexing::Slice(), at::tensor({2, 0})})));
  ir::Node cat = nodeOf("aten.cat.default");
  cat.set("tensors", ir::UseList{{0}, {0}});
  EXPECT_EQ(callOk(cat, {x, x})[0].size(0), 4);
}

TEST(OpCall, ListOutputsAreFlattened) {
  ir::Node node = nodeOf("aten.split.Tensor");
  node.set("self", ir::Use{0});
  node.set("split_size", std::int64_t{2});
  EXPECT_EQ(callOk(node, {at::rand({6})}).size(), 3u);
}

TEST(OpCall, ViewOfNonContiguousMemoryCopies) {
  ir::Node node = nodeOf("aten.view.default");
  node.set("self", ir::Use{0});
  node.set("size", std::vector<std::int64_t>{6});
  const at::Tensor x = at::arange(6).view({2, 3}).t();
  EXPECT_TRUE(callOk(node, {x})[0].equal(x.reshape({6})));
}

TEST(OpCall, DevicesAreRemapped) {
  ir::Node node = nodeOf("aten.full.default");
  node.set("size", std::vector<std::int64_t>{2});
  node.set("fill_value", 1.5);
  node.set("dtype", ir::DType::kBF16);
  EXPECT_EQ(callOk(node, {})[0].scalar_type(), at::kBFloat16);
  EXPECT_TRUE(callOk(node, {}, c10::Device(c10::kMeta))[0].is_meta());
  node.set("device", ir::Device{"cuda"});
  EXPECT_TRUE(callOk(node, {})[0].is_cpu());
}

TEST(OpCall, Errors) {
  EXPECT_EQ(prepare(nodeOf("aten.no_such_op.default")).error().code, "op-unknown");
  EXPECT_EQ(prepare(nodeOf("nonsense")).error().code, "op-unknown");
  EXPECT_EQ(prepare(nodeOf("aten.mm.default")).error().code, "op-argument");
  ir::Node extra = nodeOf("aten.relu.default");
  extra.set("self", ir::Use{0});
  extra.set("bogus", std::int64_t{1});
  EXPECT_EQ(prepare(extra).error().code, "op-argument");
  ir::Node mm = nodeOf("aten.mm.default");
  mm.name = "mm_7";
  auto location = std::make_shared<ir::Location>();
  location->source = "model.py:41";
  mm.location = location;
  mm.set("self", ir::Use{0});
  mm.set("mat2", ir::Use{1});
  auto op = prepare(mm);
  ASSERT_TRUE(op.has_value());
  std::vector<at::Tensor> out;
  const std::vector<at::Tensor> bad{at::rand({2, 3}), at::rand({2, 3})};
  const Status status = call(*op, bad, out);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, "op-failed");
  EXPECT_EQ(status.error().node, "%mm_7");
  EXPECT_EQ(status.error().source, "model.py:41");
  EXPECT_EQ(status.error().message.find('\n'), std::string::npos);
}

TEST(OpCall, UndefinedTensorsOfAttentionsGradient) {
  // By op: its tensors in schema order, and which of them autograd passes undefined.
  struct Gradient {
    const char* op;
    std::vector<const char*> tensors, undefined;
    std::vector<std::pair<const char*, ir::Attribute>> numbers;
  };
  const std::vector<std::pair<const char*, ir::Attribute>> lengths{{"max_q", std::int64_t{8}}, {"max_k", std::int64_t{8}}, {"dropout_p", 0.0}, {"is_causal", true}};
  const std::vector<Gradient> gradients{
      {"aten._scaled_dot_product_flash_attention_backward.default", {"grad_out", "query", "key", "value", "out", "logsumexp", "philox_seed", "philox_offset"}, {"cum_seq_q", "cum_seq_k"}, lengths},
      {"aten._scaled_dot_product_cudnn_attention_backward.default",
       {"grad_out", "query", "key", "value", "out", "logsumexp", "philox_seed", "philox_offset"}, {"attn_bias", "cum_seq_q", "cum_seq_k"}, lengths},
      {"aten._scaled_dot_product_efficient_attention_backward.default",
       {"grad_out_", "query", "key", "value", "out", "logsumexp", "philox_seed", "philox_offset"}, {"attn_bias"},
       {{"dropout_p", 0.0}, {"grad_input_mask", std::vector<bool>{true, true, true, false}}}},
      {"aten._flash_attention_backward.default", {"grad_out", "query", "key", "value", "out", "logsumexp", "rng_state", "unused"}, {"cum_seq_q", "cum_seq_k"}, lengths},
      {"aten._cudnn_attention_backward.default",
       {"grad_out", "query", "key", "value", "out", "logsumexp", "philox_seed", "philox_offset"}, {"attn_bias", "cum_seq_q", "cum_seq_k"}, lengths},
  };
  for (const Gradient& gradient : gradients) {
    SCOPED_TRACE(gradient.op);
    // Not there, None, or an output that the forward node does not have: the same.
    for (const auto& absent : {std::optional<ir::Attribute>(), std::optional<ir::Attribute>(std::monostate{}), std::optional<ir::Attribute>(ir::Use{ir::kNone})}) {
      const auto make = [&](std::string_view forgotten) {
        ir::Node node = nodeOf(gradient.op);
        for (std::size_t i = 0; i < gradient.tensors.size(); ++i)
          if (gradient.tensors[i] != forgotten)
            node.set(gradient.tensors[i], ir::Use{static_cast<ir::ValueId>(i)});
          else if (absent)
            node.set(gradient.tensors[i], *absent);
        for (const auto& [name, value] : gradient.numbers) node.set(name, value);
        for (const char* name : gradient.undefined)
          if (absent) node.set(name, *absent);
        return prepare(node);
      };
      const auto op = make("");
      ASSERT_TRUE(op.has_value()) << op.error().format();
      EXPECT_EQ(op->operands.size(), gradient.tensors.size());
      for (const char* name : gradient.undefined) {
        const c10::IValue& value = op->stack[static_cast<std::size_t>(*op->handle->schema().argumentIndexWithName(name))];
        ASSERT_TRUE(value.isTensor()) << name;  // None would be refused by the call
        EXPECT_FALSE(value.toTensor().defined()) << name;
      }
      for (const char* name : gradient.tensors) {
        const auto refused = make(name);
        ASSERT_FALSE(refused.has_value()) << name;
        EXPECT_EQ(refused.error().code, "op-argument");
        EXPECT_NE(refused.error().message.find(" needs the argument " + std::string(name)), std::string::npos) << refused.error().message;
      }
    }
  }
}

TEST(OpCall, DTypesRoundTrip) {
  for (int i = 1; i <= static_cast<int>(ir::DType::kF8E8M0FNU); ++i) {
    const auto type = static_cast<ir::DType>(i);
    EXPECT_EQ(toDType(toScalarType(type)), type);
    EXPECT_EQ(static_cast<std::int64_t>(c10::elementSize(toScalarType(type))), ir::sizeOf(type));
  }
}

TEST(OpCall, CostsNoMoreThanADirectCall) {
  // A step of small ops is dominated by the cost of a call: boxed calls must stay close to the C++ API.
  ir::Node node = nodeOf("aten.add.Tensor");
  node.set("self", ir::Use{0});
  node.set("other", ir::Use{1});
  auto op = prepare(node);
  ASSERT_TRUE(op.has_value());
  const at::AutoDispatchBelowADInplaceOrView below;
  std::vector<at::Tensor> values{at::rand({64}), at::rand({64}), at::Tensor()};
  op->outputs = {2};
  const auto time = [](auto&& f) {
    double best = 1e9;
    for (int repeat = 0; repeat < 7; ++repeat) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < 4000; ++i) f();
      const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
      best = std::min(best, took.count() / 4000);
    }
    return best;
  };
  const double direct = time([&] { values[2] = at::add(values[0], values[1]); });
  const double boxed = time([&] { ASSERT_TRUE(callInPlace(*op, values).has_value()); });
  RecordProperty("direct_ns", static_cast<int>(direct));
  RecordProperty("boxed_ns", static_cast<int>(boxed));
  std::printf("direct %.0f ns, prepared %.0f ns\n", direct, boxed);
  EXPECT_LT(boxed, direct * 1.6 + 200);
}

}  // namespace
}  // namespace spscope::exec
