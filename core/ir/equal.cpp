// SPDX-License-Identifier: Apache-2.0
#include "core/ir/equal.h"

#include <cstring>
#include <unordered_map>

#include "core/ir/text.h"

namespace spscope::ir {
namespace {

bool sameDouble(double x, double y) {
  if (x != x || y != y) return x != x && y != y;
  return std::memcmp(&x, &y, sizeof x) == 0;  // 0.0 and -0.0 differ
}

/// Collects the first difference.
class Comparison {
 public:
  explicit Comparison(std::string* why) : why_(why) {}
  bool differ(const std::string& what) {
    if (why_) *why_ = what;
    return false;
  }

 private:
  std::string* why_;
};

bool sameValue(const Value& x, const Value& y, const ValueIdentity& identity) {
  return x.name == y.name && x.dtype == y.dtype && x.requires_grad == y.requires_grad && x.producer == y.producer &&
         x.output_index == y.output_index && x.shape == y.shape && x.factors == y.factors && x.local == y.local &&
         samePlacement(x.placement, y.placement) && identity.same(x.storage, y.storage) &&
         x.storage_bytes == y.storage_bytes && x.keep == y.keep;
}

bool sameNode(const Node& x, const Node& y, const ValueIdentity& identity) {
  if (x.id != y.id || x.op != y.op || x.name != y.name || x.args.size() != y.args.size() ||
      x.outputs.size() != y.outputs.size() || x.phase != y.phase || x.forward != y.forward ||
      x.must_save != y.must_save || !(x.provenance == y.provenance) || !sameLocation(x.location, y.location))
    return false;
  for (std::size_t i = 0; i < x.args.size(); ++i)
    if (x.args[i].name != y.args[i].name || !identity.same(x.args[i].value, y.args[i].value)) return false;
  return true;
}

}  // namespace

ValueIdentity::ValueIdentity(const Graph& a, const Graph& b)
    : a_(a), b_(b), input_of_a_(a.valueCount(), kNone), input_of_b_(b.valueCount(), kNone) {
  std::unordered_map<std::string_view, std::int32_t> by_name;
  for (std::size_t i = 0; i < a.inputs.size(); ++i)
    if (const Input& in = a.inputs[i]; in.value != kNone) {
      input_of_a_[static_cast<std::size_t>(in.value)] = static_cast<std::int32_t>(i);
      by_name.emplace(in.name, static_cast<std::int32_t>(i));
    }
  std::int32_t fresh = static_cast<std::int32_t>(a.inputs.size());
  for (const Input& in : b.inputs) {
    if (in.value == kNone) continue;
    const auto it = by_name.find(in.name);
    input_of_b_[static_cast<std::size_t>(in.value)] = it != by_name.end() ? it->second : fresh++;
  }
}

bool ValueIdentity::same(const Attribute& x, const Attribute& y) const {
  if (x.index() != y.index()) return false;
  if (const auto* use = std::get_if<Use>(&x)) return same(use->value, std::get<Use>(y).value);
  if (const auto* list = std::get_if<UseList>(&x)) {
    const UseList& other = std::get<UseList>(y);
    if (list->size() != other.size()) return false;
    for (std::size_t i = 0; i < list->size(); ++i)
      if (!same((*list)[i].value, other[i].value)) return false;
    return true;
  }
  if (const auto* d = std::get_if<double>(&x)) return sameDouble(*d, std::get<double>(y));
  if (const auto* list = std::get_if<std::vector<double>>(&x)) {
    const auto& other = std::get<std::vector<double>>(y);
    if (list->size() != other.size()) return false;
    for (std::size_t i = 0; i < list->size(); ++i)
      if (!sameDouble((*list)[i], other[i])) return false;
    return true;
  }
  return x == y;
}

bool samePlacement(const Placement& a, const Placement& b) {
  if (a.kind != b.kind) return false;
  return !a.isSharded() || (a.dim == b.dim && a.factor == b.factor && a.sizes == b.sizes);
}

bool sameLocation(const LocationRef& a, const LocationRef& b) {
  if (a == b) return true;
  if (!a || !b) return false;
  return a->module_path == b->module_path && a->module_type == b->module_type && a->source == b->source &&
         a->checkpoint == b->checkpoint;
}

bool structurallyEqual(const Graph& a, const Graph& b, std::string* why) {
  Comparison c(why);
  if (a.name != b.name) return c.differ("the graph's name: " + a.name + " against " + b.name);
  if (a.form != b.form) return c.differ("the form");
  if (!(a.mesh == b.mesh)) return c.differ("the mesh");
  if (a.rank != b.rank) return c.differ("the rank");
  if (a.nodeCount() != b.nodeCount()) return c.differ("the number of node ids");
  if (a.inputs.size() != b.inputs.size()) return c.differ("the number of inputs");
  if (a.order.size() != b.order.size()) return c.differ("the number of nodes");
  if (a.outputs.size() != b.outputs.size()) return c.differ("the number of outputs");
  const ValueIdentity identity(a, b);
  const auto valuesDiffer = [&](ValueId x, ValueId y) {
    if (x == kNone || y == kNone) return x != y;
    return !sameValue(a.value(x), b.value(y), identity);
  };
  for (std::size_t i = 0; i < a.inputs.size(); ++i) {
    Input x = a.inputs[i];
    const Input& y = b.inputs[i];
    const ValueId in_a = x.value;
    x.value = y.value;
    if (!(x == y)) return c.differ("input " + a.inputs[i].name);
    if (valuesDiffer(in_a, y.value))
      return c.differ("input " + x.name + ": " + (in_a == kNone ? "_" : typeText(a, a.value(in_a))) + " against " +
                      (y.value == kNone ? "_" : typeText(b, b.value(y.value))));
  }
  for (std::size_t i = 0; i < a.order.size(); ++i) {
    const Node& x = a.node(a.order[i]);
    const Node& y = b.node(b.order[i]);
    bool same = sameNode(x, y, identity);
    for (std::size_t j = 0; same && j < x.outputs.size(); ++j) same = !valuesDiffer(x.outputs[j], y.outputs[j]);
    if (!same) return c.differ("node " + std::to_string(i) + ":\n  " + nodeText(a, x) + "\n  " + nodeText(b, y));
  }
  for (std::size_t i = 0; i < a.outputs.size(); ++i) {
    const Output& x = a.outputs[i];
    const Output& y = b.outputs[i];
    if (x.kind != y.kind || x.input != y.input || !identity.same(x.value, y.value))
      return c.differ("output " + std::to_string(i));
  }
  return true;
}

}  // namespace spscope::ir
