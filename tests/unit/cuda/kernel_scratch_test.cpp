// SPDX-License-Identifier: Apache-2.0
// Predicted scratch memory of CUDA kernels against what libtorch_cuda itself asks its allocator for, on stand-ins for the CUDA libraries
// (tests/support/cuda_stand_in): its host code runs as on an H100, its kernels do nothing. What a kernel's result decides (how many words an
// embedding's batch has) is predicted at its most, and cuBLAS's choice of algorithm is none: these are bounds only.
#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "core/ir/layout.h"
#include "core/torch/dtype_convert.h"
#include "core/torch/op_call.h"
#include "core/torch/own_ops.h"
#include "core/torch/workspace.h"

namespace spscope::exec {
namespace {

using at::Tensor;
using std::int64_t;
using Args = std::vector<std::pair<const char*, ir::Attribute>>;

ir::Use use(ir::ValueId v) { return ir::Use{v}; }

class KernelScratch : public ::testing::Test {
 protected:
  /// All that libtorch_cuda.so needs is found by its name among what is loaded: the stand-ins.
  void SetUp() override {
#ifdef SPSCOPE_CUDA_STAND_IN
    static const std::string failed = load();
    ASSERT_EQ(failed, "");
#else
    GTEST_SKIP() << "needs objdump and torch's whole wheel with the CUDA headers beside it, when CMake is run";
#endif
  }
#ifdef SPSCOPE_CUDA_STAND_IN
  static std::string load() {
    std::ifstream list(SPSCOPE_CUDA_STAND_IN "/list");
    if (!list) return "no list of stand-ins";
    for (std::string path; std::getline(list, path);)
      if (::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) return ::dlerror();
    if (::dlopen(SPSCOPE_TORCH_LIBRARIES "/libtorch_cuda.so", RTLD_LAZY | RTLD_GLOBAL) == nullptr) return ::dlerror();
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    registerOwnOps();
    return "";
  }
#endif

  static c10::CachingDeviceAllocator::Stat requested() { return at::getDeviceAllocator(at::kCUDA)->getDeviceStats(0).requested_bytes[0]; }

  ir::ValueId input(ir::Dims shape, at::ScalarType type = at::kFloat) {
    const ir::ValueId v = graph_.addValue("x", toDType(type), shape);
    graph_.inputs.push_back({v, ir::InputKind::kUser, "x", {}, std::nullopt, false});
    values_.push_back(at::empty(shape, at::TensorOptions().device(at::kCUDA).dtype(type)));
    return v;
  }
  struct Ran {
    std::vector<ir::ValueId> made;
    std::int64_t measured = 0, predicted = 0;
  };
  /// `certain`: results whose memory layout is predicted, too; the others hold no more than a row of numbers.
  Ran run(const char* op, Args args, std::size_t certain = 1) {
    const ir::NodeId n = graph_.addNode(op, "n");
    for (auto& [name, value] : args) graph_.node(n).set(name, std::move(value));
    Ran out;
    auto prepared = prepare(graph_.node(n), c10::Device(c10::kCUDA, 0));
    if (!prepared) {
      ADD_FAILURE() << prepared.error().format();
      return out;
    }
    std::vector<Tensor> operands, outputs;
    for (const ir::ValueId v : prepared->operands) operands.push_back(values_[static_cast<std::size_t>(v)]);
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      at::getDeviceAllocator(at::kCUDA)->resetPeakStats(0);
      const Status status = call(*prepared, operands, outputs);
      EXPECT_TRUE(status.has_value()) << op << ": " << status.error().format();
      out.measured = requested().peak - requested().current;
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& t = outputs[i];
      if (!t.defined()) {
        graph_.node(n).outputs.push_back(ir::kNone);
        out.made.push_back(ir::kNone);
        continue;
      }
      out.made.push_back(graph_.addOutput(n, toDType(t.scalar_type()), t.sizes().vec()));
      values_.push_back(t);
      if (i < certain) {
        EXPECT_EQ(ir::layoutOf(graph_, out.made.back()).strides, t.strides().vec()) << op << " result " << i;
      }
    }
    out.predicted = workspaceBytes(graph_, graph_.node(n), "cuda", 1);
    asked_[op] += out.measured;
    return out;
  }
  std::vector<ir::ValueId> exact(const char* op, Args args, std::size_t certain = 1) {
    const Ran ran = run(op, std::move(args), certain);
    EXPECT_EQ(ran.predicted, ran.measured) << op;
    return ran.made;
  }
  std::vector<ir::ValueId> atMost(const char* op, Args args, double over) {
    const Ran ran = run(op, std::move(args));
    EXPECT_GE(ran.predicted, ran.measured) << op;
    EXPECT_LE(static_cast<double>(ran.predicted), over * static_cast<double>(ran.measured)) << op << ": " << ran.measured;
    return ran.made;
  }
  /// None of these was equal because neither side had anything.
  void expectAsked(std::initializer_list<const char*> ops) {
    for (const char* op : ops) EXPECT_GT(asked_[op], 0) << op;
  }
  ir::ValueId heads(std::int64_t h, std::int64_t s, std::int64_t d, at::ScalarType type) {
    return run("aten.transpose.int", {{"self", use(input({1, s, h, d}, type))}, {"dim0", std::int64_t{1}}, {"dim1", std::int64_t{2}}}).made[0];
  }

