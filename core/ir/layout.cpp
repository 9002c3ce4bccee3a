// SPDX-License-Identifier: Apache-2.0
#include "core/ir/layout.h"

#include <boost/container/small_vector.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "core/ir/rng_ops.h"
#include "core/ir/sp_ops.h"

namespace spscope::ir {
namespace {

using Ops = std::unordered_set<std::string_view>;
template <typename T>
using Operands = boost::container::small_vector<T, 4>;

std::size_t wrapped(std::int64_t dim, std::size_t rank) {
  return static_cast<std::size_t>(dim < 0 ? dim + static_cast<std::int64_t>(rank) : dim);
}

/// Strides of a reshape without a copy; nullopt where it has to copy. Runs of dimensions that lie together in memory are
/// matched against runs of the wanted ones with the same number of elements.
std::optional<Dims> viewStrides(const Dims& sizes, const Dims& strides, const Dims& wanted) {
  if (numel(sizes) == 0 || numel(sizes) == 1) return contiguousStrides(wanted);
  Dims out(wanted.size());
  std::int64_t view = static_cast<std::int64_t>(wanted.size()) - 1;
  std::int64_t run_stride = strides.back();
  std::int64_t run = 1, taken = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    run *= sizes[i];
    if (i != 0 && (sizes[i - 1] == 1 || strides[i - 1] == run * run_stride)) continue;
    while (view >= 0 && (taken < run || wanted[static_cast<std::size_t>(view)] == 1)) {
      out[static_cast<std::size_t>(view)] = taken * run_stride;
      taken *= wanted[static_cast<std::size_t>(view--)];
    }
    if (taken != run) return std::nullopt;
    if (i != 0) {
      run_stride = strides[i - 1];
      run = taken = 1;
    }
  }
  if (view != -1) return std::nullopt;
  return out;
}

/// No gaps and no element twice, in whatever order of dimensions.
bool isDense(const Dims& sizes, const Dims& strides) {
  if (isContiguous(sizes, strides) && numel(sizes) > 0) return true;
  boost::container::small_vector<std::size_t, 8> order;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != 1) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
  std::int64_t next = 1;
  for (const std::size_t i : order) {
    if (strides[i] != next) return false;
    next *= sizes[i];
  }
  return true;
}

/// Where at::TensorIterator puts a result of this shape: `operands` are strides of the operands broadcast to it (0: repeated).
Dims iteratedStrides(const Dims& shape, const Operands<Dims>& operands) {
  const std::size_t rank = shape.size();
  boost::container::small_vector<std::size_t, 8> order(rank);  // innermost first
  for (std::size_t i = 0; i < rank; ++i) order[i] = rank - 1 - i;
  // 1: `a` belongs outside of `b`, -1: it does not, 0: nothing says.
  const auto compare = [&](std::size_t a, std::size_t b) {
    for (const Dims& s : operands) {
      if (s[a] == 0 || s[b] == 0) continue;
      if (s[a] != s[b]) return s[a] < s[b] ? -1 : 1;
      if (shape[a] > shape[b]) return 1;
    }
    return 0;
  };
  for (std::size_t i = 1; i < rank; ++i) {
    std::size_t moving = i;
    for (std::size_t inner = i; inner-- > 0;) {
      const int c = compare(order[inner], order[moving]);
      if (c < 0) break;
      if (c == 0) continue;
      std::swap(order[inner], order[moving]);
      moving = inner;
    }
  }
  Dims out(rank);
  std::int64_t next = 1;
  for (const std::size_t dim : order) {
    out[dim] = next;
    next *= std::max<std::int64_t>(shape[dim], 1);
  }
  return out;
}

/// Element by element, through TensorIterator.
const Ops kIterated = {
    "add", "sub", "rsub", "mul", "div", "neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "pow", "sin", "cos", "tanh",
    "sigmoid", "relu", "silu", "gelu", "abs", "clamp", "where", "eq", "ne", "lt", "le", "gt", "ge", "threshold_backward",
    "silu_backward", "gelu_backward", "tanh_backward", "sigmoid_backward", "maximum", "minimum", "logical_not", "logical_and",
    "logical_or", "erf", "floor_divide", "remainder", "conj_physical", "native_dropout", "native_dropout_backward"};
