// SPDX-License-Identifier: Apache-2.0
// See workspace.h; cuda_workspace.cpp has the other device. Every formula was measured with a counting allocator in front of libtorch's (torch 2.15.0, one and
// two threads, f32, f64, bf16); tests/unit/torch/capture_workspace_test.cpp repeats the measurement over a grid of
// shapes. Most kernels need nothing: only the ones below appeared. What oneDNN and MKL allocate for themselves does not
// pass through that allocator and is not counted.
#include "core/torch/workspace.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/torch/cuda_workspace.h"
#include "core/torch/own_ops.h"
#include "core/torch/workspace_node.h"

namespace spscope::exec {
namespace {

using ir::DType;
using std::int64_t;

class Workspace : WorkspaceNode {
 public:
  Workspace(const ir::Graph& graph, const ir::Node& node, int threads) : WorkspaceNode(graph, node), threads_(std::max(threads, 1)) {}

  int64_t bytes() const {
    const std::string_view base = ir::baseName(node_.op);
    if (base == "_scaled_dot_product_flash_attention_for_cpu") return flashForward();
    if (base == "_scaled_dot_product_flash_attention_for_cpu_backward") return flashBackward();
    if (base == "_scaled_dot_product_attention_for_cpu") return ruleAttention(false);
    if (base == "_scaled_dot_product_attention_for_cpu_backward") return ruleAttention(true);
    if (base == "tiled_cross_entropy") return tiledLoss(false);
    if (base == "tiled_cross_entropy_backward") return tiledLoss(true);
    if (base == "mm" || base == "addmm" || base == "bmm" || base == "baddbmm") return product();
    if (base == "native_layer_norm") return copyOf("input");
    if (base == "native_layer_norm_backward") return layerNormBackward();
    if (base == "_softmax" || base == "_log_softmax") return copyOf("self");
    if (base == "_softmax_backward_data" || base == "_log_softmax_backward_data")
      return copyOf("grad_output") + copyOf("output");
    if (base == "_safe_softmax") return safeSoftmax();
    if (base == "logsumexp") return logSumExp();
    if (base == "embedding" || base == "embedding_dense_backward")
      return copyOf("indices") + copyOf("grad_output");
    if (base == "native_dropout") return operand("input") ? operand("input").bytes() : 0;
    if (base == "native_dropout_backward") return operand("grad_output") ? operand("grad_output").bytes() : 0;
    if (base == "convolution") return std::max(bytesOf("weight"), outputBytes());
    if (base == "convolution_backward") return convolutionBackward();
    if (base == "sum" || base == "mean" || base == "cumsum" || base == "prod") return reduction(base);
    return promotion(base);
  }

 private:
  // --- attention: aten/src/ATen/native/cpu/FlashAttentionKernel.cpp -------------------------------------------------
  // Blocks of rows by blocks of 512 keys; each thread has buffers for one pair of blocks, in the accumulation type.

  static int64_t rowBlock(int64_t rows) { return std::min<int64_t>(rows, rows >= 768 ? 256 : rows >= 192 ? 64 : 32); }

  int64_t flashForward() const {
    const Operand q = operand("query"), k = operand("key");
    if (!q || !k || q.value->local.size() != 4) return 0;
    const int64_t rows = rowBlock(q.value->local[2]);
    const int64_t keys = std::min<int64_t>(512, k.value->local[2]);
    const int64_t per_thread = rows * keys + 2 * rows + rows * q.value->local[3];
    return threads_ * (per_thread * accumulated(q.value->dtype) + (reduced(q.value->dtype) ? rows * keys * 2 : 0));
  }

  int64_t flashBackward() const {
    const Operand q = operand("query"), k = operand("key"), grad = operand("grad_out");
    if (!q || !k || !grad || q.value->local.size() != 4) return 0;
    const int64_t rows = rowBlock(q.value->local[2]);
    const int64_t keys = std::min<int64_t>(512, k.value->local[2]);
    const int64_t heads = q.value->local[0] * q.value->local[1];
    int64_t total = threads_ * 2 * rows * keys * (accumulated(q.value->dtype) + (reduced(q.value->dtype) ? 2 : 0));
    total += std::min<int64_t>(threads_, heads) * rows * accumulated(q.value->dtype);  // row sums
    total += copyOfHeadsInside("grad_out");
    if (reduced(q.value->dtype))  // blocked copies in the product of the attention matrix with a [S, D] operand
      total += threads_ * threads_ * rows * (640 + 4 * std::min<int64_t>(q.value->local[3], 64));
    return total;
  }