  ir::Graph graph_;
  std::vector<Tensor> values_;
  std::map<std::string, int64_t> asked_;  ///< bytes of all calls, by op
};

TEST_F(KernelScratch, FlashAttention) {
  for (const int64_t h : {1, 4, 16})
    for (const int64_t kv : {int64_t{1}, h})
      for (const int64_t s : {130, 1000, 4096})
        for (const int64_t d : {40, 64, 128, 192}) {
          SCOPED_TRACE("flash h " + std::to_string(h) + " kv " + std::to_string(kv) + " s " + std::to_string(s) + " d " + std::to_string(d));
          const auto q = heads(h, s, d, at::kBFloat16), k = heads(kv, s, d, at::kBFloat16);
          const auto out = exact("aten._scaled_dot_product_flash_attention.default", {{"query", use(q)}, {"key", use(k)}, {"value", use(k)}, {"dropout_p", 0.0}, {"is_causal", true}});
          for (const ir::ValueId grad : {heads(h, s, d, at::kBFloat16), input({1, h, s, d}, at::kBFloat16)})
            exact("aten._scaled_dot_product_flash_attention_backward.default",
                  {{"grad_out", use(grad)}, {"query", use(q)}, {"key", use(k)}, {"value", use(k)}, {"out", use(out[0])}, {"logsumexp", use(out[1])},
                   {"max_q", s}, {"max_k", s}, {"dropout_p", 0.0}, {"is_causal", true}, {"philox_seed", use(out[6])}, {"philox_offset", use(out[7])}},
                  3);
        }
  expectAsked({"aten._scaled_dot_product_flash_attention.default", "aten._scaled_dot_product_flash_attention_backward.default"});
}

TEST_F(KernelScratch, MemoryEfficientAttention) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const int64_t h : {1, 6})
      for (const int64_t s : {100, 1024})
        for (const int64_t d : {32, 64, 96, 128, 160}) {
          SCOPED_TRACE("efficient " + std::string(c10::toString(type)) + " h " + std::to_string(h) + " s " + std::to_string(s) + " d " + std::to_string(d));
          const auto q = heads(h, s, d, type);
          const auto out = exact("aten._scaled_dot_product_efficient_attention.default",
                                 {{"query", use(q)}, {"key", use(q)}, {"value", use(q)}, {"attn_bias", std::monostate{}}, {"compute_log_sumexp", true}, {"dropout_p", 0.0}, {"is_causal", false}});
          for (const ir::ValueId grad : {heads(h, s, d, type), input({1, h, s, d}, type)})
            exact("aten._scaled_dot_product_efficient_attention_backward.default",
                  {{"grad_out_", use(grad)}, {"query", use(q)}, {"key", use(q)}, {"value", use(q)}, {"out", use(out[0])}, {"logsumexp", use(out[1])},
                   {"philox_seed", use(out[2])}, {"philox_offset", use(out[3])}, {"dropout_p", 0.0}, {"grad_input_mask", std::vector<bool>{true, true, true, false}}},
                  3);
        }
  expectAsked({"aten._scaled_dot_product_efficient_attention.default", "aten._scaled_dot_product_efficient_attention_backward.default"});
}

