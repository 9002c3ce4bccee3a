// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/trouble_cause.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/strings.h"
#include "core/ir/convert_dtype.h"
#include "core/session/virtual_programs.h"
#include "core/torch/tensor_store.h"
#include "core/torch/value_precision.h"
#include "core/torch/value_window.h"

namespace spscope::session::debug {
namespace {

std::string text(double x) { return strf("%.6g", x); }

/// The element of an operand, or of a number that stands in its place.
std::optional<double> elementOf(const ir::Node& node, const std::vector<Operand>& operands, const char* argument, const ir::Dims& result, const ir::Dims& index) {
  for (const Operand& o : operands)
    if (o.argument == argument && !o.bag.empty()) return exec::broadcastElement(o.bag, result, index);
  const ir::Attribute* attribute = node.find(argument);
  if (attribute == nullptr) return {};
  if (const auto* x = std::get_if<double>(attribute)) return *x;
  if (const auto* x = std::get_if<std::int64_t>(attribute)) return static_cast<double>(*x);
  return {};
}

std::string ofNegative(const std::string& what, double x) { return "the " + what + " of a negative number, " + text(x); }

/// By the rules of arithmetic, from the elements that it was computed from; "": they say nothing.
std::string byRule(std::string_view op, const std::optional<double>& a, const std::optional<double>& b) {
  if (op.ends_with('_')) op.remove_suffix(1);
  if (op == "div" && b && *b == 0.0) return a ? text(*a) + " / 0" : "a division by 0";
  if (op == "reciprocal" && a && *a == 0.0) return "1 / 0";
  if (op == "rsqrt" && a && *a <= 0.0) return *a == 0.0 ? "1 / sqrt(0)" : ofNegative("root", *a);
  if (op == "sqrt" && a && *a < 0.0) return ofNegative("root", *a);
  if (op == "log" || op == "log2" || op == "log10") return !a || *a > 0.0 ? "" : *a == 0.0 ? "the logarithm of 0" : ofNegative("logarithm", *a);
  if (op == "log1p" && a && *a <= -1.0) return *a == -1.0 ? "the logarithm of 1 - 1" : ofNegative("logarithm", 1.0 + *a);
  if ((op == "acos" || op == "asin") && a && std::abs(*a) > 1.0) return "the arc of a " + std::string(op == "acos" ? "cosine" : "sine") + " beyond 1, " + text(*a);
  if (op == "pow" && a && b) {
    if (*a == 0.0 && *b < 0.0) return "0 to the power of " + text(*b);
    if (*a < 0.0 && *b != std::floor(*b)) return "a negative number, " + text(*a) + ", to the power of " + text(*b);
  }
  const bool infinite = (a && std::isinf(*a)) || (b && std::isinf(*b));
  if (infinite && a && b) {
    if (op == "mul") return text(*a) + " * " + text(*b);
    if (op == "sub") return text(*a) + " - " + text(*b);
    if (op == "add") return text(*a) + " + " + text(*b);
    if (op == "div") return text(*a) + " / " + text(*b);
  }
  return {};
}

/// Whether every element of a row of the last dimension is minus infinity, in the row that `index` stands in.
bool onlyMasked(const Operand& o, const ir::Dims& index) {
  const ir::Dims shape = o.bag.entry(0).shape;
  if (shape.empty() || index.size() != shape.size()) return false;
  std::vector<exec::Range> row;
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) row.push_back({index[d], index[d] + 1});
  const auto window = exec::windowOf(o.bag, row, shape.back());
  return window && std::all_of(window->values.begin(), window->values.end(), [](double x) { return x == -INFINITY; });
}

}  // namespace