  /// Our own kernel (masked_attention.cpp): a block of queries by a run of keys, by libtorch's kernel. The block of the mask,
  /// results that wait to be joined, gradients of the run's keys and values; of all keys in float32 where they are shorter.
  int64_t ruleAttention(bool backward) const {
    const Operand q = operand("query"), k = operand("key"), v = operand("value");
    if (!q || !k || !v || q.value->local.size() != 4 || q.elements() == 0) return 0;
    const ir::Dims &ql = q.value->local, &kl = k.value->local, &vl = v.value->local;
    const DType type = q.value->dtype;
    const int64_t element = ir::sizeOf(type), wide = accumulated(type), block = std::min(kMaskStep, ql[2]);
    const bool blocks = ql[2] > kMaskStep || kl[2] > kMaskStep;
    const int64_t run = std::min(kKeyRun, std::max(std::min(kMaskStep, kl[2]), kl[2] - kMaskStep));
    int64_t batch = 1, vectors = 0;
    bool same = true;  // one rule for all sequences
    for (const Symbol name : {Symbol("query_rows"), Symbol("key_columns")})
      if (const ir::Attribute* given = node_.find(name))
        if (const auto* list = std::get_if<ir::UseList>(given))
          for (const ir::Use& use : *list) {
            const ir::Value& x = graph_.value(use.value);
            same = same && x.local[0] == 1;
            if (x.dtype != DType::kI64) vectors += ir::numel(x.local) / std::max<int64_t>(1, x.local[0]) * 8;
          }
    if (same) batch = ql[0];
    const int64_t rows = rowBlock(block), results = batch * ql[1] * block * (backward ? ql[3] : vl[3]);
    const int64_t sums = batch * ql[1] * block * wide;
    const auto kernel = [&](int64_t keys) {
      const int64_t scores = rows * std::min<int64_t>(512, keys);
      int64_t bytes = threads_ * (backward ? 2 * scores : scores + 2 * rows + rows * vl[3]) * wide;
      if (reduced(type)) bytes += threads_ * (backward ? 2 : 1) * scores * 2;
      return bytes;
    };
    // Only steps that some queries see are masked; a run of others follows nothing, but where keys are many.
    const int64_t step = std::min(kMaskStep, kl[2]), mask = block * step * element;
    const bool follows = kl[2] > kKeyRun;
    if (!backward) {
      const int64_t joined = blocks ? results * (follows ? wide : element) + 2 * sums : 0;  // one run's alone is not yet widened
      return vectors + results * element + sums + std::max(mask + kernel(step) + joined, kernel(run) + (follows ? joined : 0));
    }
    const auto share = [&](int64_t keys) { return batch * kl[1] * keys * (kl[3] + vl[3]) * element; };
    const int64_t joined = blocks ? results * wide : 0;
    const int64_t laid = results * element;  // the rows of the gradient, as the kernel wants them: a copy where sequences lie apart
    const int64_t masked = mask + kernel(step) + share(step) + joined + laid;
    const int64_t unmasked = kernel(run) + share(run) + (follows ? joined : 0) + (batch > 1 ? laid : 0);
    int64_t total = vectors + results * element + sums + std::max(masked, unmasked);
    if (reduced(type)) total += (k.elements() + v.elements()) * (4 - element);  // they add up in float32
    return total;
  }

  // --- matrix products ----------------------------------------------------------------------------------------------

  int64_t matrixCopy(const Operand& o) const {
    const ir::Dims& sizes = o.value->local;
    return isMatrix(o) ? 0 : sizes[sizes.size() - 2] * sizes.back() * ir::sizeOf(o.value->dtype);
  }

  int64_t product() const {
    const auto [a, b] = productOperands();
    if (!a || !b) return 0;
    return reduced(a.value->dtype) ? reducedProduct(a, b) : matrixCopy(a) + matrixCopy(b);
  }

