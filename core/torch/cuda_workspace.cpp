// SPDX-License-Identifier: Apache-2.0
// What PyTorch's CUDA kernels ask its allocator for beyond their results, read off the host code of torch 2.15: the headers of its wheel
// where they have it, its sources elsewhere (below aten/src/ATen/native; each part names its file). Nothing here was ever
// measured on a GPU; tests/unit/cuda/kernel_scratch_test.cpp compares with what libtorch_cuda's host code asks for on a stand-in for the
// CUDA libraries, whose kernels do nothing, and says which are bounds only. Not known, and not counted: cuDNN's workspaces, and those of sort.
#include "core/torch/cuda_workspace.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/torch/workspace_node.h"

namespace spscope::exec {
namespace {

using ir::Dims;
using ir::DType;
using std::int64_t;

constexpr int64_t kMultiprocessors = 132;     // H100, H200, GH200
constexpr int64_t kMultiprocessorsA100 = 108;
constexpr int64_t kThreadsPerMultiprocessor = 2048;
constexpr int64_t kSortsOwn = int64_t{28} << 10;  ///< counters of cub's radix sort, at most
/// cuda/CublasHandlePool.cpp: taken for each product and given back (TORCH_CUBLAS_WORKSPACE_CACHE is off). Hopper and later; 8.125 MiB before.
constexpr int64_t kProductWorkspace = int64_t{32} << 20;

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t roundUp(int64_t a, int64_t b) { return ceilDiv(a, b) * b; }
/// The largest power of two that is not above n.
int64_t lastPowerOf2(int64_t n) {
  int64_t out = 1;
  while (out * 2 <= n) out *= 2;
  return out;
}

// --- flash attention: transformers/cuda/flash_attn/flash_api.cpp -----------------------------------------------------

/// Where there are too few blocks of 64 queries for all multiprocessors (two blocks each), keys are split: into as few parts as
/// reach 85 % of the best use of the last round. 1: not split.
int64_t keySplits(int64_t blocks, int64_t key_blocks, int64_t multiprocessors) {
  const auto slots = static_cast<double>(2 * multiprocessors);
  if (static_cast<double>(blocks) >= 0.8 * slots) return 1;
  const int64_t most = std::min({int64_t{128}, 2 * multiprocessors, key_blocks});
  const auto useful = [&](int64_t splits) { return splits == 1 || ceilDiv(key_blocks, splits) != ceilDiv(key_blocks, splits - 1); };
  const auto use = [&](int64_t splits) {
    const double rounds = static_cast<double>(blocks * splits) / slots;
    return rounds / static_cast<double>(ceilDiv(blocks * splits, 2 * multiprocessors));
  };
  double best = 0;
  for (int64_t s = 1; s <= most; ++s)
    if (useful(s)) best = std::max(best, use(s));
  for (int64_t s = 1; s <= most; ++s)
    if (useful(s) && use(s) >= 0.85 * best) return s;
  return 1;
}

int64_t roundedHead(int64_t size) { return roundUp(size, size <= 128 ? 32 : 64); }

// --- reductions: cuda/Reduce.cuh -------------------------------------------------------------------------------------

/// One group of dimensions, innermost first, those that lie together as one.
struct Walk {
  std::vector<std::pair<int64_t, int64_t>> dims;  ///< size, stride in elements
  void add(int64_t size, int64_t stride) {
    if (size != 1) dims.emplace_back(size, stride);
  }
  void join() {
    std::stable_sort(dims.begin(), dims.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    for (std::size_t i = 1; i < dims.size();) {
      auto& [size, stride] = dims[i - 1];
      if (size * stride != dims[i].second) {
        ++i;
        continue;
      }
      size *= dims[i].first;
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  int64_t elements() const {
    int64_t out = 1;
    for (const auto& [size, stride] : dims) out *= size;
    return out;
  }
};

/// Few outputs of many elements are made by several blocks each, which leave their parts in memory: for sums over rows a whole block's
/// width of them for each output. `wide`: bytes of a part.
int64_t partsOfReduction(const Walk& over, const Walk& kept, int64_t wide) {
  const int64_t outputs = kept.elements(), inputs = over.elements();
  if (outputs == 0 || inputs == 0) return 0;
  const bool inner = kept.dims.empty() || (!over.dims.empty() && over.dims.front().second < kept.dims.front().second);
  const int64_t stride = inner ? (over.dims.empty() ? 1 : over.dims.front().second) : kept.dims.front().second;
  int64_t along = inner ? inputs : outputs;
  const int64_t across = inner ? outputs : inputs;
  int64_t together = 1;  // outputs that a thread makes
  if (stride == 1 && inner && along >= 128 && over.dims.size() == 1) {
    along /= 4;
  } else if (stride == 1 && !inner) {
    together = 4;
    const auto divide = [&](int64_t n) {
      while (n % together != 0) together /= 2;
    };
    divide(kept.dims.front().first);
    for (const auto& [size, step] : over.dims) divide(step);
    for (std::size_t i = 1; i < kept.dims.size(); ++i) divide(kept.dims[i].second);
    along /= together;
  }
  const int64_t most = 512 / together;
  const int64_t along2 = along < most ? lastPowerOf2(along) : most, across2 = across < most ? lastPowerOf2(across) : most;
  int64_t width = std::min<int64_t>(along2, 32);
  const int64_t height = std::min(across2, most / width);
  width = std::min(along2, most / height);
  int64_t input_step = inner ? width : 1, output_step = inner ? 1 : width;
  const bool rows = ceilDiv(inputs, input_step) >= std::min<int64_t>(height * 16, 256);
  (rows ? input_step : output_step) *= height;
  const int64_t values = ceilDiv(inputs, input_step);  // of a thread
  const int64_t slots = kMultiprocessors * (kThreadsPerMultiprocessor / (width * height));
  const int64_t grid = ceilDiv(outputs / together, output_step);
  if (!rows || values < 256 || grid > slots) return 0;
  const int64_t parts = std::clamp(ceilDiv(slots, grid), ceilDiv(values, 256), ceilDiv(values, 16));
  if (parts <= 1) return 0;
  return wide * outputs * parts * (inner ? 1 : width * together) + 4 * grid;
}

class CudaWorkspace : WorkspaceNode {
 public:
  CudaWorkspace(const ir::Graph& graph, const ir::Node& node) : WorkspaceNode(graph, node) {}

  int64_t bytes() const {
    const std::string_view base = ir::baseName(node_.op);
    if (base == "_scaled_dot_product_flash_attention") return flashForward();
    if (base == "_scaled_dot_product_flash_attention_backward") return flashBackward();
    if (base == "_scaled_dot_product_efficient_attention") return efficientForward();
    if (base == "_scaled_dot_product_efficient_attention_backward") return efficientBackward();
    if (base == "tiled_cross_entropy") return tiledLoss(false) + kProductWorkspace;
    if (base == "tiled_cross_entropy_backward") return tiledLoss(true) + kProductWorkspace;  // at most: its products may be at another time
    if (base == "mm" || base == "addmm" || base == "bmm" || base == "baddbmm") return product();
    if (base == "native_layer_norm") return copyOf("input");
    if (base == "native_layer_norm_backward") return layerNormBackward();
    if (base == "_softmax" || base == "_log_softmax") return copyOf("self");
    if (base == "_softmax_backward_data") return bytesOf("grad_output") + copyOf("grad_output") + copyOf("output");  // gradient times result
    if (base == "_log_softmax_backward_data") return copyOf("grad_output") + copyOf("output");
    if (base == "_safe_softmax") return safeSoftmax();
    if (base == "logsumexp") return logSumExp();
    if (base == "embedding") return copyOf("indices");
    if (base == "embedding_dense_backward") return embeddingBackward();
    if (base == "index") return index();
    if (base == "index_put") return indexPut();
    if (base == "where") return where();
    if (base == "convolution") return std::max(bytesOf("weight"), outputBytes());
    if (base == "convolution_backward") return convolutionBackward();
    if (base == "sum" || base == "mean" || base == "prod" || base == "amax" || base == "amin") return reduction(base);
    if (base == "cumsum") return converted("self");
    return 0;  // element-wise kernels read other types as they are: no copy, unlike a CPU's
  }

 private:
  struct Heads {  // of attention
    int64_t batch = 0, queries = 0, keys = 0, heads = 0, kv_heads = 0, size = 0, value_size = 0;
    DType type = DType::kUnknown;
    explicit operator bool() const { return batch * queries * keys * heads * size > 0; }
    int64_t rows() const { return batch * heads * queries; }
  };
  Heads attention() const {
    const Operand q = operand("query"), k = operand("key"), v = operand("value");
    if (!q || !k || !v || q.value->local.size() != 4 || k.value->local.size() != 4 || v.value->local.size() != 4) return {};
    const Dims &ql = q.value->local, &kl = k.value->local;
    return {ql[0], ql[2], kl[2], ql[1], kl[1], ql[3], v.value->local[3], q.value->dtype};
  }

  int64_t flashForward() const {
    const Heads a = attention();
    if (!a) return 0;
    const int64_t block = a.size <= 64 ? 256 : a.size <= 128 ? 128 : 64;
    int64_t splits = 1;
    for (const int64_t multiprocessors : {kMultiprocessorsA100, kMultiprocessors})
      splits = std::max(splits, keySplits(a.batch * a.heads * ceilDiv(a.queries, 64), ceilDiv(a.keys, block), multiprocessors));
    return splits == 1 ? 0 : splits * a.rows() * (1 + roundedHead(a.size)) * 4;  // parts of results and of their sums
  }

  int64_t flashBackward() const {
    const Heads a = attention();
    if (!a) return 0;
    const int64_t rounded = roundUp(a.queries, 128) * a.batch * a.heads;
    int64_t total = copyOfHeadsInside("grad_out") + copyOfHeadsInside("out");
    total += rounded * 4 + rounded * roundedHead(a.size) * 4;  // row sums; the gradient of the queries in float32
    // Gradients of keys and values for each head of the queries, added up at the end.
    if (a.heads != a.kv_heads) total += 2 * a.batch * a.keys * a.heads * a.size * ir::sizeOf(a.type);
    return total;
  }

  // --- the memory-efficient kernels: transformers/cuda/mem_eff_attention/kernel_forward.h, kernel_backward.h, attention_backward.cu ----

  int64_t efficientForward() const {
    const Heads a = attention();
    // Head sizes beyond 128 do not stay in registers: results are added up in memory, in float32.
    return a && a.value_size > 128 && reduced(a.type) ? a.rows() * a.value_size * 4 : 0;
  }

  int64_t efficientBackward() const {
    const Heads a = attention();
    if (!a) return 0;
    // Blocks of queries by keys, as A100 and H100 have shared memory for. Gradients of keys and values stay in registers up to heads of 128;
    // beyond, 16-bit ones are added up in memory; float32 ones in the results themselves.
    const int64_t size = std::max(a.size, a.value_size);
    const int64_t queries = size <= 64 ? 64 : 128, keys = size > 64 && size <= 128 && reduced(a.type) ? 128 : 64;
    int64_t floats = ceilDiv(a.queries, queries) * ceilDiv(a.size, keys) * (4 + queries * keys);  // the queries' gradient, with locks
    if (size > 128 && reduced(a.type)) {
      const int64_t splits = std::max<int64_t>(1, std::min(ceilDiv(a.keys, keys), 200 / (a.batch * a.heads)));
      floats += splits * keys * (roundUp(a.size, queries) + roundUp(a.value_size, queries));
    }
    const int64_t sums = a.rows() * 4, copy = copyOfHeadsInside("grad_out_");
    const int64_t workspace = a.batch * a.heads * roundUp(floats, 4) * 4;
    if (reduced(a.type)) return copy + sums + workspace;
    // The row sums are no kernel of their own here: a product of two tensors, added up, laid out by heads.
    const int64_t turned = a.heads > 1 && a.queries > 1 ? sums : 0;
    return copy + std::max(a.rows() * a.value_size * 4 + sums + turned, sums + workspace);
  }

  // --- products: Blas.cpp, cuda/Blas.cpp -----------------------------------------------------------------------------

  int64_t product() const {
    const auto [a, b] = productOperands();
    if (!a || !b) return 0;
    return kProductWorkspace + (isMatrix(a) ? 0 : a.bytes()) + (isMatrix(b) ? 0 : b.bytes());  // whole batches, where there are several
  }

  // --- cuda/layer_norm_kernel.cu -------------------------------------------------------------------------------------

  int64_t layerNormBackward() const {
    const Operand input = operand("input"), weight = operand("weight");
    int64_t total = copyOf("grad_out") + copyOf("input");
    if (!input || !weight || weight.elements() == 0) return total;
    const int64_t width = weight.elements(), rows = input.elements() / width, blocks = ceilDiv(width, 32);
    // Many short rows: gradients of weight and bias in parts of 32 rows, added up at the end.
    if (rows <= 65536 || width / 32 >= kMultiprocessors / 2) return total;
    const int64_t parts = std::min(32768 / blocks, ceilDiv(rows, 32));
    const int64_t one = parts * width * ir::sizeOf(weight.value->dtype);
    for (const std::size_t gradient : {1U, 2U})
      if (output(gradient)) total += one;
    Walk over, kept;
    over.add(parts, width);
    kept.add(width, 1);
    return total + partsOfReduction(over, kept, 4) + width * ir::sizeOf(weight.value->dtype);  // the sum, beside what it replaces
  }

  // --- cuda/Embedding.cu, cuda/EmbeddingBackwardKernel.cu ------------------------------------------------------------

  int64_t embeddingBackward() const {
    const Operand indices = operand("indices"), grad = operand("grad_output");
    if (!indices || !grad || !output() || output()->local.size() != 2) return 0;
    const int64_t rows = indices.elements(), words = output()->local[0], width = output()->local[1];
    const bool counted = ir::boolArg(node_, "scale_grad_by_freq", false);
    const int64_t copies = copyOf("grad_output");
    if (rows <= 3072 && !counted) return copies + copyOf("indices");
    const int64_t index = ir::sizeOf(indices.value->dtype);
    const int64_t sorted = (counted ? 3 : 2) * rows * index;
    const int64_t sorting = 3 * rows * index + kSortsOwn;  // places to begin with, and both once more for the sort
    // Runs of one word are added up in parts of ten rows, in float32; as many parts as there may be.
    const int64_t runs = std::min(rows, words), parts = rows / 10 + runs;
    const int64_t summing = (rows + 2 * runs + parts) * index + parts * width * accumulated(grad.value->dtype) + 2 * 8;  // and how many there are
    return copies + sorted + std::max(sorting, summing);
  }

  // --- cuda/Indexing.cu, TensorAdvancedIndexing.cpp ------------------------------------------------------------------

  std::vector<Operand> indices() const {
    std::vector<Operand> out;
    if (const ir::Attribute* given = node_.find("indices"))
      if (const auto* list = std::get_if<ir::UseList>(given))
        for (const ir::Use& use : *list)
          if (use.value != ir::kNone) out.push_back({use.value, &graph_.value(use.value)});
    return out;
  }

  static Dims broadcast(const std::vector<Operand>& all) {
    Dims shape;
    for (const Operand& o : all) {
      const Dims& local = o.value->local;
      if (local.size() > shape.size()) shape.insert(shape.begin(), local.size() - shape.size(), 1);
      for (std::size_t i = 0; i < local.size(); ++i)
        if (std::int64_t& size = shape[shape.size() - 1 - i]; size == 1) size = local[local.size() - 1 - i];
    }
    return shape;
  }

  /// Several index tensors that do not lie alike once they are spread over each other are laid out row by row.
  int64_t index() const {
    const std::vector<Operand> all = indices();
    const Dims shape = broadcast(all);
    std::vector<Dims> spread;
    for (const Operand& o : all) {
      const Dims strides = stridesOf(o);
      Dims s(shape.size(), 0);
      const std::size_t added = shape.size() - strides.size();
      for (std::size_t i = 0; i < strides.size(); ++i) s[added + i] = o.value->local[i] == 1 ? 0 : strides[i];
      spread.push_back(std::move(s));
    }
    if (std::adjacent_find(spread.begin(), spread.end(), std::not_equal_to<>()) == spread.end()) return 0;
    int64_t total = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!ir::isContiguous(shape, spread[i])) total += ir::numel(shape) * ir::sizeOf(all[i].value->dtype);
    return total;
  }

  /// Adding up sorts the places first: places, sorted ones, where they came from, and both once more for the sort.
  int64_t indexPut() const {
    const std::vector<Operand> all = indices();
    if (all.empty() || !ir::boolArg(node_, "accumulate", false)) return 0;
    return ir::numel(broadcast(all)) * 8 * 6 + kSortsOwn + copyOf("values");
  }

  // --- the rest ------------------------------------------------------------------------------------------------------

  /// Bytes of an operand in the type of the result, where it has another.
  int64_t converted(Symbol name) const {
    const Operand o = operand(name);
    return o && output() && o.value->dtype != output()->dtype ? o.elements() * ir::sizeOf(output()->dtype) : 0;
  }

  int64_t where() const { return converted("self") + converted("other"); }

  int64_t reduction(std::string_view base) const {
    const Operand self = operand("self");
    if (!self || !output()) return 0;
    const DType out = output()->dtype;
    // 16-bit types are read as they are, into sums of float32; other types are converted first.
    const int64_t copy = reduced(self.value->dtype) && out == DType::kF32 ? 0 : converted("self");
    const Dims& sizes = self.value->local;
    const Dims strides = copy > 0 ? ir::contiguousStrides(sizes) : stridesOf(self);
    std::vector<bool> gone(sizes.size(), false);
    const auto dims = ir::intListArg(node_, "dim");
    if (!dims || dims->empty()) gone.assign(sizes.size(), true);
    else
      for (const int64_t d : *dims)
        if (const int64_t at = d < 0 ? d + static_cast<int64_t>(sizes.size()) : d; at >= 0 && at < static_cast<int64_t>(sizes.size())) gone[static_cast<std::size_t>(at)] = true;
    Walk over, kept;
    for (std::size_t i = 0; i < sizes.size(); ++i) (gone[i] ? over : kept).add(sizes[i], strides[i]);
    over.join(), kept.join();
    const int64_t wide = base == "amax" || base == "amin" ? ir::sizeOf(out) : std::max<int64_t>(4, ir::sizeOf(out));
    int64_t total = copy + partsOfReduction(over, kept, wide);
    // Beyond what 32 bits address it goes piece by piece; 16-bit results are added up beside.
    if (reduced(out) && self.bytes() > int64_t{1} << 31) total += kept.elements() * 4;
    return total;
  }
};

}  // namespace

int64_t cudaWorkspaceBytes(const ir::Graph& graph, const ir::Node& node) { return CudaWorkspace(graph, node).bytes(); }

}  // namespace spscope::exec
