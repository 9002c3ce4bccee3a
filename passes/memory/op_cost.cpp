// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/op_cost.h"

#include <algorithm>

#include "passes/pass.h"

namespace spscope::passes {
namespace {

using ir::Dims;

const Dims* shapeArg(const ir::Graph& graph, const ir::Node& node, Symbol name) {
  const ir::ValueId id = ir::useArg(node, name);
  return id == ir::kNone ? nullptr : &graph.value(id).local;
}

std::int64_t lastOf(const Dims* dims) { return dims && !dims->empty() ? dims->back() : 1; }

/// Bytes that an operand makes the kernel read: an expanded view reads its storage, not its shape.
std::int64_t bytesRead(const ir::Graph& graph, const ir::Value& value) {
  const ir::ValueId root = value.storage == ir::kNone ? value.id : value.storage;
  const std::int64_t whole = graph.value(root).storage_bytes;
  return whole > 0 ? std::min(value.localBytes(), whole) : value.localBytes();
}

}  // namespace

DeviceRates nominalRates(std::string_view device) {
  return device == "cuda" ? DeviceRates{400e3, 2000} : DeviceRates{100, 10};
}

DeviceRates ratesOf(const Settings& settings) {
  DeviceRates rates = nominalRates(settings.device);
  if (settings.flops_per_ns > 0) rates.flops_per_ns = settings.flops_per_ns;
  if (settings.bytes_per_ns > 0) rates.bytes_per_ns = settings.bytes_per_ns;
  return rates;
}

bool isMatmul(Symbol op) {
  const std::string_view base = ir::baseName(op);
  return base == "mm" || base == "bmm" || base == "addmm" || base == "baddbmm" || base == "linear" ||
         base == "matmul" || base == "_grouped_mm";
}

bool isConvolution(Symbol op) {
  const std::string_view base = ir::baseName(op);
  return base.find("convolution") != std::string_view::npos || base.rfind("conv", 0) == 0;
}

OpCost costOf(const ir::Graph& graph, const ir::Node& node, const DeviceRates& rates) {
  OpCost cost;
  std::int64_t written = 0;
  std::int64_t results = 0;
  for (const ir::ValueId out : node.outputs) {
    if (out == ir::kNone) continue;
    const ir::Value& value = graph.value(out);
    if (value.storage != ir::kNone && value.storage != out) continue;  // a view: nothing is written
    ++results;
    written += std::max(value.localBytes(), value.storage_bytes);
  }
  if (results == 0) return cost;
  std::int64_t read = 0;
  ir::forEachUse(node, [&](const ir::Use& use) { read += bytesRead(graph, graph.value(use.value)); });
  cost.bytes = read + written;

  static const Symbol kSelf{"self"}, kMat1{"mat1"}, kBatch1{"batch1"}, kInput{"input"}, kQuery{"query"}, kKey{"key"};
  const std::int64_t out_elements = node.outputs[0] == ir::kNone ? 0 : ir::numel(graph.value(node.outputs[0]).local);
  if (isMatmul(node.op)) {
    // Every contraction is "elements of the result, each a dot product over K"; K is the first factor's last dimension.
    cost.matmul = true;
    const std::string_view base = ir::baseName(node.op);
    const Symbol left = base == "addmm" ? kMat1 : base == "baddbmm" ? kBatch1 : base == "linear" ? kInput : kSelf;
    cost.flops = 2 * out_elements * lastOf(shapeArg(graph, node, left));
  } else if (ir::isAttention(node.op)) {
    const Dims* query = shapeArg(graph, node, kQuery);
    const Dims* key = shapeArg(graph, node, kKey);
    if (query && key && key->size() >= 2) cost.flops = 4 * ir::numel(*query) * (*key)[key->size() - 2];
    if (ir::baseName(node.op).find("backward") != std::string_view::npos) cost.flops = cost.flops * 5 / 2;
  }
  // The logits are made in both directions, and the backward has two products of their size besides.
  if (const std::string_view base = ir::baseName(node.op); base.starts_with("tiled_cross_entropy")) {
    const Dims* rows = shapeArg(graph, node, kSelf);
    const Dims* weight = shapeArg(graph, node, Symbol("weight"));
    if (rows && weight && weight->size() == 2) cost.flops = 2 * ir::numel(*rows) * (*weight)[0] * (base == "tiled_cross_entropy" ? 1 : 3);
  }
  const double ns = static_cast<double>(cost.flops) / rates.flops_per_ns + static_cast<double>(cost.bytes) / rates.bytes_per_ns;
  cost.ns = std::max<std::int64_t>(1, static_cast<std::int64_t>(ns));
  return cost;
}

}  // namespace spscope::passes
