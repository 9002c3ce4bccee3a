// SPDX-License-Identifier: Apache-2.0
// Predicted scratch memory against what the kernels allocate, counted by an allocator in front of libtorch's.
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include "core/torch/capture.h"
#include "core/torch/dtype_convert.h"
#include "core/ir/layout.h"
#include "core/torch/memory.h"
#include "core/torch/op_call.h"
#include "core/torch/own_ops.h"
#include "core/torch/workspace.h"

namespace spscope::exec {
namespace {

using at::Tensor;
using Args = std::vector<std::pair<const char*, ir::Attribute>>;

/// A graph with views in front of the op, so that operands lie in memory as the test wants them.
class WorkspaceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    registerOwnOps();
    installCountingAllocator();
  }
  void SetUp() override { threads_ = at::get_num_threads(); }
  void TearDown() override { at::set_num_threads(threads_); }

  ir::ValueId input(ir::Dims shape, at::ScalarType type = at::kFloat, std::int64_t below = 0) {
    const ir::ValueId v = graph_.addValue("x", toDType(type), shape);
    graph_.inputs.push_back({v, ir::InputKind::kUser, "x", {}, std::nullopt, false});
    values_.push_back(below > 0 ? at::randint(below, shape, type) : at::rand(shape, at::kDouble).to(type));
    return v;
  }
  /// Runs a node and adds its outputs; `scratch` gets what it needed beyond them.
  std::vector<ir::ValueId> run(const char* op, Args args, std::int64_t* scratch = nullptr, ir::NodeId* id = nullptr) {
    const ir::NodeId n = graph_.addNode(op, "n");
    for (auto& [name, value] : args) graph_.node(n).set(name, std::move(value));
    auto prepared = prepare(graph_.node(n));
    EXPECT_TRUE(prepared.has_value()) << prepared.error().format();
    std::vector<Tensor> operands, outputs;
    for (const ir::ValueId v : prepared->operands) operands.push_back(values_[static_cast<std::size_t>(v)]);
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      MemoryMeter meter;
      const MeterScope scope(meter);
      countOtherThreads(&meter);
      meter.reset();
      const Status status = call(*prepared, operands, outputs);
      EXPECT_TRUE(status.has_value()) << status.error().format();
      if (scratch) *scratch = meter.peak() - meter.live();
      countOtherThreads(nullptr);
    }
    std::vector<ir::ValueId> made;
    for (const Tensor& t : outputs) {
      if (!t.defined()) {
        graph_.node(n).outputs.push_back(ir::kNone);
        made.push_back(ir::kNone);
        continue;
      }
      made.push_back(graph_.addOutput(n, toDType(t.scalar_type()), t.sizes().vec()));
      values_.push_back(t);
      EXPECT_EQ(ir::layoutOf(graph_, made.back()).strides, t.strides().vec()) << op;
    }
    if (id) *id = n;
    return made;
  }
  /// The prediction must be within `slack` bytes of the measurement. With several threads it is what all of them hold at
  /// once; on a busy machine one may be through before the other begins, so less may be measured, down to one's share.
  std::vector<ir::ValueId> check(const char* op, Args args, int threads = 1, std::int64_t slack = 16) {
    at::set_num_threads(threads);
    std::int64_t measured = 0;
    ir::NodeId id = ir::kNone;
    auto made = run(op, std::move(args), &measured, &id);
    const std::int64_t predicted = workspaceBytes(graph_, graph_.node(id), "cpu", threads);
    EXPECT_LE(measured, predicted + slack) << op;
    EXPECT_GE(measured, workspaceBytes(graph_, graph_.node(id), "cpu", 1) - slack) << op;
    return made;
  }
  ir::ValueId transposed(ir::ValueId v, std::int64_t a, std::int64_t b) {
    return run("aten.transpose.int", {{"self", ir::Use{v}}, {"dim0", a}, {"dim1", b}})[0];
  }

  ir::Graph graph_;
  std::vector<Tensor> values_;
  int threads_ = 1;
};

ir::Use use(ir::ValueId v) { return ir::Use{v}; }