/// Copies and their like, which take the order of one operand.
const Ops kCopies = {"clone", "_to_copy", "empty_like", "ones_like", "zeros_like", "full_like"};
/// Row by row, whatever the operands' strides are.
const Ops kRowByRow = {
    "mm", "bmm", "addmm", "baddbmm", "embedding", "embedding_dense_backward", "native_layer_norm", "native_layer_norm_backward",
    "_fused_rms_norm", "_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "sum", "mean", "amax",
    "amin", "cumsum", "masked_fill", "gather", "scatter", "slice_backward", "select_backward", "nll_loss_backward", "empty", "zeros",
    "ones", "full", "arange", "scalar_tensor", "new_zeros", "new_ones", "new_full", "new_empty"};

ValueId firstOperand(const Node& node) {
  for (const char* name : {"self", "input", "tensor"})
    if (const ValueId v = useArg(node, name); v != kNone) return v;
  ValueId first = kNone;
  forEachUse(node, [&](const Use& use) {
    if (first == kNone) first = use.value;
  });
  return first;
}

/// What an op's name says, looked up once per op.
struct OpKind {
  std::string_view base;
  bool random = false, own = false, row_by_row = false, copies = false, iterated = false;
};

const OpKind& kindOf(Symbol op) {
  thread_local std::unordered_map<const void*, OpKind> known;
  const auto [entry, fresh] = known.try_emplace(op.key());
  if (fresh) {
    const std::string_view base = baseName(op);
    entry->second = {base, rng::isRng(op), op.str().starts_with("sp."), kRowByRow.contains(base), kCopies.contains(base), kIterated.contains(base)};
  }
  return entry->second;
}

class Reader {
 public:
  /// `all`: most values will be asked for.
  Reader(const Graph& graph, bool all) : graph_(graph), place_(all ? graph.valueCount() : 0, -1) {}

  const MemoryLayout& of(ValueId id, int depth) {
    if (const std::int32_t known = placeOf(id); known >= 0) return known_[static_cast<std::size_t>(known)];
    const Value& value = graph_.value(id);
    MemoryLayout layout = value.producer == kNone ? ofInput(value)
                          : depth > kDepth        ? guess(value.local)
                                                  : ofNode(value, graph_.node(value.producer), depth);
    if (layout.strides.size() != value.local.size()) layout = guess(value.local);
    (place_.empty() ? few_[id] : place_[static_cast<std::size_t>(id)]) = static_cast<std::int32_t>(known_.size());
    known_.push_back(std::move(layout));
    return known_.back();
  }

 private:
  static constexpr int kDepth = 64;  ///< chains of residual sums are as long as the model is deep

  std::int32_t placeOf(ValueId id) const {
    if (!place_.empty()) return place_[static_cast<std::size_t>(id)];
    const auto found = few_.find(id);
    return found == few_.end() ? -1 : found->second;
  }

  static MemoryLayout guess(const Dims& shape) { return {contiguousStrides(shape), false}; }

  MemoryLayout ofInput(const Value& value) const {
    for (const Input& input : graph_.inputs)
      if (input.value == value.id && input.storage && input.storage->strides.size() == value.local.size())
        return {contiguousStrides(value.local), isContiguous(value.local, input.storage->strides)};
    return {contiguousStrides(value.local), true};  // data are loaded row by row, but the file's strides are not
  }