TEST_F(KernelScratch, RowsOfNormsSumsAndEmbeddings) {
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const int64_t rows : {100, 3000, 40000})
      for (const int64_t width : {48, 768, 4096}) {
        SCOPED_TRACE("rows " + std::to_string(rows) + " of " + std::to_string(width));
        const auto x = input({2, rows, width}, type), w = input({width}, type), stat = input({2, rows, 1});
        for (const auto& over : {ir::Dims{0, 1}, ir::Dims{2}, ir::Dims{1}, ir::Dims{}}) {
          exact("aten.sum.dim_IntList", {{"self", use(x)}, {"dim", over}, {"keepdim", false}});
          exact("aten.sum.dim_IntList", {{"self", use(x)}, {"dim", over}, {"keepdim", true}, {"dtype", ir::DType::kF32}});
        }
        exact("aten.mean.dim", {{"self", use(x)}, {"dim", ir::Dims{-1}}, {"keepdim", true}});
        exact("aten.native_layer_norm_backward.default", {{"grad_out", use(x)}, {"input", use(x)}, {"normalized_shape", ir::Dims{width}}, {"mean", use(stat)}, {"rstd", use(stat)}, {"weight", use(w)},
                                                          {"bias", use(w)}, {"output_mask", std::vector<bool>{true, true, true}}});
        const auto ids = input({2, rows}, at::kLong);
        for (const int64_t words : {300, 32000})
          atMost("aten.embedding_dense_backward.default",
                 {{"grad_output", use(x)}, {"indices", use(ids)}, {"num_weights", words}, {"padding_idx", int64_t{-1}}, {"scale_grad_by_freq", false}}, words > 1000 ? 1.001 : 100);  // few words: less
      }
  expectAsked({"aten.sum.dim_IntList", "aten.native_layer_norm_backward.default", "aten.embedding_dense_backward.default"});
}

