// SPDX-License-Identifier: Apache-2.0
// Our shape functions against the kernels: sizes, strides and types of every output must be the same.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "core/torch/meta_kernels.h"
#include "core/torch/op_call.h"

namespace spscope::exec {
namespace {

using at::Tensor;
using Args = std::vector<std::pair<const char*, ir::Attribute>>;

struct Case {
  const char* op;
  std::vector<Tensor> operands;
  Args args;
};

ir::Use in(int i) { return ir::Use{i}; }
Tensor f(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) { return at::rand(sizes, at::kDouble).to(type) + 0.1; }
Tensor indices(at::IntArrayRef sizes, std::int64_t below) { return at::randint(below, sizes, at::kLong); }
/// [B, H, S, D] whose memory is [B, S, H, D], as projections give it.
Tensor heads(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t d, at::ScalarType type = at::kFloat) {
  return f({b, s, h, d}, type).transpose(1, 2);
}
const std::vector<bool> kAll3{true, true, true};

void expectAlike(const Case& c) {
  ir::Node node;
  node.op = Symbol(c.op);
  node.name = "n";
  for (const auto& [name, value] : c.args) node.set(name, value);
  auto real = prepare(node);
  auto meta = prepare(node, c10::Device(c10::kMeta));
  ASSERT_TRUE(real.has_value()) << real.error().format();
  ASSERT_TRUE(meta.has_value()) << meta.error().format();
  std::vector<Tensor> cpu_operands, meta_operands;
  for (const ir::ValueId v : real->operands) {
    const Tensor& t = c.operands[static_cast<std::size_t>(v)];
    cpu_operands.push_back(t);
    meta_operands.push_back(at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kMeta)));
  }
  std::vector<Tensor> expected, got;
  const Status ran = call(*real, cpu_operands, expected);
  ASSERT_TRUE(ran.has_value()) << ran.error().format();
  const Status shaped = call(*meta, meta_operands, got);
  ASSERT_TRUE(shaped.has_value()) << shaped.error().format();
  ASSERT_EQ(expected.size(), got.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(std::string(c.op) + " output " + std::to_string(i));
    EXPECT_EQ(expected[i].defined(), got[i].defined());
    if (!expected[i].defined() || !got[i].defined()) continue;
    EXPECT_EQ(expected[i].sizes(), got[i].sizes());
    EXPECT_EQ(expected[i].scalar_type(), got[i].scalar_type());
    if (expected[i].numel() > 1) {
      EXPECT_EQ(expected[i].strides(), got[i].strides());
    }
  }
}

class MetaKernels : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { registerMetaKernels(); }
};

TEST_F(MetaKernels, Indexing) {
  const Tensor condition = f({3, 4}) > 0.5;
  for (const Case& c : std::vector<Case>{
           {"aten.where.self", {condition, f({3, 4}), f({4})}, {{"condition", in(0)}, {"self", in(1)}, {"other", in(2)}}},
           {"aten.where.self", {condition.t(), f({3, 4}).t(), f({}, at::kDouble)},
            {{"condition", in(0)}, {"self", in(1)}, {"other", in(2)}}},
           {"aten.where.self", {condition, f({2, 3, 4}, at::kBFloat16), f({3, 4})},
            {{"condition", in(0)}, {"self", in(1)}, {"other", in(2)}}},
           {"aten.index_select.default", {f({4, 5}), indices({7}, 4)}, {{"self", in(0)}, {"dim", std::int64_t{0}}, {"index", in(1)}}},
           {"aten.index_select.default", {f({4, 5}).t(), indices({2}, 4)}, {{"self", in(0)}, {"dim", std::int64_t{-1}}, {"index", in(1)}}},
           {"aten.embedding.default", {f({9, 4}), indices({2, 3}, 9)}, {{"weight", in(0)}, {"indices", in(1)}, {"padding_idx", std::int64_t{2}}}},
           {"aten.embedding_dense_backward.default", {f({2, 3, 4}), indices({2, 3}, 9)},
            {{"grad_output", in(0)}, {"indices", in(1)}, {"num_weights", std::int64_t{9}}, {"padding_idx", std::int64_t{2}}, {"scale_grad_by_freq", false}}},
           {"aten.index_put.default", {f({4, 5}), indices({6}, 4), f({6, 5})},
            {{"self", in(0)}, {"indices", ir::UseList{in(1)}}, {"values", in(2)}, {"accumulate", true}}},
           {"aten.flip.default", {f({3, 4, 5}).transpose(0, 1)}, {{"self", in(0)}, {"dims", ir::Dims{1}}}},
           {"aten.roll.default", {f({3, 4}).t()}, {{"self", in(0)}, {"shifts", ir::Dims{1}}, {"dims", ir::Dims{0}}}},
           {"aten.take.default", {f({3, 4}), indices({2, 2}, 12)}, {{"self", in(0)}, {"index", in(1)}}},
           {"aten.tril_indices.default", {}, {{"row", std::int64_t{4}}, {"col", std::int64_t{3}}, {"offset", std::int64_t{-1}}}},
           {"aten.triu_indices.default", {}, {{"row", std::int64_t{4}}, {"col", std::int64_t{6}}, {"offset", std::int64_t{2}}}},
           {"aten.unfold_backward.default", {f({2, 4, 3})}, {{"grad_in", in(0)}, {"input_sizes", ir::Dims{2, 6}}, {"dim", std::int64_t{1}}, {"size", std::int64_t{3}}, {"step", std::int64_t{1}}}},
       })
    expectAlike(c);
}