  /// oneDNN's bf16 product packs blocks of its operands, per thread. Fitted on AVX-512, right to 150 kB; at most 1.4 MiB
  /// a thread.
  int64_t reducedProduct(const Operand& a, const Operand& b) const {
    const std::size_t rank = a.value->local.size();
    const int64_t rows = std::min<int64_t>(a.value->local[rank - 2], 256);
    const int64_t inner = a.value->local[rank - 1];
    const int64_t inner_block = std::min<int64_t>(inner, 512);
    int64_t total = 1024 + 4 * rows * std::min<int64_t>(b.value->local.back(), 64) + 128 * inner_block;
    const ir::Dims strides = stridesOf(a);
    if (strides[rank - 1] != 1) {
      total += rows * inner_block * 2 + 128;
      if (inner > 512)
        total += std::max<int64_t>(0, rows * std::min<int64_t>(b.value->local.back(), 1024) * 4 - 192 * rows);
    }
    return threads_ * total;
  }

  // --- the rest -----------------------------------------------------------------------------------------------------

  int64_t layerNormBackward() const {
    const Operand input = operand("input"), weight = operand("weight");
    int64_t total = copyOf("grad_out") + copyOf("input");
    if (input && weight)  // partial sums of the two parameter gradients, per thread
      total += threads_ * 2 * weight.elements() * ir::sizeOf(input.value->dtype);
    return total;
  }

  int64_t reduction(std::string_view base) const {
    const Operand self = operand("self");
    if (!self || !output()) return 0;
    const DType out = output()->dtype;
    if (self.value->dtype == out) {
      // A mean of a 16-bit type is summed in float32.
      if (base == "mean" && reduced(out)) return (self.elements() + ir::numel(output()->local)) * 4;
      return 0;
    }
    return self.elements() * ir::sizeOf(out);  // converted first
  }

  /// Element-wise ops convert operands of another type than the common one before they run.
  int64_t promotion(std::string_view base) const {
    static constexpr std::string_view kBinary[] = {"add", "sub", "rsub", "mul", "div", "pow", "maximum", "minimum", "where",
                                                   "remainder", "atan2", "eq", "ne", "lt", "le", "gt", "ge"};
    static constexpr std::string_view kFloatUnary[] = {"sin", "cos", "exp", "log", "sqrt", "rsqrt", "reciprocal", "tanh", "sigmoid"};
    const ir::Value* out = output();
    if (!out) return 0;
    const bool unary = std::find(std::begin(kFloatUnary), std::end(kFloatUnary), base) != std::end(kFloatUnary);
    if (!unary && std::find(std::begin(kBinary), std::end(kBinary), base) == std::end(kBinary)) return 0;
    const bool comparison = base.size() == 2 && out->dtype == DType::kBool;
    DType common = out->dtype;
    if (comparison) {  // the result is bool whatever is compared
      common = DType::kUnknown;
      ir::forEachUse(node_, [&](const ir::Use& use) {
        const ir::Value& v = graph_.value(use.value);
        if (common == DType::kUnknown || rank(v) > commonRank(common)) common = v.dtype;
      });
    }
    int64_t total = 0;
    const ir::ValueId condition = base == "where" ? ir::useArg(node_, "condition") : ir::kNone;
    ir::forEachUse(node_, [&](const ir::Use& use) {
      const ir::Value& v = graph_.value(use.value);
      if (use.value != condition && v.dtype != common) total += ir::numel(v.local) * ir::sizeOf(common);
    });
    return total;
  }
  static int commonRank(DType type) {
    return ir::isComplex(type) ? 300 : ir::isFloating(type) ? 200 + static_cast<int>(ir::sizeOf(type))
                                                            : type == DType::kBool ? 0 : 100 + static_cast<int>(ir::sizeOf(type));
  }
  /// Scalars do not decide the common type within their kind.
  static int rank(const ir::Value& v) { return v.local.empty() ? commonRank(v.dtype) / 100 * 100 : commonRank(v.dtype); }

  int64_t threads_;
};

}  // namespace

std::int64_t workspaceBytes(const ir::Graph& graph, const ir::Node& node, std::string_view device, int threads) {
  return device == "cuda" ? cudaWorkspaceBytes(graph, node) : Workspace(graph, node, threads).bytes();
}

}  // namespace spscope::exec
