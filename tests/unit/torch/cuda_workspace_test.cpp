// SPDX-License-Identifier: Apache-2.0
// Scratch memory of CUDA kernels, each figure worked out by hand from the rules of core/torch/cuda_workspace.cpp's sources. Where only a bound
// is known the test says so. What libtorch_cuda itself asks for: tests/unit/cuda/kernel_scratch_test.cpp.
#include <gtest/gtest.h>

#include "core/ir/graph.h"
#include "core/torch/workspace.h"

namespace spscope::exec {
namespace {

using ir::Dims;
using ir::DType;
using ir::Use;
constexpr std::int64_t kBlas = 32 << 20;  ///< cuBLAS's workspace on Hopper
using Args = std::vector<std::pair<const char*, ir::Attribute>>;

class CudaWorkspaceTest : public ::testing::Test {
 protected:
  ir::ValueId input(Dims shape, DType type = DType::kF32) {
    const ir::ValueId v = graph_.addValue("x", type, std::move(shape));
    graph_.inputs.push_back({v, ir::InputKind::kUser, "x", {}, std::nullopt, false});
    return v;
  }
  ir::NodeId node(const char* op, Args args, std::vector<std::pair<DType, Dims>> outputs) {
    const ir::NodeId n = graph_.addNode(op, "n");
    for (auto& [name, value] : args) graph_.node(n).set(name, std::move(value));
    for (auto& [type, shape] : outputs) graph_.addOutput(n, type, std::move(shape));
    return n;
  }
  std::int64_t bytes(const char* op, Args args, std::vector<std::pair<DType, Dims>> outputs, const char* device = "cuda") {
    return workspaceBytes(graph_, graph_.node(node(op, std::move(args), std::move(outputs))), device, 1);
  }
  /// [B, H, S, D] that lies in memory as [B, S, H, D], as a projection leaves it.
  ir::ValueId heads(std::int64_t h, std::int64_t s, std::int64_t d, DType type) {
    const Dims shape{1, h, s, d};
    return graph_.node(node("aten.transpose.int", {{"self", Use{input({1, s, h, d}, type)}}, {"dim0", std::int64_t{1}}, {"dim1", std::int64_t{2}}}, {{type, shape}})).outputs[0];
  }
  std::int64_t flashBackward(std::int64_t h, std::int64_t kv, std::int64_t s, std::int64_t d, ir::ValueId grad = ir::kNone) {
    constexpr DType kType = DType::kBF16;
    const ir::ValueId q = heads(h, s, d, kType), k = heads(kv, s, d, kType);
    return bytes("aten._scaled_dot_product_flash_attention_backward.default",
                 {{"grad_out", Use{grad == ir::kNone ? heads(h, s, d, kType) : grad}}, {"query", Use{q}}, {"key", Use{k}}, {"value", Use{k}}, {"out", Use{heads(h, s, d, kType)}}},
                 {{kType, {1, h, s, d}}, {kType, {1, kv, s, d}}, {kType, {1, kv, s, d}}});
  }
  std::int64_t flashForward(std::int64_t h, std::int64_t s, std::int64_t d) {
    const ir::ValueId q = heads(h, s, d, DType::kBF16);
    return bytes("aten._scaled_dot_product_flash_attention.default", {{"query", Use{q}}, {"key", Use{q}}, {"value", Use{q}}}, {{DType::kBF16, {1, h, s, d}}});
  }
  std::int64_t efficient(bool backward, std::int64_t h, std::int64_t s, std::int64_t d, DType type) {
    const ir::ValueId q = heads(h, s, d, type);
    Args args{{"query", Use{q}}, {"key", Use{q}}, {"value", Use{q}}};
    if (backward) args.insert(args.begin(), {"grad_out_", Use{heads(h, s, d, type)}});
    return bytes(backward ? "aten._scaled_dot_product_efficient_attention_backward.default" : "aten._scaled_dot_product_efficient_attention.default", args, {{type, {1, h, s, d}}});
  }
  std::int64_t sum(Dims shape, DType type, Dims over, DType out, Dims made, const char* op = "aten.sum.dim_IntList") {
    return bytes(op, {{"self", Use{input(std::move(shape), type)}}, {"dim", std::move(over)}}, {{out, std::move(made)}});
  }
  std::int64_t embedding(std::int64_t rows, std::int64_t words, std::int64_t width) {
    return bytes("aten.embedding_dense_backward.default", {{"grad_output", Use{input({rows, width}, DType::kBF16)}}, {"indices", Use{input({rows}, DType::kI64)}}}, {{DType::kBF16, {words, width}}});
  }