TEST_F(KernelScratch, TheOthers) {
  const auto f = input({32, 64}), h = input({32, 64}, at::kBFloat16), b = input({32, 64}, at::kBool), row = input({1, 64}), wide = input({64, 96});
  const auto turned = run("aten.t.default", {{"self", use(input({64, 32}))}}).made[0];
  for (const char* op : {"aten.add.Tensor", "aten.mul.Tensor", "aten.sub.Tensor", "aten.div.Tensor", "aten.eq.Tensor"}) exact(op, {{"self", use(f)}, {"other", use(h)}});
  exact("aten.where.self", {{"condition", use(b)}, {"self", use(f)}, {"other", use(h)}});
  exact("aten.cumsum.default", {{"self", use(b)}, {"dim", int64_t{1}}});
  exact("aten.sum.default", {{"self", use(b)}});
  for (const ir::ValueId x : {f, turned}) {
    exact("aten._log_softmax.default", {{"self", use(x)}, {"dim", int64_t{-1}}, {"half_to_float", false}});
    exact("aten._softmax_backward_data.default", {{"grad_output", use(x)}, {"output", use(x)}, {"dim", int64_t{-1}}, {"input_dtype", ir::DType::kF32}});
    exact("aten._log_softmax_backward_data.default", {{"grad_output", use(x)}, {"output", use(x)}, {"dim", int64_t{-1}}, {"input_dtype", ir::DType::kF32}});
    exact("aten._safe_softmax.default", {{"self", use(x)}, {"dim", int64_t{-1}}});
    exact("aten.native_dropout.default", {{"input", use(x)}, {"p", 0.5}, {"train", true}}, 0);
    exact("aten.mm.default", {{"self", use(x)}, {"mat2", use(wide)}});
    exact("aten.cat.default", {{"tensors", ir::UseList{use(x), use(x)}}, {"dim", int64_t{1}}});
    exact("aten.constant_pad_nd.default", {{"self", use(x)}, {"pad", ir::Dims{0, 3}}, {"value", int64_t{0}}});
    exact("aten.gelu_backward.default", {{"grad_output", use(x)}, {"self", use(x)}, {"approximate", std::string("none")}});
  }
  const auto repeated = run("aten.expand.default", {{"self", use(row)}, {"size", ir::Dims{32, 64}}}).made[0];
  exact("aten.mm.default", {{"self", use(repeated)}, {"mat2", use(wide)}});
  exact("aten.addmm.default", {{"self", use(input({96}))}, {"mat1", use(f)}, {"mat2", use(wide)}});
  exact("aten.bmm.default", {{"self", use(input({8, 32, 16}))}, {"mat2", use(input({8, 16, 24}))}});
  const auto two = input({2, 1, 1, 1}, at::kLong), last = input({128}, at::kLong), grid = input({2, 128}, at::kLong);
  exact("aten.index.Tensor", {{"self", use(grid)}, {"indices", ir::UseList{use(two), use(last)}}});
  const auto places = input({100000}, at::kLong), few = input({128}, at::kLong);
  atMost("aten.index_put.default", {{"self", use(input({4096, 16}))}, {"indices", ir::UseList{use(places)}}, {"values", use(input({100000, 16}))}, {"accumulate", true}}, 1.001);
  atMost("aten.index_put.default", {{"self", use(input({8, 16}))}, {"indices", ir::UseList{use(few)}}, {"values", use(input({128, 16}))}, {"accumulate", true}}, 10);  // sorted in one go
  exact("aten.index_put.default", {{"self", use(input({4096, 16}))}, {"indices", ir::UseList{use(places)}}, {"values", use(input({100000, 16}))}, {"accumulate", false}});
  expectAsked({"aten.where.self", "aten.cumsum.default", "aten.sum.default", "aten._softmax_backward_data.default", "aten._log_softmax.default", "aten._safe_softmax.default", "aten.mm.default",
               "aten.addmm.default", "aten.bmm.default", "aten.index.Tensor", "aten.index_put.default"});
}

TEST_F(KernelScratch, TiledLossesAskForNoMore) {
  // The most of a block's steps, and cuBLAS's workspace on top: the two need not meet.
  const auto atMostAWorkspaceMore = [&](const char* op, const Args& args) {
    const Ran ran = run(op, args);
    EXPECT_GE(ran.predicted, ran.measured) << op;
    EXPECT_LE(ran.predicted - ran.measured, (int64_t{32} << 20) + 2048 * 32) << op;  // and a few numbers for each row
  };
  const auto grad = input({5000}), hidden = input({5000, 256}), weight = input({32000, 256}), target = input({5000}, at::kLong);
  for (const char* steps : {"", "tanh"}) {
    SCOPED_TRACE(steps);
    Args args{{"self", use(hidden)}, {"weight", use(weight)}, {"target", use(target)}, {"ignore_index", int64_t{-100}}, {"label_smoothing", 0.0}, {"rows", int64_t{2048}}, {"steps", std::string(steps)}};
    atMostAWorkspaceMore("spscope.tiled_cross_entropy.default", args);
    args.insert(args.begin(), {"grad_output", use(grad)});
    args.emplace_back("weight_wanted", true);
    atMostAWorkspaceMore("spscope.tiled_cross_entropy_backward.default", args);
  }
}

}  // namespace
}  // namespace spscope::exec
