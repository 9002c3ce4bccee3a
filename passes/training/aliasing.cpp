// SPDX-License-Identifier: Apache-2.0
#include "passes/training/aliasing.h"

#include <algorithm>
#include <unordered_set>

#include "core/ir/op_traits.h"

namespace spscope::passes {
namespace {

using ir::Argument;
using ir::Dims;
using ir::Node;
using ir::Use;
using ir::Value;
using ir::ValueId;

bool among(std::string_view base, const std::unordered_set<std::string_view>& names) { return names.count(base) != 0; }

const std::unordered_set<std::string_view> kAlwaysViews = {
    "view", "unflatten", "transpose", "t", "permute", "unsqueeze", "squeeze", "expand", "expand_as", "slice", "select",
    "narrow", "split", "split_with_sizes", "chunk", "unbind", "diagonal", "alias", "detach", "lift_fresh", "view_as",
    "as_strided", "unfold", "movedim", "moveaxis", "swapaxes", "swapdims", "real", "imag", "view_as_real",
    "view_as_complex", "numpy_T", "mT", "mH", "adjoint", "tensor_split", "hsplit", "vsplit", "dsplit"};
const std::unordered_set<std::string_view> kFactories = {
    "empty", "zeros", "ones", "full", "arange", "eye", "new_empty", "new_zeros", "new_ones", "new_full", "scalar_tensor"};
/// Contiguous results whatever the operands' strides.
const std::unordered_set<std::string_view> kDense = {"linear", "mm", "bmm", "addmm", "embedding", "index", "gather"};
/// Contiguous results of contiguous operands.
const std::unordered_set<std::string_view> kPointwise = {
    "add", "sub", "mul", "div", "neg", "pow", "exp", "log", "sqrt", "rsqrt", "cos", "sin", "tanh", "sigmoid", "silu",
    "gelu", "relu", "abs", "clamp", "where", "masked_fill", "eq", "ne", "lt", "le", "gt", "ge", "to", "_to_copy", "clone",
    "empty_like", "zeros_like", "ones_like", "full_like", "softmax", "log_softmax", "layer_norm", "dropout", "type_as",
    "topk", "sum", "mean", "cumsum", "cat", "copy", "index_put", "floor_divide", "bitwise_and", "bitwise_not", "logical_not"};

std::int64_t wrapDim(std::int64_t dim, std::size_t rank) { return dim < 0 ? dim + static_cast<std::int64_t>(rank) : dim; }

/// `to`, `type_as`, `dropout` that return their operand itself.
bool returnsOperand(const ir::Graph& g, const Node& n, std::string_view base, ValueId in) {
  if (n.outputs.size() != 1 || n.outputs[0] == ir::kNone) return false;
  const Value& x = g.value(in);
  const Value& y = g.value(n.outputs[0]);
  if (x.dtype != y.dtype || x.shape != y.shape) return false;
  if (base == "to") {
    const ir::Attribute* format = n.find("memory_format");
    const auto* f = format ? std::get_if<ir::MemoryFormat>(format) : nullptr;
    return !ir::boolArg(n, "copy", false) && (!f || *f == ir::MemoryFormat::kPreserve);
  }
  if (base == "type_as") return true;
  if (base == "dropout") return !ir::boolArg(n, "train", true) || ir::doubleArg(n, "p", 0.5) == 0;
  return base == "reshape" || base == "flatten";  // of the same shape
}

std::vector<Argument> argsOnto(const Node& view, ValueId parent) {
  std::vector<Argument> args(view.args.begin(), view.args.end());
  for (Argument& a : args)
    if (std::holds_alternative<Use>(a.value)) {
      a.value = Use{parent};
      break;
    }
  return args;
}

/// A part of the operand along one dimension: what slice, narrow, split, chunk and unbind have in common.
struct Part {
  std::int64_t dim = 0, start = 0, end = 0;
  bool drops_dim = false;  ///< unbind
};
/// Also all other views of several outputs, which cut a dimension into consecutive parts.
std::optional<Part> partOf(const ir::Graph& g, const Node& view, std::string_view base, int index) {
  const Value& in = g.value(firstOperand(view));
  Part p;
  p.dim = wrapDim(ir::intArg(view, "dim", 0), in.shape.size());
  if (base == "narrow") {
    p.start = ir::intArg(view, "start", 0);
    if (p.start < 0) p.start += in.shape[static_cast<std::size_t>(p.dim)];
    p.end = p.start + ir::intArg(view, "length", 0);
    return p;
  }
  if (base == "unbind") {
    p.start = index;
    p.end = index + 1;
    p.drops_dim = true;
    return p;
  }
  if (view.outputs.size() < 2 && base != "split" && base != "split_with_sizes" && base != "chunk") return std::nullopt;
  if (!view.find("dim"))  // hsplit and its kin: the dimension that is cut
    for (ValueId out : view.outputs)
      if (out != ir::kNone)
        for (std::size_t d = 0; d < in.shape.size(); ++d)
          if (g.value(out).shape[d] != in.shape[d]) p.dim = static_cast<std::int64_t>(d);
  for (int i = 0; i <= index; ++i) {
    const ValueId out = view.outputs[static_cast<std::size_t>(i)];
    if (out == ir::kNone) return std::nullopt;
    p.start = p.end;
    p.end += g.value(out).shape[static_cast<std::size_t>(p.dim)];
  }
  return p;
}

ir::Attribute number(std::int64_t n) { return n; }

}  // namespace

ValueId firstOperand(const Node& node) {
  for (const Argument& a : node.args)
    if (const auto* use = std::get_if<Use>(&a.value)) return use->value;
  return ir::kNone;
}

Aliasing::Aliasing(const ir::Graph& graph) : graph_(graph), contiguous_(graph.valueCount(), false) {
  for (const ir::Input& in : graph.inputs) {
    bool dense = true;
    if (in.storage) {
      const Dims& shape = graph.value(in.value).shape;
      std::int64_t stride = 1;
      for (std::size_t i = shape.size(); i-- > 0 && dense;) {
        if (shape[i] != 1 && i < in.storage->strides.size()) dense = in.storage->strides[i] == stride;
        stride *= shape[i];
      }
    }
    contiguous_[static_cast<std::size_t>(in.value)] = dense;
  }
}

Sharing Aliasing::classify(const Node& node) const {
  const std::string_view base = ir::baseName(node.op);
  const ValueId in = firstOperand(node);
  if (in == ir::kNone || node.outputs.empty()) return Sharing::kNone;
  if (among(base, kAlwaysViews)) return Sharing::kView;
  if (returnsOperand(graph_, node, base, in)) return Sharing::kView;
  if (base == "reshape" || base == "flatten" || base == "ravel" || base == "reshape_as" || base == "contiguous")
    return contiguous(in) ? Sharing::kView : Sharing::kMaybe;
  if (base == "to" && graph_.value(in).dtype == graph_.value(node.outputs[0]).dtype && !ir::boolArg(node, "copy", false))
    return Sharing::kMaybe;
  return Sharing::kNone;
}

bool Aliasing::resultsContiguous(const Node& node, Sharing sharing) const {
  const std::string_view base = ir::baseName(node.op);
  if (base == "contiguous" || among(base, kFactories) || among(base, kDense)) return true;
  const ValueId in = firstOperand(node);
  if (sharing == Sharing::kView && in != ir::kNone) {
    if (!contiguous(in)) return false;
    if (base == "slice" || base == "select" || base == "narrow") {
      const Value& x = graph_.value(in);
      if (node.outputs[0] != ir::kNone && graph_.value(node.outputs[0]).shape == x.shape) return true;
      return wrapDim(ir::intArg(node, "dim", 0), x.shape.size()) == 0 && ir::intArg(node, "step", 1) == 1;
    }
    return base == "view" || base == "unflatten" || base == "unsqueeze" || base == "squeeze" || base == "alias" ||
           base == "detach" || base == "lift_fresh" || base == "view_as" || base == "reshape" || base == "flatten" ||
           base == "to" || base == "type_as" || base == "dropout" || base == "contiguous";
  }
  if (sharing != Sharing::kNone || !among(base, kPointwise)) return false;
  bool all = true;
  ir::forEachUse(node, [&](const Use& use) { all = all && contiguous(use.value); });
  return all;
}

Sharing Aliasing::visit(const Node& node) {
  contiguous_.resize(graph_.valueCount(), false);
  const bool in_place = ir::isMutating(node.op);  // the result is the operand
  const Sharing sharing = in_place ? Sharing::kNone : classify(node);
  if (in_place ? contiguous(firstOperand(node)) : resultsContiguous(node, sharing))
    for (ValueId v : node.outputs)
      if (v != ir::kNone) contiguous_[static_cast<std::size_t>(v)] = true;
  return sharing;
}

ValueId rederiveView(const ir::Graph& g, ir::NodeId id, int index, ValueId parent, const EmitFn& emit) {
  const Node& view = g.node(id);
  const Value& out = g.value(view.outputs[static_cast<std::size_t>(index)]);
  const std::string_view base = ir::baseName(view.op);
  if (const auto part = partOf(g, view, base, index)) {
    if (part->drops_dim)
      return emit("aten.select.int", {{"self", Use{parent}}, {"dim", number(part->dim)}, {"index", number(part->start)}},
                  out.dtype, out.shape);
    return emit("aten.slice.Tensor",
                {{"self", Use{parent}}, {"dim", number(part->dim)}, {"start", number(part->start)}, {"end", number(part->end)}},
                out.dtype, out.shape);
  }
  // The newer content may have other strides than the memory that the program wrote into: reshape, which always works.
  if (base == "view" || base == "view_as" || base == "unflatten" || base == "reshape" || base == "flatten" ||
      base == "contiguous" || base == "to" || base == "type_as" || base == "dropout")
    if (out.dtype == g.value(parent).dtype)
      return emit("aten.reshape.default", {{"self", Use{parent}}, {"shape", out.shape}}, out.dtype, out.shape);
  if (base == "expand_as")
    return emit("aten.expand.default", {{"self", Use{parent}}, {"size", out.shape}}, out.dtype, out.shape);
  return emit(view.op, argsOnto(view, parent), out.dtype, out.shape);
}

Result<ValueId> writeBack(const ir::Graph& g, ir::NodeId id, int index, ValueId parent, ValueId written, const EmitFn& emit) {
  const Node& view = g.node(id);
  const std::string_view base = ir::baseName(view.op);
  const Value in = g.value(firstOperand(view));
  const Value out = g.value(view.outputs[static_cast<std::size_t>(index)]);
  const auto scatter = [&](const char* op, std::vector<Argument> more) {
    std::vector<Argument> args = {{"self", Use{parent}}, {"src", Use{written}}};
    for (Argument& a : more) args.push_back(std::move(a));
    return emit(op, std::move(args), in.dtype, in.shape);
  };
  if (const auto part = partOf(g, view, base, index)) {
    if (part->drops_dim)
      return scatter("aten.select_scatter.default", {{"dim", number(part->dim)}, {"index", number(part->start)}});
    if (out.shape == in.shape) return written;
    return scatter("aten.slice_scatter.default",
                   {{"dim", number(part->dim)}, {"start", number(part->start)}, {"end", number(part->end)}});
  }
  if (base == "slice") {
    if (out.shape == in.shape && ir::intArg(view, "step", 1) == 1) return written;
    std::vector<Argument> more;
    for (const Argument& a : view.args)
      if (a.name == Symbol("dim") || a.name == Symbol("start") || a.name == Symbol("end") || a.name == Symbol("step")) more.push_back(a);
    return scatter("aten.slice_scatter.default", std::move(more));
  }
  if (base == "select")
    return scatter("aten.select_scatter.default",
                   {{"dim", number(ir::intArg(view, "dim", 0))}, {"index", number(ir::intArg(view, "index", 0))}});
  if (base == "diagonal")
    return scatter("aten.diagonal_scatter.default",
                   {{"offset", number(ir::intArg(view, "offset", 0))}, {"dim1", number(ir::intArg(view, "dim1", 0))},
                    {"dim2", number(ir::intArg(view, "dim2", 1))}});
  if (base == "transpose" || base == "swapaxes" || base == "swapdims" || base == "t" || base == "numpy_T" || base == "mT")
    if (base != "numpy_T" || in.shape.size() == 2) return emit(view.op, argsOnto(view, written), in.dtype, in.shape);
  if (base == "permute") {
    if (const auto dims = ir::intListArg(view, "dims"); dims && dims->size() == in.shape.size()) {
      Dims inverse(dims->size());
      for (std::size_t i = 0; i < dims->size(); ++i)
        inverse[static_cast<std::size_t>(wrapDim((*dims)[i], dims->size()))] = static_cast<std::int64_t>(i);
      return emit("aten.permute.default", {{"self", Use{written}}, {"dims", std::move(inverse)}}, in.dtype, in.shape);
    }
  }
  if (base == "view_as_real")
    return emit("aten.view_as_complex.default", {{"self", Use{written}}}, in.dtype, in.shape);
  if (base == "view_as_complex") return emit("aten.view_as_real.default", {{"self", Use{written}}}, in.dtype, in.shape);
  const bool reshapes = base == "view" || base == "view_as" || base == "unflatten" || base == "unsqueeze" ||
                        base == "squeeze" || base == "reshape" || base == "flatten" || base == "contiguous" ||
                        base == "alias" || base == "lift_fresh" || base == "to" || base == "type_as" || base == "dropout" ||
                        ((base == "expand" || base == "expand_as") && out.shape == in.shape);
  if (reshapes && in.dtype == out.dtype) {
    if (in.shape == out.shape) return written;
    return emit("aten.reshape.default", {{"self", Use{written}}, {"shape", in.shape}}, in.dtype, in.shape);
  }
  Error error = makeError("mutation-unknown", "a write through " + view.op.str() + " cannot be followed to %" + in.name);
  error.node = "%" + view.name;
  if (view.location) error.source = view.location->source;
  return error;
}

}  // namespace spscope::passes