TEST_F(MetaKernels, ElementWiseAndReductions) {
  const Tensor x = f({3, 4}), y = f({4, 3}).t();
  for (const Case& c : std::vector<Case>{
           {"aten.floor_divide.default", {x, y}, {{"self", in(0)}, {"other", in(1)}}},
           {"aten.floor_divide.default", {indices({3, 4}, 9)}, {{"self", in(0)}, {"other", std::int64_t{2}}}},
           {"aten.rsub.Tensor", {x, f({4}, at::kDouble)}, {{"self", in(0)}, {"other", in(1)}}},
           {"aten.isnan.default", {y}, {{"self", in(0)}}},
           {"aten.abs.default", {y}, {{"self", in(0)}}},
           {"aten.angle.default", {x}, {{"self", in(0)}}},
           {"aten.hardswish.default", {y}, {{"self", in(0)}}},
           {"aten.hardtanh.default", {y}, {{"self", in(0)}}},
           {"aten.logsumexp.default", {f({3, 4, 5})}, {{"self", in(0)}, {"dim", ir::Dims{1}}}},
           {"aten.logical_and.default", {x, y}, {{"self", in(0)}, {"other", in(1)}}},
           {"aten.logical_not.default", {y}, {{"self", in(0)}}},
           {"aten.nan_to_num.default", {y}, {{"self", in(0)}}},
           {"aten.mse_loss_backward.default", {x, x, x}, {{"grad_output", in(0)}, {"self", in(1)}, {"target", in(2)}, {"reduction", std::int64_t{0}}}},
           {"aten.polar.default", {x, x}, {{"abs", in(0)}, {"angle", in(1)}}},
           {"aten.dot.default", {f({5}), f({5})}, {{"self", in(0)}, {"tensor", in(1)}}},
           {"aten.max.default", {x}, {{"self", in(0)}}},
           {"aten.prod.default", {indices({3}, 4)}, {{"self", in(0)}}},
           {"aten.trace.default", {f({3, 3})}, {{"self", in(0)}}},
           {"aten.log_sigmoid_forward.default", {f({3, 4, 5}).transpose(0, 1)}, {{"self", in(0)}}},
           {"aten.log_sigmoid_backward.default", {f({3, 4, 5}).transpose(0, 1), f({3, 4, 5}).transpose(0, 1), f({4, 3, 5})},
            {{"grad_output", in(0)}, {"self", in(1)}, {"buffer", in(2)}}},
           {"aten.nll_loss2d_forward.default", {f({2, 7, 3, 4}), indices({2, 3, 4}, 7)},
            {{"self", in(0)}, {"target", in(1)}, {"weight", std::monostate()}, {"reduction", std::int64_t{0}}, {"ignore_index", std::int64_t{-100}}}},
           {"aten.nll_loss2d_forward.default", {f({2, 7, 1, 4}), indices({2, 1, 4}, 7)},
            {{"self", in(0)}, {"target", in(1)}, {"weight", std::monostate()}, {"reduction", std::int64_t{1}}, {"ignore_index", std::int64_t{-100}}}},
           {"aten.nll_loss2d_backward.default", {f({2, 3, 4}), f({2, 7, 3, 4}), indices({2, 3, 4}, 7), f({})},
            {{"grad_output", in(0)}, {"self", in(1)}, {"target", in(2)}, {"weight", std::monostate()}, {"reduction", std::int64_t{0}},
             {"ignore_index", std::int64_t{-100}}, {"total_weight", in(3)}}},
           {"aten.histc.default", {x}, {{"self", in(0)}, {"bins", std::int64_t{8}}, {"min", std::int64_t{0}}, {"max", std::int64_t{7}}}},
           {"aten.var.correction", {f({3, 4, 5})}, {{"self", in(0)}, {"dim", ir::Dims{-1}}, {"keepdim", true}}},
           {"aten.var_mean.correction", {f({3, 4, 5}).transpose(0, 1)}, {{"self", in(0)}, {"dim", ir::Dims{1, 2}}, {"correction", std::int64_t{0}}}},
           {"aten.std.correction", {f({3, 4})}, {{"self", in(0)}}},
       })
    expectAlike(c);
}