std::optional<double> inFloat64(const ir::Graph& graph, const ir::Node& node, const std::vector<Operand>& operands, std::size_t output, const ir::Dims& index) {
  if (node.op.str().starts_with("sp.") || ir::isRandom(node.op)) return {};
  auto one = std::make_shared<ir::Graph>();
  std::map<ir::ValueId, ir::ValueId> mine;
  exec::TensorBag inputs;
  for (const Operand& o : operands) {
    if (o.bag.empty()) return {};
    if (mine.contains(o.value)) continue;
    const std::string name = strf("operand_%zu", mine.size());
    const ir::ValueId v = one->addValue(name, o.bag.entry(0).dtype, o.bag.entry(0).shape);
    one->value(v).local = one->value(v).shape;
    mine[o.value] = v;
    ir::Input input;
    input.value = v;
    input.name = name;
    one->inputs.push_back(std::move(input));
    if (!inputs.share(o.bag, o.bag.entry(0).name, name)) return {};
  }
  const ir::NodeId id = one->addNode(node.op, "result");
  one->node(id).args = node.args;
  ir::forEachUse(one->node(id), [&](ir::Use& use) { use.value = mine.at(use.value); });
  for (const ir::ValueId v : node.outputs) {
    if (v == ir::kNone) {
      one->node(id).outputs.push_back(ir::kNone);
      continue;
    }
    const ir::Value& like = graph.value(v);
    const ir::ValueId made = one->addOutput(id, like.dtype, like.local);
    one->value(made).local = like.local;
    one->outputs.push_back({made, ir::OutputKind::kUser, ir::kNone});
  }
  one->order = {id};
  const ir::ValueId wanted = one->node(id).outputs[output];
  ir::ConvertOptions options;
  options.low_precision = true;
  if (!ir::convertFloats(*one, ir::DType::kF64, options)) return {};
  const std::string name = one->value(wanted).name;
  auto ranks = prepareRanks({one}, exec::TensorBag());
  if (!ranks) return {};
  const auto results = ranks->step(exec::inTypeOf(inputs, *one));
  if (!results) return {};
  exec::TensorBag result;
  if (!result.share(results->front().outputs, name)) return {};
  return exec::broadcastElement(result, result.entry(0).shape, index);
}

std::string causeOf(const ir::Graph& graph, const ir::Node& node, const std::vector<Operand>& operands, std::size_t output, const ir::Dims& index, double got,
                    const std::optional<double>& exact) {
  const ir::Value& value = graph.value(node.outputs[output]);
  const std::string_view op = ir::baseName(node.op);
  const std::string in_type(ir::longName(value.dtype));
  const auto range = exec::rangeOf(value.dtype);
  // Arithmetic that has no number for an answer in any type.
  const auto a = elementOf(node, operands, "self", value.local, index), b = elementOf(node, operands, op == "pow" ? "exponent" : "other", value.local, index);
  if (std::string rule = byRule(op, a, b); !rule.empty()) return rule;
  if (op.find("softmax") != std::string_view::npos)
    for (const Operand& o : operands)
      if (o.argument == "self" && !o.bag.empty() && onlyMasked(o, index)) return "the softmax of a row that is masked everywhere, 0 / 0";
  if (exact && std::isfinite(*exact)) {
    if (range && std::abs(*exact) > range->max) return "overflow: " + text(*exact) + " is more than " + in_type + " holds (" + text(range->max) + ")";
    return "overflow on the way: in float64 the same operands give " + text(*exact);
  }
  if (node.op.str().starts_with("sp.") && !std::isnan(got)) return "overflow of a sum over the ranks, each part of which is finite";
  bool infinite = false;
  for (const Operand& o : operands) {
    if (o.bag.empty()) continue;
    if (const auto scan = exec::scanValue(o.bag, 0); scan) infinite = infinite || scan->inf > 0;
  }
  if (infinite) return std::isnan(got) ? "infinities of its operands against each other: inf - inf, inf * 0 or inf / inf" : "an infinity of an operand";
  for (const ir::Argument& argument : node.args)
    if (const auto* x = std::get_if<double>(&argument.value); x != nullptr && !std::isfinite(*x)) return "its argument " + argument.name.str() + " is " + text(*x);
  if (exact) return "it has no number for an answer in float64 either: " + text(*exact);
  return "not known: its operands are finite";
}

}  // namespace spscope::session::debug