TEST_F(WorkspaceTest, FlashAttention) {
  for (const int threads : {1, 2})
    for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16})
      for (const std::int64_t s : {40, 300, 1024})
        for (const std::int64_t d : {16, 64}) {
          SCOPED_TRACE("threads " + std::to_string(threads) + " " + c10::toString(type) + " S " + std::to_string(s) + " D " + std::to_string(d));
          const auto q = transposed(input({1, s, 4, d}, type), 1, 2), k = transposed(input({1, s, 4, d}, type), 1, 2);
          const auto mask = input({s, s}, type);
          const std::int64_t row_sums = threads * 256 * 8;  // may or may not be alive in both threads at once
          for (const bool masked : {false, true}) {
            Args args{{"query", use(q)}, {"key", use(k)}, {"value", use(k)}, {"is_causal", !masked}};
            if (masked) args.push_back({"attn_mask", use(mask)});
            const auto out = check("aten._scaled_dot_product_flash_attention_for_cpu.default", args, threads);
            // A gradient that lies as the output does, and one that has to be copied.
            const auto copied = input({1, 4, s, d}, type);
            for (const ir::ValueId grad : {out[0], copied}) {
              Args back{{"grad_out", use(grad)}, {"query", use(q)}, {"key", use(k)}, {"value", use(k)}, {"out", use(out[0])},
                        {"logsumexp", use(out[1])}, {"dropout_p", 0.0}, {"is_causal", !masked}};
              if (masked) back.push_back({"attn_mask", use(mask)});
              check("aten._scaled_dot_product_flash_attention_for_cpu_backward.default", back, threads,
                    type == at::kBFloat16 ? 160'000 * threads : row_sums);
            }
          }
        }
}

TEST_F(WorkspaceTest, TiledLossesHoldABlockAsOftenAsItsStepsNeed) {
  constexpr std::int64_t kRows = 96, kTokens = 200, kWidth = 48, kWords = 640;
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16})
    for (const char* steps : {"", "to f32", "div 30, tanh, mul 30", "to f32, div 30, tanh, mul 30", "tanh"}) {
      SCOPED_TRACE(std::string(c10::toString(type)) + " '" + steps + "'");
      const auto self = input({kTokens, kWidth}, type), weight = input({kWords, kWidth}, type), labels = input({kTokens}, at::kLong, kWords);
      const Args common{{"self", use(self)}, {"weight", use(weight)}, {"bias", std::monostate{}}, {"target", use(labels)}, {"ignore_index", std::int64_t{-100}},
                        {"label_smoothing", 0.0}, {"rows", kRows}, {"steps", std::string(steps)}};
      // Small tensors of a row's numbers come and go: at most four of eight bytes.
      const auto out = check("spscope.tiled_cross_entropy.default", common, 1, kRows * 32);
      Args back{{"grad_output", use(out[0])}};
      back.insert(back.end(), common.begin(), common.end());
      back.push_back({"weight_wanted", true});
      // oneDNN's products of bfloat16 pack their operands.
      check("spscope.tiled_cross_entropy_backward.default", back, 1, type == at::kBFloat16 ? 200'000 : kRows * 32);
    }
}