TEST_F(MetaKernels, NormalisationAndDropout) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const Tensor x = f({2, 3, 8}, type), w = f({8}, type), stat = f({2, 3, 1}, type);
    for (const Case& c : std::vector<Case>{
             {"aten.native_layer_norm.default", {x, w, w}, {{"input", in(0)}, {"normalized_shape", ir::Dims{8}}, {"weight", in(1)}, {"bias", in(2)}, {"eps", 1e-5}}},
             {"aten.native_layer_norm.default", {x.transpose(0, 1)}, {{"input", in(0)}, {"normalized_shape", ir::Dims{8}}, {"eps", 1e-5}}},
             {"aten.native_layer_norm_backward.default", {x, x, stat, stat, w, w},
              {{"grad_out", in(0)}, {"input", in(1)}, {"normalized_shape", ir::Dims{8}}, {"mean", in(2)}, {"rstd", in(3)}, {"weight", in(4)}, {"bias", in(5)}, {"output_mask", kAll3}}},
             {"aten.native_layer_norm_backward.default", {x, x, stat, stat},
              {{"grad_out", in(0)}, {"input", in(1)}, {"normalized_shape", ir::Dims{8}}, {"mean", in(2)}, {"rstd", in(3)}, {"output_mask", std::vector<bool>{true, false, false}}}},
             {"aten.native_dropout.default", {x.transpose(0, 1)}, {{"input", in(0)}, {"p", 0.5}, {"train", true}}},
             {"aten.native_dropout_backward.default", {x, x > 0.5}, {{"grad_output", in(0)}, {"mask", in(1)}, {"scale", 2.0}}},
         })
      expectAlike(c);
  }
  // bf16 activations with f32 parameters: the statistics follow the parameters.
  expectAlike({"aten.native_layer_norm.default", {f({2, 8}, at::kBFloat16), f({8}), f({8})},
               {{"input", in(0)}, {"normalized_shape", ir::Dims{8}}, {"weight", in(1)}, {"bias", in(2)}, {"eps", 1e-5}}});
  expectAlike({"aten.native_group_norm_backward.default", {f({2, 6, 5}), f({2, 6, 5}), f({2, 3}), f({2, 3}), f({6})},
               {{"grad_out", in(0)}, {"input", in(1)}, {"mean", in(2)}, {"rstd", in(3)}, {"weight", in(4)}, {"N", std::int64_t{2}}, {"C", std::int64_t{6}}, {"HxW", std::int64_t{5}}, {"group", std::int64_t{3}}, {"output_mask", kAll3}}});
}

TEST_F(MetaKernels, Convolution) {
  const Args shape{{"stride", ir::Dims{2, 2}}, {"padding", ir::Dims{1, 1}}, {"dilation", ir::Dims{1, 1}}, {"transposed", false}, {"output_padding", ir::Dims{0, 0}}, {"groups", std::int64_t{1}}};
  Args forward{{"input", in(0)}, {"weight", in(1)}, {"bias", in(2)}};
  forward.insert(forward.end(), shape.begin(), shape.end());
  const Tensor x = f({2, 3, 9, 8}), w = f({5, 3, 3, 3});
  expectAlike({"aten.convolution.default", {x, w, f({5})}, forward});
  Args backward{{"grad_output", in(0)}, {"input", in(1)}, {"weight", in(2)}, {"bias_sizes", ir::Dims{5}}};
  backward.insert(backward.end(), shape.begin(), shape.end());
  backward.push_back({"output_mask", kAll3});
  expectAlike({"aten.convolution_backward.default", {f({2, 5, 5, 4}), x, w}, backward});
}

TEST_F(MetaKernels, FlashAttentionForCpu) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16})
    for (const bool contiguous : {false, true})
      for (const bool masked : {false, true}) {
        const auto make = [&](std::int64_t h, std::int64_t s) {
          return contiguous ? f({2, h, s, 8}, type) : heads(2, h, s, 8, type);
        };
        const Tensor q = make(4, 6), k = make(4, 10), v = make(4, 10);
        Args args{{"query", in(0)}, {"key", in(1)}, {"value", in(2)}};
        if (masked) args.push_back({"attn_mask", in(3)});
        expectAlike({"aten._scaled_dot_product_flash_attention_for_cpu.default", {q, k, v, f({6, 10}, type)}, args});
        const auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v);
        Args back{{"grad_out", in(0)}, {"query", in(1)}, {"key", in(2)}, {"value", in(3)}, {"out", in(4)}, {"logsumexp", in(5)}, {"dropout_p", 0.0}, {"is_causal", false}};
        if (masked) back.push_back({"attn_mask", in(6)});
        expectAlike({"aten._scaled_dot_product_flash_attention_for_cpu_backward.default", {out, q, k, v, out, sums, f({6, 10}, type)}, back});
      }
}

}  // namespace
}  // namespace spscope::exec