  MemoryLayout ofNode(const Value& value, const Node& node, int depth) {
    const Dims& shape = value.local;
    const OpKind& kind = kindOf(node.op);
    if (kind.random) return {contiguousStrides(shape), true};
    if (kind.own) {
      if (node.op == sp::kVary) return of(useArg(node, "self"), depth + 1);
      return {contiguousStrides(shape), true};
    }
    const std::string_view base = kind.base;
    if (kind.row_by_row) return {contiguousStrides(shape), true};
    const ValueId operand = firstOperand(node);
    if (operand == kNone) return guess(shape);
    if (const auto view = ofView(shape, node, base, operand, depth)) return *view;
    // A new row of elements has no other order.
    const bool row = shape.size() < 2 && value.storage == kNone;
    if (base == "_scaled_dot_product_flash_attention_for_cpu") return ofAttention(value, node, depth);
    if (base == "_scaled_dot_product_attention_for_cpu" && value.output_index != 0) return {{shape[1] * shape[2], 1, shape[1]}, true};
    if (base == "_scaled_dot_product_attention_for_cpu" || base == "_scaled_dot_product_attention_for_cpu_backward")
      return {{shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1}, true};
    if (base == "tiled_cross_entropy" || base == "tiled_cross_entropy_backward") return {contiguousStrides(shape), true};
    if (base == "_scaled_dot_product_flash_attention_for_cpu_backward")
      return {{shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1}, true};
    if (base.starts_with("_scaled_dot_product_flash_attention") || base.starts_with("_scaled_dot_product_efficient_attention"))
      return ofCudaAttention(value, node, base, depth);
    if (kind.copies) {
      const Attribute* format = node.find("memory_format");
      const auto* code = format ? std::get_if<MemoryFormat>(format) : nullptr;
      if (code && *code == MemoryFormat::kContiguous) return {contiguousStrides(shape), true};
      MemoryLayout like = of(operand, depth + 1);
      const bool preserve = code == nullptr || *code == MemoryFormat::kPreserve;
      if (graph_.value(operand).local == shape && preserve && isDense(shape, like.strides)) return like;
      return {iterated(shape, Operands<ValueId>{operand}, depth).strides, row};
    }
    if (kind.iterated) {
      Operands<ValueId> operands;
      forEachUse(node, [&](const Use& use) { operands.push_back(use.value); });
      MemoryLayout out = iterated(shape, operands, depth);
      if (base.starts_with("native_dropout")) out.certain = out.certain && isContiguous(shape, out.strides);
      out.certain = out.certain || row;
      return out;
    }
    return {contiguousStrides(shape), row};
  }

  /// nullopt where the op is no view.
  std::optional<MemoryLayout> ofView(const Dims& shape, const Node& node, std::string_view base, ValueId operand, int depth) {
    const Dims& from = graph_.value(operand).local;
    const auto source = [&] { return of(operand, depth + 1); };
    if (base == "t") {
      MemoryLayout s = source();
      std::reverse(s.strides.begin(), s.strides.end());
      return s;
    }
    if (base == "transpose" && from.size() >= 2) {
      MemoryLayout s = source();
      std::swap(s.strides[wrapped(intArg(node, "dim0", 0), from.size())], s.strides[wrapped(intArg(node, "dim1", 1), from.size())]);
      return s;
    }
    if (base == "permute") {
      const auto dims = intListArg(node, "dims");
      const MemoryLayout s = source();
      MemoryLayout out{{}, s.certain};
      if (dims)
        for (const std::int64_t d : *dims) out.strides.push_back(s.strides[wrapped(d, from.size())]);
      return out;
    }
    if (base == "expand" && shape.size() >= from.size()) {
      const MemoryLayout s = source();
      const std::size_t added = shape.size() - from.size();
      MemoryLayout out{Dims(shape.size(), 0), s.certain};
      for (std::size_t i = 0; i < from.size(); ++i) out.strides[added + i] = from[i] == 1 && shape[added + i] != 1 ? 0 : s.strides[i];
      return out;
    }
    if (base == "view" || base == "reshape" || base == "_unsafe_view" || base == "unsqueeze" || base == "squeeze") {
      const MemoryLayout s = source();
      if (const auto strides = viewStrides(from, s.strides, shape)) return MemoryLayout{*strides, s.certain};
      return MemoryLayout{contiguousStrides(shape), s.certain && base == "reshape"};  // it copies then
    }
    if (base == "slice" || base == "split" || base == "split_with_sizes" || base == "chunk" || base == "narrow") {
      MemoryLayout s = source();
      if (base == "slice") s.strides[wrapped(intArg(node, "dim", 0), from.size())] *= intArg(node, "step", 1);
      return s;
    }
    if (base == "select" || base == "unbind") {
      MemoryLayout s = source();
      s.strides.erase(s.strides.begin() + static_cast<std::ptrdiff_t>(wrapped(intArg(node, "dim", 0), from.size())));
      return s;
    }
    if (base == "alias" || base == "detach" || base == "lift_fresh") return source();
    return std::nullopt;
  }

  MemoryLayout ofAttention(const Value& value, const Node& node, int depth) {
    const Dims& shape = value.local;
    if (value.output_index != 0) return {{shape[1] * shape[2], 1, shape[1]}, true};
    const ValueId query = useArg(node, "query");
    if (query == kNone) return guess(shape);
    const MemoryLayout like = of(query, depth + 1);
    return isDense(shape, like.strides) ? like : iterated(shape, Operands<ValueId>{query}, depth);
  }

