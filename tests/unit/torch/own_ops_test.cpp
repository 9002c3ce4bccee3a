// SPDX-License-Identifier: Apache-2.0
// The kernels of our own against the ATen ops that they stand for: values and gradients, in float64.
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/ir/mask_rule.h"
#include "core/torch/dtype_convert.h"
#include "core/torch/masked_attention.h"
#include "core/torch/memory.h"
#include "core/torch/own_ops.h"
#include "core/torch/tiled_loss.h"
#include "core/torch/workspace.h"

namespace spscope::exec {
namespace {

using at::Tensor;
using ir::MaskTerm;

double far(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>() / std::max(1e-30, b.abs().max().item<double>()); }

struct Sizes {
  std::int64_t batch, heads, kv_heads, queries, keys, head;
};

/// Both ways of the attention: the rule, and a mask of `seen` made whole.
void expectSame(const Sizes& s, const std::vector<Tensor>& rows, const std::vector<Tensor>& columns, const ir::MaskRule& rule, const Tensor& seen) {
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const Tensor q = at::randn({s.batch, s.heads, s.queries, s.head}, options), k = at::randn({s.batch, s.kv_heads, s.keys, s.head}, options);
  const Tensor v = at::randn({s.batch, s.kv_heads, s.keys, s.head}, options), grad = at::randn({s.batch, s.heads, s.queries, s.head}, options);
  const ir::Dims numbers = ir::encodeMask(rule);
  const auto [out, sums] = maskedAttention(q, k, v, rows, columns, numbers, 0.3);
  const auto [dq, dk, dv] = maskedAttentionBackward(grad, q, k, v, out, sums, rows, columns, numbers, 0.3);

  const at::AutoGradMode on(true);
  const Tensor rq = q.clone().requires_grad_(true), rk = k.clone().requires_grad_(true), rv = v.clone().requires_grad_(true);
  const std::int64_t group = s.heads / s.kv_heads;
  const Tensor scores = at::matmul(rq, at::repeat_interleave(rk, group, 1).transpose(2, 3)) * 0.3;
  const Tensor banned = seen.logical_not();
  // A query that sees nothing gives zeros.
  const Tensor weights = at::softmax(scores.masked_fill(banned, -std::numeric_limits<double>::infinity()), 3).masked_fill(banned, 0.0);
  const Tensor want = at::matmul(weights, at::repeat_interleave(rv, group, 1));
  const auto grads = torch::autograd::grad({want}, {rq, rk, rv}, {grad});
  EXPECT_LT(far(out, want.detach()), 1e-13);
  // softmax of a row without numbers has none either: compare where the reference is a number.
  EXPECT_LT(far(dq, grads[0].nan_to_num(0.0)), 1e-12);
  if (grads[1].isnan().any().item<bool>()) return;
  EXPECT_LT(far(dk, grads[1]), 1e-12);
  EXPECT_LT(far(dv, grads[2]), 1e-12);
}

Tensor index(std::int64_t n, bool row) { return row ? at::arange(n).view({1, 1, n, 1}) : at::arange(n).view({1, 1, 1, n}); }

TEST(MaskedAttention, CausalOverBlocksOfQueriesIsTheMatrix) {
  const Sizes s{2, 4, 4, 600, 600, 8};
  expectSame(s, {}, {}, {{0, MaskTerm::kGreaterEqual, MaskTerm::kIndex, MaskTerm::kIndex, 0}}, index(600, true).ge(index(600, false)));
}

TEST(MaskedAttention, WindowsSkipWhatNobodySees) {
  const Sizes s{1, 2, 2, 1100, 1100, 8};
  const Tensor i = index(1100, true), j = index(1100, false);
  expectSame(s, {}, {}, {{0, MaskTerm::kGreaterEqual, MaskTerm::kIndex, MaskTerm::kIndex, 0}, {1, MaskTerm::kLess, MaskTerm::kIndex, MaskTerm::kIndex, 100}},
             i.ge(j).logical_and(i.lt(j + 100)));
}

TEST(MaskedAttention, DocumentsAndPaddingPerSequenceAndFewerKeyHeads) {
  const Sizes s{2, 6, 3, 530, 530, 16};
  // Documents of 100 and 200 tokens in turn, others in the second sequence; the last 40 keys of the second are padding.
  const Tensor doc = at::stack({at::arange(530).floor_divide(100), at::arange(530).floor_divide(200)});
  const Tensor real = at::stack({at::ones({530}, at::kBool), at::arange(530).lt(490)});
  const Tensor dr = doc.view({2, 1, 530, 1}), dc = doc.view({2, 1, 1, 530}), pad = real.view({2, 1, 1, 530});
  expectSame(s, {dr}, {dc, pad},
             {{0, MaskTerm::kGreaterEqual, MaskTerm::kIndex, MaskTerm::kIndex, 0}, {1, MaskTerm::kEqual, 0, 0, 0}, {2, MaskTerm::kNotEqual, MaskTerm::kZero, 1, 0}},
             index(530, true).ge(index(530, false)).logical_and(dr.eq(dc)).logical_and(pad));
}

TEST(MaskedAttention, QueriesThatSeeNothingGiveZerosAndGetNone) {
  const Sizes s{1, 2, 2, 300, 300, 8};
  const Tensor left = at::arange(300).ge(270).view({1, 1, 1, 300});  // left padding: the first 270 queries see nobody
  const ir::MaskRule rule{{0, MaskTerm::kGreaterEqual, MaskTerm::kIndex, MaskTerm::kIndex, 0}, {1, MaskTerm::kNotEqual, MaskTerm::kZero, 0, 0}};
  expectSame(s, {}, {left}, rule, index(300, true).ge(index(300, false)).logical_and(left));
  const Tensor q = at::randn({1, 2, 300, 8}, at::kDouble);
  const auto [out, sums] = maskedAttention(q, q, q, {}, {left}, ir::encodeMask(rule), std::nullopt);
  EXPECT_EQ(out.narrow(2, 0, 270).abs().max().item<double>(), 0);
  const auto [dq, dk, dv] = maskedAttentionBackward(at::ones_like(out), q, q, q, out, sums, {}, {left}, ir::encodeMask(rule), std::nullopt);
  EXPECT_FALSE(dq.isnan().any().item<bool>() || dk.isnan().any().item<bool>() || dv.isnan().any().item<bool>());
  EXPECT_EQ(dk.narrow(2, 0, 270).abs().max().item<double>(), 0);
}

TEST(MaskedAttention, OneOfSeveralTermsAndAnEmptyShard) {
  const Sizes s{1, 2, 2, 40, 70, 8};
  const Tensor prefix = at::arange(70).lt(5).view({1, 1, 1, 70});
  const ir::MaskRule rule{{0, MaskTerm::kGreaterEqual, MaskTerm::kIndex, MaskTerm::kIndex, 0}, {0, MaskTerm::kNotEqual, MaskTerm::kZero, 0, 0}};
  expectSame(s, {}, {prefix}, rule, index(40, true).ge(index(70, false)).logical_or(prefix));
  const Tensor none = at::empty({1, 0, 40, 8}, at::kDouble), keys = at::empty({1, 0, 70, 8}, at::kDouble);
  const auto [out, sums] = maskedAttention(none, keys, keys, {}, {prefix}, ir::encodeMask(rule), std::nullopt);
  EXPECT_EQ(out.sizes(), at::IntArrayRef({1, 0, 40, 8}));
}

TEST(MaskedAttention, NeverHoldsMoreOfTheMaskThanABlock) {
  installCountingAllocator();
  constexpr std::int64_t n = 8192;
  const Tensor q = at::randn({1, 1, n, 8});
  const Tensor doc = at::arange(n).floor_divide(3000), dr = doc.view({1, 1, n, 1}), dc = doc.view({1, 1, 1, n});
  const ir::Dims rule = ir::encodeMask({{0, MaskTerm::kGreaterEqual, MaskTerm::kIndex, MaskTerm::kIndex, 0}, {1, MaskTerm::kEqual, 0, 0, 0}});
  MemoryMeter meter;
  std::int64_t peak = 0;
  {
    const MeterScope counting(meter);
    meter.reset();
    const auto [out, sums] = maskedAttention(q, q, q, {dr}, {dc}, rule, std::nullopt);
    const auto grads = maskedAttentionBackward(out, q, q, q, out, sums, {dr}, {dc}, rule, std::nullopt);
    peak = meter.peak();
  }
  // Results and gradients take 1.3 MiB, the matrix would take 256 (float32) or 64 (bool).
  EXPECT_LT(peak, std::int64_t{6} << 20);
}

TEST(MaskedAttention, ScratchIsPredicted) {
  installCountingAllocator();
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  struct Shape {
    std::int64_t batch, heads, kv_heads, tokens, head;
    bool per_sequence;
    at::ScalarType type;
  };
  for (const Shape& s : {Shape{2, 2, 1, 512, 8, false, at::kFloat}, Shape{2, 4, 2, 512, 16, true, at::kFloat}, Shape{1, 2, 2, 2048, 64, false, at::kDouble},
                         Shape{2, 2, 2, 128, 8, true, at::kFloat}, Shape{1, 4, 2, 1024, 32, false, at::kBFloat16}}) {
    ir::Graph graph;
    const auto value = [&](const ir::Dims& shape, ir::DType type) {
      const ir::ValueId v = graph.addValue("v" + std::to_string(graph.valueCount()), type, shape);
      return ir::Use{v};
    };
    const ir::DType type = toDType(s.type);
    const std::int64_t several = s.per_sequence ? s.batch : 1;
    const ir::Use q = value({s.batch, s.heads, s.tokens, s.head}, type), k = value({s.batch, s.kv_heads, s.tokens, s.head}, type);
    const ir::UseList rows{value({several, 1, s.tokens, 1}, ir::DType::kI64)}, columns{value({several, 1, 1, s.tokens}, ir::DType::kI64)};
    const Tensor tq = at::randn({s.batch, s.tokens, s.heads, s.head}).to(s.type).transpose(1, 2), tk = at::randn({s.batch, s.tokens, s.kv_heads, s.head}).to(s.type).transpose(1, 2);
    const Tensor p = at::arange(s.tokens).expand({several, -1}).contiguous(), r = p.view({several, 1, s.tokens, 1}), c = p.view({several, 1, 1, s.tokens});
    const ir::Dims rule = ir::encodeMask({{0, MaskTerm::kGreaterEqual, 0, 0, 0}});
    const auto [out, sums] = maskedAttention(tq, tk, tk, {r}, {c}, rule, 0.3);  // also: what kernels allocate once
    for (const bool backward : {false, true}) {
      const ir::NodeId id = graph.addNode(backward ? "spscope._scaled_dot_product_attention_for_cpu_backward.default" : "spscope._scaled_dot_product_attention_for_cpu.default", "n");
      graph.addOutput(id, type, {s.batch, s.heads, s.tokens, s.head});
      ir::Node& n = graph.node(id);
      n.set("query", q), n.set("key", k), n.set("value", k), n.set("query_rows", rows), n.set("key_columns", columns), n.set("mask_rule", rule);
      MemoryMeter meter;
      const MeterScope counting(meter);
      meter.reset();
      std::int64_t results = 0;
      if (backward) {
        const auto [dq, dk, dv] = maskedAttentionBackward(out, tq, tk, tk, out, sums, {r}, {c}, rule, 0.3);
        results = static_cast<std::int64_t>(dq.nbytes() + dk.nbytes() + dv.nbytes());
      } else {
        const auto [a, b] = maskedAttention(tq, tk, tk, {r}, {c}, rule, 0.3);
        results = static_cast<std::int64_t>(a.nbytes() + b.nbytes());
      }
      const double measured = static_cast<double>(meter.peak() - results), predicted = static_cast<double>(workspaceBytes(graph, graph.node(id), "cpu", 1));
      EXPECT_NEAR(predicted / measured, 1.0, 0.15) << s.tokens << " tokens, " << at::toString(s.type) << (backward ? ", backward" : "") << ": " << predicted << " of " << measured;
    }
  }
  at::set_num_threads(threads);
}

TEST(MaskedAttention, DamagedRulesAreRefused) {
  const Tensor q = at::randn({1, 1, 4, 8});
  for (const ir::Dims& numbers : {ir::Dims{0, 5, 0, -2, 0}, ir::Dims{1, 5, -2, -2, 0}, ir::Dims{0, 9, -2, -2, 0}, ir::Dims{0, 5, -2}, ir::Dims{0, 5, -3, -2, 0}})
    EXPECT_ANY_THROW(maskedAttention(q, q, q, {}, {}, numbers, std::nullopt));
}

struct LossCase {
  std::int64_t rows, ignore;
  double smoothing;
  bool bias;
  const char* steps;
};

class TiledLossTest : public testing::TestWithParam<LossCase> {};

TEST_P(TiledLossTest, IsTheCrossEntropyOfWholeLogits) {
  const LossCase& c = GetParam();
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const Tensor h = at::randn({11, 6}, options), w = at::randn({17, 6}, options), b = at::randn({17}, options), g = at::randn({11}, options);
  Tensor y = at::randint(0, 17, {11}, at::kLong);
  y[3] = c.ignore, y[9] = c.ignore;
  const std::optional<Tensor> bias = c.bias ? std::optional(b) : std::nullopt;
  const TiledLoss loss{h, w, bias, y, c.ignore, c.smoothing, c.rows, c.steps};
  const Tensor out = tiledCrossEntropy(loss);
  const auto [dh, dw, db] = tiledCrossEntropyBackward(g, loss, true);

  const at::AutoGradMode on(true);
  const Tensor rh = h.clone().requires_grad_(true), rw = w.clone().requires_grad_(true), rb = b.clone().requires_grad_(true);
  Tensor x = at::linear(rh, rw, c.bias ? std::optional(rb) : std::nullopt);
  if (std::string(c.steps).find("tanh") != std::string::npos) x = at::tanh(x / 3.0) * 3.0;
  const Tensor want = at::cross_entropy_loss(x, y, {}, at::Reduction::None, c.ignore, c.smoothing);
  std::vector<Tensor> by{rh, rw};
  if (c.bias) by.push_back(rb);
  const auto grads = torch::autograd::grad({want}, by, {g});
  EXPECT_EQ(out.sizes(), at::IntArrayRef({11}));
  EXPECT_LT(far(out, want.detach()), 1e-14);
  EXPECT_LT(far(dh, grads[0]), 1e-13);
  EXPECT_LT(far(dw, grads[1]), 1e-13);
  EXPECT_EQ(db.defined(), c.bias);
  if (c.bias) { EXPECT_LT(far(db, grads[2]), 1e-13); }
  EXPECT_FALSE(std::get<1>(tiledCrossEntropyBackward(g, loss, false)).defined());
}
INSTANTIATE_TEST_SUITE_P(All, TiledLossTest,
                         testing::Values(LossCase{3, -100, 0, false, ""}, LossCase{4, -100, 0.1, true, ""}, LossCase{1, 0, 0.2, false, "div 3.0, tanh, mul 3.0"},
                                         LossCase{64, -1, 0, true, "div 3, tanh, mul 3"}));

TEST(TiledLossTest, EveryLabelIgnoredGivesZerosNotNan) {
  const Tensor h = at::randn({5, 6}), w = at::randn({17, 6}), y = at::full({5}, -100, at::kLong), g = at::ones({5});
  const std::optional<Tensor> none;
  const TiledLoss loss{h, w, none, y, -100, 0.1, 2, ""};
  EXPECT_EQ(tiledCrossEntropy(loss).abs().max().item<float>(), 0);
  const auto [dh, dw, db] = tiledCrossEntropyBackward(g, loss, true);
  EXPECT_EQ(dh.abs().max().item<float>(), 0);
  EXPECT_EQ(dw.abs().max().item<float>(), 0);
}

TEST(TiledLossTest, ShortTypesAddUpInFloat32) {
  // 512 rows of equal sign: in bfloat16 a sum of so many stops growing.
  const Tensor h = at::ones({512, 4}, at::kBFloat16), w = at::zeros({3, 4}, at::kBFloat16), y = at::zeros({512}, at::kLong), g = at::ones({512});
  const std::optional<Tensor> none;
  const auto [dh, dw, db] = tiledCrossEntropyBackward(g, {h, w, none, y, -100, 0, 1, "to f32"}, true);
  EXPECT_EQ(dw.scalar_type(), at::kBFloat16);
  EXPECT_NEAR(dw[1][0].item<float>(), 512.0F / 3.0F, 1.0F);
}

}  // namespace
}  // namespace spscope::exec