  ir::Graph graph_;
};

TEST_F(CudaWorkspaceTest, FlashBackwardAddsUpTheQueriesGradientInFloat32) {
  // 1000 positions count as 1024: a row sum of 4 bytes, and 64 floats, for each of 8 heads.
  EXPECT_EQ(flashBackward(8, 8, 1000, 64), 1024 * 8 * 4 + 1024 * 8 * 64 * 4);
  // Heads are rounded to 32 floats, above 128 to 64.
  EXPECT_EQ(flashBackward(8, 8, 1024, 40), 1024 * 8 * 4 + 1024 * 8 * 64 * 4);
  EXPECT_EQ(flashBackward(8, 8, 1024, 136), 1024 * 8 * 4 + 1024 * 8 * 192 * 4);
}

TEST_F(CudaWorkspaceTest, FlashBackwardSpreadsSharedKeysOverTheQueriesHeads) {
  EXPECT_EQ(flashBackward(8, 2, 1024, 64), 1024 * 8 * 4 + 1024 * 8 * 64 * 4 + 2 * 1024 * 8 * 64 * 2);
}

TEST_F(CudaWorkspaceTest, FlashBackwardCopiesAGradientThatLiesByHeads) {
  EXPECT_EQ(flashBackward(8, 8, 1024, 64, input({1, 8, 1024, 64}, DType::kBF16)), 1024 * 8 * 4 + 1024 * 8 * 64 * 4 + 8 * 1024 * 64 * 2);
}

TEST_F(CudaWorkspaceTest, FlashForwardSplitsKeysOnlyWhereThereAreTooFewQueries) {
  EXPECT_EQ(flashForward(8, 8192, 128), 0) << "1024 blocks of queries: more than 264 slots";
  EXPECT_EQ(flashForward(2, 512, 64), 532480);
  EXPECT_EQ(flashForward(4, 1000, 96), 6208000);
  EXPECT_EQ(flashForward(3, 700, 160), 9727200);
  EXPECT_EQ(flashForward(16, 300, 32), 1267200);
  EXPECT_EQ(flashForward(1, 128, 64), 0);
  // 32 blocks for 264 slots, 16 blocks of keys: 8 parts fill 97 % of a round (an A100 takes 6).
  EXPECT_EQ(flashForward(1, 2048, 128), 8 * 2048 * (1 + 128) * 4);
}

TEST_F(CudaWorkspaceTest, MemoryEfficientAttention) {
  EXPECT_EQ(efficient(false, 2, 100, 128, DType::kBF16), 0);
  EXPECT_EQ(efficient(false, 2, 100, 160, DType::kBF16), 2 * 100 * 160 * 4) << "heads beyond 128 are added up in memory";
  EXPECT_EQ(efficient(false, 2, 100, 160, DType::kF32), 0) << "where the result is float32 itself, there";
  // Two tiles of 64 x 64 floats with their locks for each head, and a row sum each.
  EXPECT_EQ(efficient(true, 2, 100, 32, DType::kF32), 2 * (2 * (4096 + 4) * 4) + 2 * 100 * 4);
  EXPECT_EQ(efficient(true, 2, 100, 128, DType::kBF16), 2 * (128 * 128 + 4) * 4 + 2 * 100 * 4) << "one tile of 128 x 128";
  // Three tiles of 128 x 64, and two parts of 64 keys, of keys and of values, whose heads are rounded to 256.
  EXPECT_EQ(efficient(true, 2, 100, 160, DType::kBF16), 2 * (3 * (128 * 64 + 4) + 2 * 64 * (256 + 256)) * 4 + 2 * 100 * 4);
  EXPECT_EQ(efficient(true, 4, 1000, 96, DType::kF32), 4 * (8 * 2 * (128 * 64 + 4)) * 4 + 4 * 1000 * 4);
}

TEST_F(CudaWorkspaceTest, SumsOverRowsLeaveABlocksWidthForEachPart) {
  // A thread makes 4 of 4096 outputs, 32 x 4 threads are a block: 32 blocks, 16 of them on each of 132 multiprocessors: 66 parts.
  EXPECT_EQ(sum({16384, 4096}, DType::kF32, {0}, DType::kF32, {4096}), std::int64_t{4} * 4096 * 66 * 32 * 4 + 32 * 4);
  EXPECT_EQ(sum({16384, 4096}, DType::kBF16, {0}, DType::kF32, {4096}), std::int64_t{4} * 4096 * 66 * 32 * 4 + 32 * 4) << "16-bit operands are read as they are";
  {
    const ir::ValueId x = graph_.node(node("aten.transpose.int", {{"self", Use{input({4, 1000, 8, 64})}}, {"dim0", std::int64_t{1}}, {"dim1", std::int64_t{2}}}, {{DType::kF32, {4, 8, 1000, 64}}})).outputs[0];
    EXPECT_EQ(bytes("aten.sum.dim_IntList", {{"self", Use{x}}, {"dim", Dims{0, 2}}}, {{DType::kF32, {8, 64}}}), 16515088);
  }
  EXPECT_EQ(sum({2, 1000, 768}, DType::kF32, {0, 1}, DType::kF32, {768}), 4 * 768 * 32 * 32 * 4 + 6 * 4) << "6 blocks, at most 32 parts of 16 values and more";
  EXPECT_EQ(sum({16384, 4096}, DType::kF32, {1}, DType::kF32, {16384}), 0) << "each row is a block's own";
  EXPECT_EQ(sum({4194304}, DType::kF32, {}, DType::kF32, {}), 512 * 4 + 4) << "512 parts of one sum";
  EXPECT_EQ(sum({8, 128}, DType::kBool, {}, DType::kI64, {}), 8 * 128 * 8) << "counted in int64: converted first";
  EXPECT_EQ(sum({4, 48, 64}, DType::kBF16, {-1}, DType::kBF16, {4, 48}, "aten.mean.dim"), 0);
}

TEST_F(CudaWorkspaceTest, LayerNormOfManyShortRows) {
  const auto of = [&](std::int64_t rows) {
    const ir::ValueId x = input({rows, 1024}, DType::kBF16), w = input({1024}, DType::kBF16);
    return bytes("aten.native_layer_norm_backward.default", {{"grad_out", Use{x}}, {"input", Use{x}}, {"weight", Use{w}}, {"bias", Use{w}}},
                 {{DType::kBF16, {rows, 1024}}, {DType::kBF16, {1024}}, {DType::kBF16, {1024}}});
  };
  EXPECT_EQ(of(65536), 0);
  // 1024 parts of both gradients; then their sum over rows: 8 blocks, 16 parts.
  EXPECT_EQ(of(131072), 2 * 1024 * 1024 * 2 + 4 * 1024 * 16 * 32 * 4 + 8 * 4 + 1024 * 2);
}

TEST_F(CudaWorkspaceTest, EmbeddingBackwardSortsWordsAndAddsUpInParts) {
  EXPECT_EQ(embedding(3072, 1000, 64), 0) << "few rows are not sorted";
  constexpr std::int64_t kParts = 409 + 1000;
  EXPECT_EQ(embedding(4096, 1000, 64), 2 * 4096 * 8 + (4096 + 2 * 1000 + kParts) * 8 + kParts * 64 * 4 + 16);
  EXPECT_EQ(embedding(16384, 128256, 4096), 296072000) << "18022 parts of 4096";
  // One column: what the sort takes is the most; at most, for libtorch took 39,973,375.
  EXPECT_EQ(embedding(1000000, 128256, 1), 2 * 1000000 * 8 + 3 * 1000000 * 8 + 28 * 1024);
}

TEST_F(CudaWorkspaceTest, TheBackwardOfASoftmaxMultipliesFirst) {
  const ir::ValueId x = input({32, 64});
  const Args args{{"grad_output", Use{x}}, {"output", Use{x}}};
  EXPECT_EQ(bytes("aten._softmax_backward_data.default", args, {{DType::kF32, {32, 64}}}), 32 * 64 * 4);
  EXPECT_EQ(bytes("aten._log_softmax_backward_data.default", args, {{DType::kF32, {32, 64}}}), 0);
}

TEST_F(CudaWorkspaceTest, IndicesThatDoNotLieAlikeAreLaidOut) {
  const ir::ValueId self = input({2, 128}, DType::kI64), rows = input({2, 1, 1, 1}, DType::kI64), columns = input({128}, DType::kI64);
  EXPECT_EQ(bytes("aten.index.Tensor", {{"self", Use{self}}, {"indices", ir::UseList{Use{rows}, Use{columns}}}}, {{DType::kI64, {2, 1, 1, 128}}}), 2 * 256 * 8);
  EXPECT_EQ(bytes("aten.index.Tensor", {{"self", Use{self}}, {"indices", ir::UseList{Use{columns}}}}, {{DType::kI64, {128, 128}}}), 0);
  const ir::ValueId values = input({128, 16});
  for (const bool accumulate : {false, true})
    EXPECT_EQ(bytes("aten.index_put.default", {{"self", Use{input({8, 16})}}, {"indices", ir::UseList{Use{columns}}}, {"values", Use{values}}, {"accumulate", accumulate}}, {{DType::kF32, {8, 16}}}),
              accumulate ? 128 * 8 * 6 + 28 * 1024 : 0) << "at most: few are sorted in one go";
}

TEST_F(CudaWorkspaceTest, ElementWiseOpsReadOtherTypesAsTheyAre) {
  const ir::ValueId f = input({32, 64}), h = input({32, 64}, DType::kBF16), b = input({32, 64}, DType::kBool);
  const Args mixed{{"self", Use{f}}, {"other", Use{h}}};
  EXPECT_EQ(bytes("aten.add.Tensor", mixed, {{DType::kF32, {32, 64}}}), 0);
  EXPECT_EQ(bytes("aten.add.Tensor", mixed, {{DType::kF32, {32, 64}}}, "cpu"), 32 * 64 * 4) << "a CPU's convert them first";
  EXPECT_EQ(bytes("aten.where.self", {{"condition", Use{b}}, {"self", Use{f}}, {"other", Use{h}}}, {{DType::kF32, {32, 64}}}), 32 * 64 * 4);
}

TEST_F(CudaWorkspaceTest, ProductsCopyOperandsThatAreNoMatrices) {
  const ir::ValueId row = input({1, 64}), b = input({64, 96});
  const ir::ValueId repeated = graph_.node(node("aten.expand.default", {{"self", Use{row}}, {"size", Dims{32, 64}}}, {{DType::kF32, {32, 64}}})).outputs[0];
  EXPECT_EQ(bytes("aten.mm.default", {{"self", Use{repeated}}, {"mat2", Use{b}}}, {{DType::kF32, {32, 96}}}), kBlas + 32 * 64 * 4);
  EXPECT_EQ(bytes("aten.mm.default", {{"self", Use{input({32, 64}, DType::kBF16)}}, {"mat2", Use{input({64, 96}, DType::kBF16)}}}, {{DType::kBF16, {32, 96}}}), kBlas);
  const ir::ValueId of_all = graph_.node(node("aten.expand.default", {{"self", Use{input({1, 1, 64})}}, {"size", Dims{8, 32, 64}}}, {{DType::kF32, {8, 32, 64}}})).outputs[0];
  EXPECT_EQ(bytes("aten.bmm.default", {{"self", Use{of_all}}, {"mat2", Use{input({8, 64, 96})}}}, {{DType::kF32, {8, 32, 96}}}), kBlas + 8 * 32 * 64 * 4) << "the whole batch";
}

TEST_F(CudaWorkspaceTest, TiledLossesTakeTheSameSteps) {
  const Args args{{"self", Use{input({200, 48})}}, {"weight", Use{input({640, 48})}}, {"target", Use{input({200}, DType::kI64)}}, {"rows", std::int64_t{96}}, {"steps", std::string("tanh")}};
  const std::int64_t cuda = bytes("spscope.tiled_cross_entropy.default", args, {{DType::kF32, {200}}});
  EXPECT_EQ(cuda, bytes("spscope.tiled_cross_entropy.default", args, {{DType::kF32, {200}}}, "cpu") + kBlas);
  EXPECT_EQ(cuda, 96 * 640 * 2 * 4 + 96 * 4 + kBlas) << "at most: its product and its most need not meet";
}

}  // namespace
}  // namespace spscope::exec