  /// Flash: gradients and the result lie as the operands they belong to. Memory-efficient: heads inside of positions. Of the sources
  /// only, no GPU was asked: not certain.
  MemoryLayout ofCudaAttention(const Value& value, const Node& node, std::string_view base, int depth) {
    const Dims& shape = value.local;
    if (shape.size() != 4) return guess(shape);
    if (base.starts_with("_scaled_dot_product_efficient")) return {{shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1}, false};
    static const std::array<Symbol, 3> kOperands = {Symbol("query"), Symbol("key"), Symbol("value")};
    const ValueId like = useArg(node, kOperands[static_cast<std::size_t>(base.ends_with("_backward") ? std::min(value.output_index, 2) : 0)]);
    if (like == kNone || graph_.value(like).local != shape) return guess(shape);
    const MemoryLayout& from = of(like, depth + 1);
    return isDense(shape, from.strides) ? MemoryLayout{from.strides, false} : guess(shape);
  }

  MemoryLayout iterated(const Dims& shape, const Operands<ValueId>& operands, int depth) {
    bool certain = true, dense = !operands.empty();
    Operands<const Dims*> strides;
    const DType first = operands.empty() ? DType{} : graph_.value(operands.front()).dtype;
    for (const ValueId v : operands) {
      const Dims& from = graph_.value(v).local;
      if (from.size() > shape.size()) return guess(shape);
      const MemoryLayout& s = of(v, depth + 1);
      // Of another type: converted to a temporary first, which lies as it does only where it has no gaps.
      const bool whole = isDense(from, s.strides);
      certain = certain && s.certain && (whole || graph_.value(v).dtype == first);
      dense = dense && whole && from == shape && (strides.empty() || s.strides == *strides.front());
      strides.push_back(&s.strides);
    }
    if (strides.empty()) return guess(shape);
    if (dense) return {*strides.front(), certain};  // all lie alike: so does the result
    Operands<Dims> broadcast;
    for (std::size_t o = 0; o < operands.size(); ++o) {
      const Dims& from = graph_.value(operands[o]).local;
      const std::size_t added = shape.size() - from.size();
      Dims& to = broadcast.emplace_back(shape.size(), 0);
      for (std::size_t i = 0; i < from.size(); ++i) to[added + i] = from[i] == 1 && shape[added + i] != 1 ? 0 : (*strides[o])[i];
    }
    return {iteratedStrides(shape, broadcast), certain};
  }

  const Graph& graph_;
  std::vector<std::int32_t> place_;  ///< by value: into known_, -1 where it is not known yet; empty: few_ says it
  std::unordered_map<ValueId, std::int32_t> few_;
  std::deque<MemoryLayout> known_;   ///< never moves: references are handed out
};

}  // namespace

struct LayoutScope::Impl {
  explicit Impl(const Graph& of) : graph(of), reader(of, true) {}
  const Graph& graph;
  Reader reader;
};

namespace {
thread_local LayoutScope::Impl* current = nullptr;
}

LayoutScope::LayoutScope(const Graph& graph) : impl_(std::make_unique<Impl>(graph)), outer_(current) {
  // In the order of the program: what a layout follows from is known by then, however long the chain.
  for (const NodeId id : graph.order)
    for (const ValueId v : graph.node(id).outputs)
      if (v != kNone) impl_->reader.of(v, 0);
  current = impl_.get();
}

LayoutScope::~LayoutScope() { current = outer_; }

Dims contiguousStrides(const Dims& sizes) {
  Dims out(sizes.size());
  std::int64_t next = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    out[i] = next;
    next *= std::max<std::int64_t>(sizes[i], 1);
  }
  return out;
}

bool isContiguous(const Dims& sizes, const Dims& strides) {
  if (numel(sizes) == 0) return true;
  std::int64_t next = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (strides[i] != next) return false;
    next *= sizes[i];
  }
  return true;
}

MemoryLayout layoutOf(const Graph& graph, ValueId value) {
  return current != nullptr && &current->graph == &graph ? current->reader.of(value, 0) : Reader(graph, false).of(value, 0);
}

bool surelyContiguous(const Graph& graph, ValueId value) {
  const MemoryLayout layout = layoutOf(graph, value);
  return layout.certain && isContiguous(graph.value(value).local, layout.strides);
}

}  // namespace spscope::ir