TEST_F(WorkspaceTest, Products) {
  for (const std::int64_t m : {32, 300})
    for (const std::int64_t k : {64, 700}) {
      const auto a = input({m, k}), b = input({k, 96}), at = transposed(input({k, m}), 0, 1);
      check("aten.mm.default", {{"self", use(a)}, {"mat2", use(b)}});
      check("aten.mm.default", {{"self", use(at)}, {"mat2", use(b)}});
      const auto row = input({1, k});
      const auto expanded = run("aten.expand.default", {{"self", use(row)}, {"size", ir::Dims{m, k}}})[0];
      check("aten.mm.default", {{"self", use(expanded)}, {"mat2", use(b)}});
      const auto ha = input({m, k}, at::kBFloat16), hb = input({k, 96}, at::kBFloat16);
      const auto hat = transposed(input({k, m}, at::kBFloat16), 0, 1);
      check("aten.mm.default", {{"self", use(ha)}, {"mat2", use(hb)}}, 1, 32'000);
      check("aten.mm.default", {{"self", use(hat)}, {"mat2", use(hb)}}, 1, 150'000);
    }
  const auto q = input({8, 32, 16}), kt = transposed(input({8, 24, 16}), 1, 2);
  check("aten.bmm.default", {{"self", use(q)}, {"mat2", use(kt)}});
}

TEST_F(WorkspaceTest, NormalisationAndSoftmax) {
  for (const int threads : {1, 2}) {
    const auto x = input({4, 48, 64}), w = input({64}), stat = input({4, 48, 1});
    const auto xt = transposed(input({48, 4, 64}), 0, 1);
    for (const ir::ValueId v : {x, xt}) {
      check("aten.native_layer_norm.default", {{"input", use(v)}, {"normalized_shape", ir::Dims{64}}, {"weight", use(w)}, {"bias", use(w)}, {"eps", 1e-5}}, threads);
      check("aten.native_layer_norm_backward.default",
            {{"grad_out", use(v)}, {"input", use(v)}, {"normalized_shape", ir::Dims{64}}, {"mean", use(stat)}, {"rstd", use(stat)}, {"weight", use(w)}, {"bias", use(w)}, {"output_mask", std::vector<bool>{true, true, true}}}, threads);
      for (const char* op : {"aten._softmax.default", "aten._log_softmax.default"})
        check(op, {{"self", use(v)}, {"dim", std::int64_t{-1}}, {"half_to_float", false}}, threads);
      for (const char* op : {"aten._softmax_backward_data.default", "aten._log_softmax_backward_data.default"})
        check(op, {{"grad_output", use(v)}, {"output", use(v)}, {"dim", std::int64_t{-1}}, {"input_dtype", ir::DType::kF32}}, threads);
      check("aten._safe_softmax.default", {{"self", use(v)}, {"dim", std::int64_t{-1}}}, threads);
    }
    check("aten.logsumexp.default", {{"self", use(x)}, {"dim", ir::Dims{1}}}, threads);
    check("aten.native_dropout.default", {{"input", use(x)}, {"p", 0.5}, {"train", true}}, threads);
  }
}

TEST_F(WorkspaceTest, ConversionsBeforeElementWiseOpsAndSums) {
  const auto f = input({32, 64}), h = input({32, 64}, at::kBFloat16), row = input({1, 64}, at::kBFloat16);
  const auto i = input({32, 64}, at::kLong, 9), b = input({32, 64}, at::kBool, 2);
  for (const char* op : {"aten.add.Tensor", "aten.mul.Tensor", "aten.sub.Tensor", "aten.div.Tensor"})
    for (const ir::ValueId other : {f, h, row, i}) check(op, {{"self", use(f)}, {"other", use(other)}});
  check("aten.eq.Tensor", {{"self", use(i)}, {"other", use(f)}});
  check("aten.gt.Tensor", {{"self", use(f)}, {"other", use(f)}});
  check("aten.where.self", {{"condition", use(b)}, {"self", use(f)}, {"other", use(h)}});
  check("aten.cos.default", {{"self", use(i)}});
  check("aten.sum.default", {{"self", use(b)}});
  check("aten.sum.dim_IntList", {{"self", use(h)}, {"dim", ir::Dims{1}}, {"dtype", ir::DType::kF32}});
  check("aten.sum.default", {{"self", use(f)}});
  check("aten.mean.dim", {{"self", use(h)}, {"dim", ir::Dims{1}}});
  check("aten.cumsum.default", {{"self", use(b)}, {"dim", std::int64_t{1}}});
}

TEST_F(WorkspaceTest, NothingForTheRest) {
  const auto x = input({32, 64}), xt = transposed(input({64, 32}), 0, 1), ids = input({32}, at::kLong, 32);
  const auto row = input({1, 8}, at::kLong, 32);
  const auto expanded = run("aten.expand.default", {{"self", use(row)}, {"size", ir::Dims{4, 8}}})[0];
  for (const ir::ValueId v : {x, xt}) {
    check("aten.silu.default", {{"self", use(v)}});
    check("aten.silu_backward.default", {{"grad_output", use(v)}, {"self", use(v)}});
    check("aten.gelu.default", {{"self", use(v)}});
    check("aten.cat.default", {{"tensors", ir::UseList{use(v), use(v)}}, {"dim", std::int64_t{1}}});
    check("aten.clone.default", {{"self", use(v)}, {"memory_format", ir::MemoryFormat::kContiguous}});
    check("aten.pow.Tensor_Scalar", {{"self", use(v)}, {"exponent", std::int64_t{2}}});
    check("aten.sum.dim_IntList", {{"self", use(v)}, {"dim", ir::Dims{0}}});
  }
  check("aten.embedding.default", {{"weight", use(x)}, {"indices", use(ids)}});
  check("aten.embedding.default", {{"weight", use(x)}, {"indices", use(expanded)}});
  check("aten.embedding_dense_backward.default",
        {{"grad_output", use(x)}, {"indices", use(ids)}, {"num_weights", std::int64_t{32}}, {"padding_idx", std::int64_t{-1}}, {"scale_grad_by_freq", false}});
  check("aten.embedding_dense_backward.default",
        {{"grad_output", use(xt)}, {"indices", use(ids)}, {"num_weights", std::int64_t{32}}, {"padding_idx", std::int64_t{-1}}, {"scale_grad_by_freq", false}});
}

}  // namespace
}  // namespace spscope::exec
