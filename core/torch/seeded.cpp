// SPDX-License-Identifier: Apache-2.0
// Numbers out of a counter: element i of a tensor depends on the seed, the tensor's name and i only, so that no order of
// names, no thread count and no version of libtorch changes them.
#include "core/torch/seeded.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <numbers>
#include <set>

#include "core/base/strings.h"
#include "core/ir/sp_ops.h"
#include "core/torch/dtype_convert.h"
#include "core/torch/tensor_bag_impl.h"
#include "core/torch/tensor_store.h"

namespace spscope::exec {
namespace {

std::uint64_t mix(std::uint64_t x) {  // splitmix64's finaliser
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::uint64_t streamOf(std::string_view name, std::uint64_t seed) {
  std::uint64_t h = mix(seed);
  for (const char c : name) h = mix(h ^ static_cast<unsigned char>(c));
  return h;
}

/// In (0, 1].
double unit(std::uint64_t bits) { return static_cast<double>((bits >> 11) + 1) * 0x1.0p-53; }

at::Tensor normal(const ir::Dims& shape, ir::DType dtype, double deviation, std::uint64_t stream) {
  const at::Tensor result = at::empty(shape, at::TensorOptions().dtype(toScalarType(dtype)));
  const at::Tensor flat = result.view({-1});
  constexpr std::int64_t kBlock = 1 << 16;  // doubles at a time: large tensors of small types stay small
  std::vector<double> block;
  for (std::int64_t first = 0; first < flat.numel(); first += kBlock) {
    const std::int64_t count = std::min(kBlock, flat.numel() - first);
    block.resize(static_cast<std::size_t>(count + 1));
    for (std::int64_t i = 0; i < count; i += 2) {  // Box-Muller gives two at a time; kBlock is even
      const auto at = static_cast<std::uint64_t>(first + i);
      const double radius = deviation * std::sqrt(-2.0 * std::log(unit(mix(stream + at))));
      const double angle = 2.0 * std::numbers::pi * unit(mix(stream + at + 1));
      block[static_cast<std::size_t>(i)] = radius * std::cos(angle);
      block[static_cast<std::size_t>(i + 1)] = radius * std::sin(angle);
    }
    at::Tensor doubles = at::empty({count}, at::TensorOptions().dtype(at::kDouble));
    std::copy_n(block.data(), count, doubles.mutable_data_ptr<double>());
    flat.narrow(0, first, count).copy_(doubles);
  }
  return result;
}

at::Tensor integers(const ir::Dims& shape, ir::DType dtype, std::int64_t below, std::uint64_t stream) {
  at::Tensor longs = at::empty(shape, at::TensorOptions().dtype(at::kLong));
  std::int64_t* const out = longs.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < longs.numel(); ++i)
    out[i] = static_cast<std::int64_t>(mix(stream + static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(std::max<std::int64_t>(1, below)));
  return longs.to(toScalarType(dtype));
}

at::Tensor positions(const ir::Dims& shape, ir::DType dtype) {
  const std::int64_t length = shape.empty() ? 1 : shape.back();
  return at::arange(length, at::TensorOptions().dtype(at::kLong)).to(toScalarType(dtype)).expand(shape).contiguous();
}

bool endsWith(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && std::string_view(text).substr(text.size() - end.size()) == end;
}
bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// Ops whose result has the same elements as its first operand (some may be missing, doubled or padded).
bool passesElements(std::string_view base) {
  static const std::set<std::string_view> names = {
      "view",  "reshape", "_unsafe_view", "unsqueeze", "squeeze",   "alias",  "to",     "_to_copy", "clone",
      "contiguous", "expand", "transpose", "permute",  "slice",     "select", "split",  "split_with_sizes", "chunk",
      "pad",   "constant_pad_nd", "flatten", "unflatten", "detach", "vary",   "type_as", "all_gather", "all_to_all", "redistribute"};
  return names.contains(base);
}

}  // namespace

std::optional<IndexLimit> indexLimit(const ir::Graph& graph, ir::ValueId input) {
  const auto users = ir::usersOf(graph);
  std::optional<IndexLimit> best;
  const auto offer = [&](std::int64_t limit, std::optional<std::int64_t> ignored, const ir::Node& node) {
    if (!best || limit < best->limit) best = IndexLimit{limit, ignored, "%" + node.name};
  };
  std::deque<ir::ValueId> todo = {input};
  std::set<ir::ValueId> seen = {input};
  while (!todo.empty()) {
    const ir::ValueId v = todo.front();
    todo.pop_front();
    for (const ir::NodeId n : users[static_cast<std::size_t>(v)]) {
      const ir::Node& node = graph.node(n);
      const std::string_view base = ir::baseName(node.op);
      if (base == "embedding" && ir::useArg(node, "indices") == v) {
        const ir::Value& table = graph.value(ir::useArg(node, "weight"));
        offer(table.shape.empty() ? 0 : table.shape[0], std::nullopt, node);
      } else if ((base == "cross_entropy_loss" || base == "nll_loss_forward" || base == "nll_loss" ||
                  base == "nll_loss_nd" || base == "nll_loss2d_forward") &&
                 ir::useArg(node, "target") == v) {
        const ir::Value& scores = graph.value(ir::useArg(node, "self"));
        if (scores.shape.empty()) continue;
        offer(scores.shape[scores.shape.size() == 1 ? 0 : 1], ir::intArg(node, "ignore_index", -100), node);
      } else if (passesElements(base) && ir::useArg(node, "self") == v) {
        for (const ir::ValueId out : node.outputs)
          if (out != ir::kNone && seen.insert(out).second) todo.push_back(out);
      }
    }
  }
  return best;
}

Result<at::Tensor> seedTensor(const ir::Graph& graph, const ir::Input& input, std::uint64_t seed) {
  const c10::InferenceMode off(false);
  const ir::Value& value = graph.value(input.value);
  const auto options = at::TensorOptions().dtype(toScalarType(value.dtype));
  const std::string& name = input.name;
  if (input.kind == ir::InputKind::kParameter) {
    if (endsWith(name, "bias")) return at::zeros(value.shape, options);
    if (value.shape.size() <= 1 && endsWith(name, "weight")) return at::ones(value.shape, options);
    return normal(value.shape, value.dtype, 0.02, streamOf(name, seed));
  }
  if (endsWith(name, "inv_freq") && value.shape.size() == 1 && ir::isFloating(value.dtype)) {
    at::Tensor doubles = at::empty(value.shape, at::TensorOptions().dtype(at::kDouble));
    const double d = 2.0 * static_cast<double>(value.shape[0]);
    for (std::int64_t i = 0; i < value.shape[0]; ++i)
      doubles.mutable_data_ptr<double>()[i] = std::pow(10000.0, -2.0 * static_cast<double>(i) / d);
    return doubles.to(options);
  }
  if (endsWith(name, "position_ids")) return positions(value.shape, value.dtype);
  if (endsWith(name, "token_type_ids")) return at::zeros(value.shape, options);
  if (endsWith(name, ".embed_scale") && ir::numel(value.shape) == 1) {  // scaled embeddings: the root of the table's width
    const std::string table = name.substr(0, name.size() - std::string_view("embed_scale").size()) + "weight";
    for (const ir::Input& other : graph.inputs)
      if (other.name == table || std::find(other.aliases.begin(), other.aliases.end(), table) != other.aliases.end())
        return at::full(value.shape, std::sqrt(static_cast<double>(graph.value(other.value).shape.back())), options);
  }
  return makeError("weightless-buffer", "the file holds no values for the buffer " + name + ", and its name does not say what it should hold");
}

Result<TensorBag> seedState(const ir::Graph& graph, std::uint64_t seed) {
  DiagnosticSink none;
  return loadState(graph, nullptr, seed, none);
}

TensorBag seedInputs(const ir::Graph& graph, std::uint64_t seed) {
  const c10::InferenceMode off(false);
  TensorBag bag;
  std::int64_t labels = 1;  // elements of the largest integer input, for counts of items
  for (const ir::Input& input : graph.inputs)
    if (input.kind == ir::InputKind::kUser && !ir::isFloating(graph.value(input.value).dtype))
      labels = std::max(labels, ir::numel(graph.value(input.value).shape));
  for (const ir::Input& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser) continue;
    const ir::Value& value = graph.value(input.value);
    const auto options = at::TensorOptions().dtype(toScalarType(value.dtype));
    const std::uint64_t stream = streamOf(input.name, seed ^ 0x1f2e3d4c5b6a7988ULL);
    at::Tensor tensor;
    if (has(input.name, "num_items")) {
      tensor = at::full(value.shape, labels, options);
    } else if (has(input.name, "position")) {
      tensor = positions(value.shape, value.dtype);
    } else if (has(input.name, "mask") || value.dtype == ir::DType::kBool) {
      // A float mask of more than two dimensions is added to the scores; all others say what counts.
      const bool added = ir::isFloating(value.dtype) && value.shape.size() > 2;
      tensor = added ? at::zeros(value.shape, options) : at::ones(value.shape, options);
    } else if (ir::isFloating(value.dtype)) {
      tensor = normal(value.shape, value.dtype, 1.0, stream);
    } else if (const auto limit = indexLimit(graph, input.value)) {
      tensor = integers(value.shape, value.dtype, limit->limit, stream);
    } else {
      tensor = at::ones(value.shape, options);  // an integer that indexes nothing is a count
    }
    bag.impl().append(input.name, std::move(tensor));
  }
  return bag;
}

}  // namespace spscope::exec
