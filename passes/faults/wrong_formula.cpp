// SPDX-License-Identifier: Apache-2.0
#include "passes/faults/wrong_formula.h"

namespace spscope::passes {
namespace {

struct Formula {
  std::string_view op, wrong;
  std::string_view a, b;  ///< the arguments that are kept, as self and other of the wrong op; empty: all stay as they are
};

// What is wrong with each: the sign; mean for sum; the product rule; the derivative's own term forgotten.
constexpr Formula kFormulas[] = {
    {"aten.neg.default", "aten.clone.default", "self", ""},
    {"aten.sub.Tensor", "aten.add.Tensor", "", ""},
    {"aten.add.Tensor", "aten.sub.Tensor", "", ""},
    {"aten.sum.dim_IntList", "aten.mean.dim", "", ""},
    {"aten.silu_backward.default", "aten.mul.Tensor", "grad_output", "self"},
    {"aten.gelu_backward.default", "aten.mul.Tensor", "grad_output", "self"},
    {"aten.tanh_backward.default", "aten.mul.Tensor", "grad_output", "output"},
    {"aten.threshold_backward.default", "aten.mul.Tensor", "grad_output", "self"},
    {"aten._softmax_backward_data.default", "aten.mul.Tensor", "grad_output", "output"},
};

const Formula* formulaOf(const ir::Node& node) {
  for (const Formula& f : kFormulas)
    if (node.op.str() == f.op) return &f;
  return nullptr;
}

}  // namespace

bool hasWrongFormula(const ir::Graph& graph, const ir::Node& node) {
  const Formula* f = formulaOf(node);
  if (f == nullptr || node.outputs.size() != 1 || node.outputs[0] == ir::kNone) return false;
  const ir::Value& out = graph.value(node.outputs[0]);
  if (!ir::isFloating(out.dtype) || ir::numel(out.local) == 0) return false;
  for (const std::string_view name : {f->a, f->b}) {
    if (name.empty()) continue;
    const ir::ValueId v = ir::useArg(node, name);
    if (v == ir::kNone || graph.value(v).dtype != out.dtype || graph.value(v).local != out.local) return false;
  }
  return true;
}

ir::NodeId putWrongFormula(GraphChange& change, ir::NodeId id) {
  ir::Node& n = change.change(id);
  const Formula& f = *formulaOf(n);
  n.op = f.wrong;
  if (f.a.empty()) return id;
  const ir::ValueId a = ir::useArg(n, f.a), b = f.b.empty() ? ir::kNone : ir::useArg(n, f.b);
  n.args.clear();
  n.args.push_back({"self", ir::Use{a}});
  if (b != ir::kNone) n.args.push_back({"other", ir::Use{b}});
  return id;
}

}  // namespace spscope::passes
