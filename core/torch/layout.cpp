// SPDX-License-Identifier: Apache-2.0
#include "core/torch/layout.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_set>

namespace spscope::exec {
namespace {

using ir::Dims;

std::size_t wrapped(std::int64_t dim, std::size_t rank) {
  return static_cast<std::size_t>(dim < 0 ? dim + static_cast<std::int64_t>(rank) : dim);
}

/// Strides of a reshape without a copy; nullopt where it has to copy. Runs of dimensions that lie together in memory are
/// matched against runs of the wanted ones with the same number of elements.
std::optional<Dims> viewStrides(const Dims& sizes, const Dims& strides, const Dims& wanted) {
  if (ir::numel(sizes) == 0 || ir::numel(sizes) == 1) return contiguousStrides(wanted);
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

/// Dense memory whose dimensions are ordered as those of `strides`.
Dims denseLike(const Dims& sizes, const Dims& strides) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  Dims out(sizes.size());
  std::int64_t next = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    out[order[i]] = next;
    next *= std::max<std::int64_t>(sizes[order[i]], 1);
  }
  return out;
}

/// Ops that write their result in the memory order of their operand.
bool keepsOrder(std::string_view base) {
  static const std::unordered_set<std::string_view> ops = {
      "add", "sub", "rsub", "mul", "div", "neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "pow", "sin", "cos", "tanh",
      "sigmoid", "relu", "silu", "gelu", "abs", "clamp", "where", "masked_fill", "eq", "ne", "lt", "le", "gt", "ge",
      "threshold_backward", "silu_backward", "gelu_backward", "tanh_backward", "sigmoid_backward", "maximum", "minimum",
      "logical_not", "logical_and", "logical_or", "empty_like", "ones_like", "zeros_like", "full_like", "erf",
      "native_dropout", "native_dropout_backward", "_to_copy", "clone", "floor_divide", "remainder", "conj_physical"};
  return ops.contains(base);
}

ir::ValueId firstOperand(const ir::Node& node) {
  for (const char* name : {"self", "input", "tensor"})
    if (const ir::ValueId v = ir::useArg(node, name); v != ir::kNone) return v;
  ir::ValueId first = ir::kNone;
  ir::forEachUse(node, [&](const ir::Use& use) {
    if (first == ir::kNone) first = use.value;
  });
  return first;
}

/// The operand of an element-wise op that has the shape of the result; kNone where all are broadcast.
ir::ValueId shapingOperand(const ir::Graph& graph, const ir::Node& node, const Dims& shape) {
  ir::ValueId found = ir::kNone;
  ir::forEachUse(node, [&](const ir::Use& use) {
    if (found == ir::kNone && graph.value(use.value).local == shape) found = use.value;
  });
  return found;
}

Dims strides(const ir::Graph& graph, ir::ValueId id, int depth);

Dims ofNode(const ir::Graph& graph, const ir::Value& value, const ir::Node& node, int depth) {
  const std::string_view base = ir::baseName(node.op);
  const Dims& shape = value.local;
  const ir::ValueId operand = firstOperand(node);
  if (operand == ir::kNone) return contiguousStrides(shape);
  const Dims& from = graph.value(operand).local;
  const auto source = [&] { return strides(graph, operand, depth + 1); };
  if (base == "t" && from.size() == 2) {
    Dims s = source();
    std::reverse(s.begin(), s.end());
    return s;
  }
  if (base == "transpose" && from.size() >= 2) {
    Dims s = source();
    std::swap(s[wrapped(ir::intArg(node, "dim0", 0), s.size())], s[wrapped(ir::intArg(node, "dim1", 1), s.size())]);
    return s;
  }
  if (base == "permute") {
    const auto dims = ir::intListArg(node, "dims");
    const Dims s = source();
    Dims out;
    if (dims)
      for (const std::int64_t d : *dims) out.push_back(s[wrapped(d, s.size())]);
    return out.size() == shape.size() ? out : contiguousStrides(shape);
  }
  if (base == "expand" && shape.size() >= from.size()) {
    const Dims s = source();
    const std::size_t added = shape.size() - from.size();
    Dims out(shape.size(), 0);
    for (std::size_t i = 0; i < from.size(); ++i) out[added + i] = from[i] == 1 && shape[added + i] != 1 ? 0 : s[i];
    return out;
  }
  if (base == "view" || base == "reshape" || base == "_unsafe_view" || base == "unsqueeze" || base == "squeeze")
    return viewStrides(from, source(), shape).value_or(contiguousStrides(shape));
  if (base == "slice" || base == "split" || base == "split_with_sizes" || base == "chunk" || base == "narrow") {
    Dims s = source();
    if (base == "slice") s[wrapped(ir::intArg(node, "dim", 0), s.size())] *= ir::intArg(node, "step", 1);
    return s;
  }
  if (base == "select" || base == "unbind") {
    Dims s = source();
    s.erase(s.begin() + static_cast<std::ptrdiff_t>(wrapped(ir::intArg(node, "dim", 0), s.size())));
    return s;
  }
  if (base == "alias" || base == "detach" || base == "vary" || base == "lift_fresh") return source();
  if (base == "_scaled_dot_product_flash_attention_for_cpu") {
    const ir::ValueId query = ir::useArg(node, "query");
    if (value.output_index == 0 && query != ir::kNone) return denseLike(shape, strides(graph, query, depth + 1));
    return {shape[1] * shape[2], 1, shape[1]};
  }
  if (base == "_scaled_dot_product_flash_attention_for_cpu_backward")
    return {shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1};
  if (base == "clone" || base == "_to_copy" || base == "empty_like" || base == "ones_like" || base == "zeros_like") {
    const ir::Attribute* format = node.find("memory_format");
    const auto* code = format ? std::get_if<ir::MemoryFormat>(format) : nullptr;
    if (code && *code == ir::MemoryFormat::kContiguous) return contiguousStrides(shape);
  }
  if (keepsOrder(base)) {
    const ir::ValueId like = shapingOperand(graph, node, shape);
    if (like != ir::kNone) {
      const Dims s = strides(graph, like, depth + 1);
      // Operands that repeat memory have no order to keep.
      if (std::find(s.begin(), s.end(), 0) == s.end()) return denseLike(shape, s);
    }
  }
  return contiguousStrides(shape);
}

Dims strides(const ir::Graph& graph, ir::ValueId id, int depth) {
  const ir::Value& value = graph.value(id);
  // Long chains of element-wise ops have forgotten their views by then.
  if (value.producer == ir::kNone || depth > 24 || value.local.size() < 2) {
    if (value.producer == ir::kNone && value.local == value.shape)
      for (const ir::Input& input : graph.inputs)
        if (input.value == id && input.storage && input.storage->strides.size() == value.local.size())
          return input.storage->strides;
    if (value.producer == ir::kNone || depth > 24) return contiguousStrides(value.local);
  }
  return ofNode(graph, value, graph.node(value.producer), depth);
}

}  // namespace

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
  std::int64_t next = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (strides[i] != next) return false;
    next *= sizes[i];
  }
  return true;
}

ir::Dims stridesOf(const ir::Graph& graph, ir::ValueId value) { return strides(graph, value, 0); }

}  // namespace spscope::exec
