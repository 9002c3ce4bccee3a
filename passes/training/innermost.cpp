// SPDX-License-Identifier: Apache-2.0
#include "passes/training/innermost.h"

#include <unordered_set>

namespace spscope::passes {
namespace {

using ir::Node;
using ir::Value;
using ir::ValueId;

const std::unordered_set<std::string_view> kReshapes = {"view", "reshape", "_unsafe_view", "unflatten", "flatten", "squeeze"};
/// Results that keep the operand's strides (TensorIterator keeps a permuted layout).
const std::unordered_set<std::string_view> kKeeps = {
    "add", "sub", "mul", "div", "neg", "to", "_to_copy", "clone", "alias", "detach", "dropout", "rsub", "silu", "gelu",
    "relu", "tanh", "sigmoid", "pow", "type_as", "vary"};

std::size_t wrapped(std::int64_t dim, std::size_t rank) {
  return static_cast<std::size_t>(dim < 0 ? dim + static_cast<std::int64_t>(rank) : dim);
}

/// The operand whose strides the result keeps: the first of the result's shape.
ValueId layoutOperand(const ir::Graph& g, const Node& n, const Value& out) {
  ValueId found = ir::kNone;
  ir::forEachUse(n, [&](const ir::Use& use) {
    if (found == ir::kNone && g.value(use.value).local == out.local) found = use.value;
  });
  return found;
}

}  // namespace

bool lastDimIsInnermost(const ir::Graph& g, ValueId id) {
  std::size_t d = g.value(id).local.size() - 1;  // the dimension that is followed
  for (int steps = 0; steps < 64; ++steps) {
    const Value& v = g.value(id);
    const std::size_t rank = v.local.size();
    const bool last = d + 1 == rank;
    if (v.local.empty() || v.local[d] == 1) return true;
    if (v.producer == ir::kNone) {
      for (const ir::Input& in : g.inputs)
        if (in.value == id && in.storage && d < in.storage->strides.size()) return in.storage->strides[d] == 1;
      return last;
    }
    const Node& n = g.node(v.producer);
    const std::string_view base = ir::baseName(n.op);
    if (kKeeps.count(base)) {
      const ir::Attribute* format = n.find("memory_format");
      const auto* f = format ? std::get_if<ir::MemoryFormat>(format) : nullptr;
      if (f && *f != ir::MemoryFormat::kPreserve) return last;
      id = layoutOperand(g, n, v);
      if (id == ir::kNone) return last;
      continue;
    }
    const ValueId in = ir::useArg(n, "self");
    if (in == ir::kNone) return last;
    const std::size_t in_rank = g.value(in).local.size();
    if (kReshapes.count(base)) {
      if (!last || in_rank == 0) return false;  // where an outer dimension comes from is not looked up
      d = in_rank - 1;
    } else if (base == "transpose") {
      const std::size_t a = wrapped(ir::intArg(n, "dim0", 0), rank), b = wrapped(ir::intArg(n, "dim1", 0), rank);
      d = d == a ? b : d == b ? a : d;
    } else if (base == "t") {
      d = rank - 1 - d;
    } else if (base == "permute") {
      const auto dims = ir::intListArg(n, "dims");
      if (!dims || dims->size() != rank) return false;
      d = wrapped((*dims)[d], rank);
    } else if (base == "unsqueeze") {
      const std::size_t at = wrapped(ir::intArg(n, "dim", 0), rank);
      d = d > at ? d - 1 : d;
    } else if (base == "expand") {
      if (d < rank - in_rank || g.value(in).local[d - (rank - in_rank)] != v.local[d]) return false;
      d -= rank - in_rank;
    } else if (base == "slice") {
      if (wrapped(ir::intArg(n, "dim", 0), rank) == d && ir::intArg(n, "step", 1) != 1) return false;
    } else if (base == "select" || base == "unbind") {
      d = d >= wrapped(ir::intArg(n, "dim", 0), in_rank) ? d + 1 : d;
    } else if (base != "split" && base != "split_with_sizes" && base != "chunk" && base != "narrow") {
      return last;  // a result with memory of its own, dense
    }
    id = in;
  }
  return false;
}

}  // namespace spscope::passes
