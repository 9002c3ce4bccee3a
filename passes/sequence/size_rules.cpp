// SPDX-License-Identifier: Apache-2.0
// Sizes through elementwise ops, products, attention, reductions; which rule is whose.
#include "passes/sequence/size_rules.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/ir/op_traits.h"
#include "passes/sequence/rules.h"

namespace spscope::passes {

using ir::kNone;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

// --- helpers --------------------------------------------------------------------------------------------------------

SizeRules::SizeRules(const ir::Graph& graph, SizeSystem& system, Resizable resizable)
    : graph_(graph), system_(system), all_(resizable == Resizable::kAll), dims_(graph.valueCount()), bounds_(graph.valueCount()) {
  for (const ir::Input& input : graph.inputs) {
    const ir::Value& v = graph.value(input.value);
    auto& list = dims(input.value);
    list.resize(v.shape.size());
    for (std::size_t d = 0; d < v.shape.size(); ++d) {
      if (v.shape[d] == 1) continue;
      static constexpr const char* kinds[] = {"parameter", "buffer", "constant", "input"};
      const char* kind = kinds[static_cast<std::size_t>(input.kind)];
      list[d] = {all_ || input.kind == ir::InputKind::kUser
                     ? system_.free(v.shape[d], kNone)
                     : system_.pinned(v.shape[d], strf("%s %s has %lld entries in dim %zu", kind, input.name.c_str(),
                                                       static_cast<long long>(v.shape[d]), d))};
    }
  }
}

AtomList SizeRules::literal(std::int64_t size, NodeId at) {
  return size == 1 ? AtomList{} : AtomList{system_.free(size, at, true)};
}

AtomList SizeRules::fixed(std::int64_t size, const std::string& reason) {
  return size == 1 ? AtomList{} : AtomList{system_.pinned(size, reason)};
}

void SizeRules::keepOperands(const Node& n, std::size_t from, const std::string& why) {
  if (!all_) return;
  const std::vector<ValueId> ops = operands(n);
  for (std::size_t i = from; i < ops.size(); ++i)
    for (const AtomList& list : dims(ops[i])) system_.pin(list, why, n.id);
}

std::vector<ValueId> SizeRules::operands(const Node& n) const {
  std::vector<ValueId> out;
  ir::forEachUse(n, [&](const ir::Use& use) { out.push_back(use.value); });
  return out;
}

void SizeRules::set(const Node& n, std::size_t output, std::vector<AtomList> given) {
  const ValueId out = n.outputs[output];
  if (out == kNone) return;
  const ir::Dims& want = shape(out);
  given.resize(want.size());
  for (std::size_t d = 0; d < want.size(); ++d) {
    if (system_.oldSize(given[d]) == want[d]) continue;
    // A rule that does not fit what the file says: nothing is known of this dim.
    system_.pin(given[d], "the result of " + n.op.str() + " has another size", n.id);
    given[d] = fixed(want[d], "the result of " + n.op.str());
  }
  dims(out) = std::move(given);
}

ir::Dims SizeRules::newShape(ValueId v) const {
  ir::Dims out = graph_.value(v).shape;
  for (std::size_t d = 0; d < out.size(); ++d) out[d] = system_.newSize(dims(v)[d]);
  return out;
}

void SizeRules::broadcast(const Node& n, const std::vector<ValueId>& ops, const ir::Dims& want, std::vector<AtomList>* out) {
  const int nd = static_cast<int>(want.size());
  for (int d = 0; d < nd; ++d) {
    const std::size_t du = static_cast<std::size_t>(d);
    AtomList best;
    for (ValueId v : ops) {
      const int dv = d - (nd - rank(v));
      if (dv < 0 || want[du] == 1 || shape(v)[static_cast<std::size_t>(dv)] != want[du]) continue;
      const AtomList& list = dims(v)[static_cast<std::size_t>(dv)];
      if (!best.empty()) system_.unify(best, list, n.id);
      if (list.size() > best.size()) best = list;
    }
    (*out)[du] = best;
  }
}

// --- elementwise, factories -----------------------------------------------------------------------------------------

void SizeRules::elementwise(const Node& n) {
  const std::vector<ValueId> ops = operands(n);
  if (ops.empty()) return factory(n);
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i] == kNone) continue;
    std::vector<AtomList> out(shape(n.outputs[i]).size());
    broadcast(n, ops, shape(n.outputs[i]), &out);
    set(n, i, std::move(out));
  }
}

void SizeRules::sameAsFirst(const Node& n) {  // the first operand's sizes, whatever the others are
  const ValueId x = operands(n)[0];
  keepOperands(n, 1, n.op.str() + " has further operands");
  for (std::size_t i = 0; i < n.outputs.size(); ++i)
    if (n.outputs[i] != kNone) set(n, i, dims(x));
}

void SizeRules::factory(const Node& n) {
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i] == kNone) continue;
    std::vector<AtomList> out;
    for (std::int64_t size : shape(n.outputs[i])) out.push_back(literal(size, n.id));
    set(n, i, std::move(out));
  }
}

void SizeRules::like(const Node& n) { set(n, 0, dims(ir::useArg(n, "self"))); }

void SizeRules::outer(const Node& n) {
  const std::vector<ValueId> ops = operands(n);
  if (ops.size() != 2 || rank(ops[0]) != 1 || rank(ops[1]) != 1) return unknown(n);
  set(n, 0, {dims(ops[0])[0], dims(ops[1])[0]});
}

// --- products, attention, loss --------------------------------------------------------------------------------------

void SizeRules::product(const Node& n) {
  const std::vector<ValueId> ops = operands(n);
  const ValueId a = ops[0], b = ops[1];
  const int ra = rank(a), rb = rank(b);
  if (ra == 0 || rb == 0) return unknown(n);
  const AtomList& inner_b = dims(b)[static_cast<std::size_t>(rb == 1 ? 0 : rb - 2)];
  system_.unify(dims(a).back(), inner_b, n.id);
  const ir::Dims& want = shape(n.outputs[0]);
  const std::size_t tail = static_cast<std::size_t>(ra >= 2) + static_cast<std::size_t>(rb >= 2);
  std::vector<AtomList> out(want.size());
  const std::size_t batch = want.size() - tail;
  for (std::size_t d = 0; d < batch; ++d)  // the batch dims broadcast
    for (ValueId v : {a, b}) {
      const std::ptrdiff_t dv = static_cast<std::ptrdiff_t>(d) - static_cast<std::ptrdiff_t>(batch) + rank(v) - 2;
      if (dv < 0 || want[d] == 1 || shape(v)[static_cast<std::size_t>(dv)] != want[d]) continue;
      const AtomList& list = dims(v)[static_cast<std::size_t>(dv)];
      if (!out[d].empty()) system_.unify(out[d], list, n.id);
      if (list.size() > out[d].size()) out[d] = list;
    }
  std::size_t k = batch;
  if (ra >= 2) out[k++] = dims(a)[static_cast<std::size_t>(ra) - 2];
  if (rb >= 2) out[k] = dims(b).back();
  set(n, 0, std::move(out));
}

void SizeRules::addmm(const Node& n) {
  const bool batched = ir::baseName(n.op) == "baddbmm";
  const ValueId a = ir::useArg(n, batched ? "batch1" : "mat1"), b = ir::useArg(n, batched ? "batch2" : "mat2");
  const ValueId self = ir::useArg(n, "self");
  if (a == kNone || b == kNone || self == kNone) return unknown(n);
  system_.unify(dims(a).back(), dims(b)[static_cast<std::size_t>(rank(b)) - 2], n.id);
  std::vector<AtomList> out = dims(a);
  out.back() = dims(b).back();
  if (batched) system_.unify(dims(a)[0], dims(b)[0], n.id);
  const int shift = static_cast<int>(out.size()) - rank(self);
  for (int d = 0; d < rank(self); ++d)
    if (shape(self)[static_cast<std::size_t>(d)] != 1)
      system_.unify(out[static_cast<std::size_t>(d + shift)], dims(self)[static_cast<std::size_t>(d)], n.id);
  set(n, 0, std::move(out));
}

void SizeRules::linear(const Node& n) {
  const ValueId x = ir::useArg(n, "input"), w = ir::useArg(n, "weight"), bias = ir::useArg(n, "bias");
  if (x == kNone || w == kNone || rank(w) != 2) return unknown(n);
  system_.unify(dims(x).back(), dims(w)[1], n.id);
  if (bias != kNone) system_.unify(dims(bias)[0], dims(w)[0], n.id);
  std::vector<AtomList> out = dims(x);
  out.back() = dims(w)[0];
  set(n, 0, std::move(out));
}

void SizeRules::groupedProduct(const Node& n) {  // [tokens, K] times [experts, K, N], rows grouped by offsets
  const std::vector<ValueId> ops = operands(n);
  if (ops.size() < 2 || rank(ops[0]) != 2 || rank(ops[1]) != 3) return unknown(n);
  system_.unify(dims(ops[0])[1], dims(ops[1])[1], n.id);
  if (ops.size() > 2 && rank(ops[2]) == 1) system_.unify(dims(ops[2])[0], dims(ops[1])[0], n.id);
  set(n, 0, {dims(ops[0])[0], dims(ops[1])[2]});
}

void SizeRules::attention(const Node& n) {
  const ValueId q = ir::useArg(n, "query"), k = ir::useArg(n, "key"), v = ir::useArg(n, "value");
  const ValueId mask = ir::useArg(n, "attn_mask");
  if (q == kNone || k == kNone || v == kNone || rank(q) < 2 || rank(k) != rank(q) || rank(v) != rank(q)) return unknown(n);
  const std::size_t nd = static_cast<std::size_t>(rank(q));
  system_.unify(dims(q)[nd - 1], dims(k)[nd - 1], n.id);
  system_.unify(dims(k)[nd - 2], dims(v)[nd - 2], n.id);
  std::vector<AtomList> out = dims(q);
  out[nd - 1] = dims(v)[nd - 1];
  for (std::size_t d = 0; d + 2 < nd; ++d)
    for (ValueId other : {k, v}) {
      if (shape(other)[d] == shape(q)[d]) system_.unify(dims(q)[d], dims(other)[d], n.id);
      else if (shape(q)[d] == 1) out[d] = dims(other)[d];
    }
  if (mask != kNone) {  // [.., queries, keys], right-aligned, size 1 broadcasts
    for (int i = 1; i <= rank(mask); ++i) {
      const std::size_t dm = static_cast<std::size_t>(rank(mask) - i), dq = nd - static_cast<std::size_t>(i);
      if (shape(mask)[dm] == 1) continue;
      const AtomList& with = i == 1 ? dims(k)[nd - 2] : dims(q)[dq];
      if (system_.oldSize(with) == shape(mask)[dm]) system_.unify(with, dims(mask)[dm], n.id);
    }
  }
  set(n, 0, std::move(out));
}

void SizeRules::crossEntropy(const Node& n) {
  const ValueId x = ir::useArg(n, "self"), target = ir::useArg(n, "target"), weight = ir::useArg(n, "weight");
  if (x == kNone || target == kNone) return unknown(n);
  const std::size_t classes = rank(x) > 1 ? 1 : 0;
  std::vector<AtomList> rows = dims(x);
  rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(classes));
  if (rank(target) == rank(x)) {
    for (std::size_t d = 0; d < dims(x).size(); ++d) system_.unify(dims(x)[d], dims(target)[d], n.id);
  } else {
    for (std::size_t d = 0; d < rows.size(); ++d) system_.unify(rows[d], dims(target)[d], n.id);
  }
  if (weight != kNone) system_.unify(dims(x)[classes], dims(weight)[0], n.id);
  set(n, 0, ir::intArg(n, "reduction", 1) == 0 ? rows : std::vector<AtomList>{});
  if (n.outputs.size() > 1) set(n, 1, {});  // nll_loss: total weight
}

void SizeRules::layerNorm(const Node& n) {
  const ValueId x = ir::useArg(n, "input");
  if (x == kNone) return unknown(n);
  const auto normalized = ir::intListArg(n, "normalized_shape");
  const std::size_t first = dims(x).size() - (normalized ? normalized->size() : 1);
  for (Symbol name : {Symbol("weight"), Symbol("bias")})
    if (const ValueId w = ir::useArg(n, name); w != kNone)
      for (std::size_t d = 0; d < dims(w).size(); ++d) system_.unify(dims(x)[first + d], dims(w)[d], n.id);
  std::vector<AtomList> statistics = dims(x);
  for (std::size_t d = first; d < statistics.size(); ++d) statistics[d] = {};
  for (std::size_t i = 0; i < n.outputs.size(); ++i) set(n, i, i == 0 ? dims(x) : statistics);
}

void SizeRules::convolution(const Node& n) {
  const ValueId x = ir::useArg(n, "input"), w = ir::useArg(n, "weight"), out = n.outputs[0];
  if (x == kNone || w == kNone || rank(x) != rank(w) || ir::boolArg(n, "transposed", false)) return unknown(n);
  const auto stride = ir::intListArg(n, "stride");
  std::vector<AtomList> result(dims(x).size());
  result[0] = dims(x)[0];
  result[1] = dims(w)[0];
  if (all_) {
    for (std::size_t d = 2; d < dims(w).size(); ++d) system_.pin(dims(w)[d], "the kernel of a convolution", n.id);
    if (ir::intArg(n, "groups", 1) == 1) system_.unify(dims(x)[1], dims(w)[1], n.id);
    else system_.pin(dims(x)[1], "a convolution in groups", n.id), system_.pin(dims(w)[0], "a convolution in groups", n.id);
    if (const ValueId bias = ir::useArg(n, "bias"); bias != kNone) system_.unify(dims(bias)[0], dims(w)[0], n.id);
  }
  for (std::size_t d = 2; d < result.size(); ++d) {
    const std::int64_t step = !stride ? 1 : (*stride)[std::min(d - 2, stride->size() - 1)];
    if (step == 1) {  // padding and kernel take away as many entries, whatever the length
      result[d] = shape(out)[d] == 1 ? AtomList{} : AtomList{system_.free(shape(out)[d], n.id)};
      SizeEquation e;
      e.lhs = result[d];
      e.terms = {dims(x)[d]};
      e.at = n.id;
      system_.add(std::move(e));
    } else {
      const std::string why = strf("a convolution of stride %lld", static_cast<long long>(step));
      system_.pin(dims(x)[d], why, n.id);
      result[d] = fixed(shape(out)[d], why);
    }
  }
  set(n, 0, std::move(result));
}

// --- along a dim ----------------------------------------------------------------------------------------------------

void SizeRules::reduce(const Node& n) {
  const ValueId x = operands(n)[0];
  const auto given = ir::intListArg(n, "dim");
  const bool keep = ir::boolArg(n, "keepdim", false);
  std::vector<bool> reduced(dims(x).size(), !given || given->empty());
  if (given)
    for (std::int64_t d : *given)
      if (rank(x) > 0) reduced[static_cast<std::size_t>(normDim(d, rank(x)))] = true;
  std::vector<AtomList> out;
  for (std::size_t d = 0; d < reduced.size(); ++d) {
    if (!reduced[d]) out.push_back(dims(x)[d]);
    else if (keep) out.push_back({});
  }
  for (std::size_t i = 0; i < n.outputs.size(); ++i)
    if (n.outputs[i] != kNone) set(n, i, out);
}

void SizeRules::alongDim(const Node& n) {  // topk, sort: the dim keeps its size or gets a literal one
  const ValueId x = operands(n)[0];
  const std::size_t d = static_cast<std::size_t>(normDim(ir::intArg(n, "dim", -1), rank(x)));
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i] == kNone) continue;
    std::vector<AtomList> out = dims(x);
    if (ir::baseName(n.op) == "topk" && !out.empty())
      out[d] = fixed(shape(n.outputs[i])[d], strf("topk keeps %lld entries", static_cast<long long>(shape(n.outputs[i])[d])));
    set(n, i, std::move(out));
  }
}

void SizeRules::oneHot(const Node& n) {
  std::vector<AtomList> out = dims(operands(n)[0]);
  out.push_back(fixed(shape(n.outputs[0]).back(), "one_hot has a fixed number of classes"));
  set(n, 0, std::move(out));
}

void SizeRules::histogram(const Node& n) {
  std::vector<AtomList> out;
  for (std::int64_t size : shape(n.outputs[0])) out.push_back(fixed(size, "a histogram has a fixed number of bins"));
  set(n, 0, std::move(out));
}

void SizeRules::unknown(const Node& n) {
  const std::string why = "there is no rule that follows sizes through " + n.op.str();
  for (ValueId v : operands(n))
    for (const AtomList& list : dims(v)) system_.pin(list, why, n.id);
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i] == kNone) continue;
    std::vector<AtomList> out;
    for (std::int64_t size : shape(n.outputs[i])) out.push_back(fixed(size, why));
    set(n, i, std::move(out));
  }
}

// --- driving --------------------------------------------------------------------------------------------------------

const std::unordered_map<std::string_view, SizeRules::Rule>& SizeRules::table() {
  static const std::unordered_map<std::string_view, Rule> rules = [] {
    std::unordered_map<std::string_view, Rule> t;
    const auto add = [&](Rule rule, std::initializer_list<std::string_view> names) {
      for (std::string_view name : names) t[name] = rule;
    };
    add(&SizeRules::elementwise,
        {"add", "sub", "rsub", "mul", "div", "true_divide", "neg", "pow", "rsqrt", "sqrt", "exp", "expm1", "log", "log1p", "log2",
         "cos", "sin", "tan", "tanh", "sigmoid", "silu", "gelu", "relu", "relu6", "elu", "leaky_relu", "softplus", "mish", "hardtanh",
         "hardswish", "hardsigmoid", "erf", "le", "lt", "gt", "ge", "eq", "ne", "__and__", "__or__", "__xor__", "bitwise_and",
         "bitwise_or", "bitwise_not", "bitwise_xor", "logical_not", "logical_and", "logical_or", "logical_xor", "where",
         "masked_fill", "clamp", "clamp_min", "clamp_max", "abs", "sign", "floor", "ceil", "round", "trunc", "floor_divide",
         "remainder", "fmod", "reciprocal", "maximum", "minimum", "square", "addcmul", "addcdiv", "lerp", "isnan", "isinf",
         "nan_to_num", "threshold", "log_sigmoid", "logit", "cosh", "sinh", "atan2", "scalar_tensor", "polar", "complex",
         "real", "imag", "conj", "angle"});
    add(&SizeRules::sameAsFirst,
        {"to", "_to_copy", "alias", "clone", "contiguous", "detach", "float", "double", "half", "bfloat16", "int", "long", "bool",
         "lift_fresh_copy", "lift_fresh", "type_as", "dropout", "native_dropout", "copy", "fill", "isin", "softmax", "_softmax", "log_softmax",
         "_log_softmax", "cumsum", "cumprod", "logcumsumexp", "cummax", "triu", "tril", "flip", "roll", "batch_norm",
         "group_norm", "masked_scatter", "zero", "normalize", "slice_scatter", "select_scatter", "bernoulli"});
    add(&SizeRules::like, {"empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"});
    add(&SizeRules::factory, {"full", "zeros", "ones", "empty", "new_ones", "new_zeros", "new_empty", "new_full", "empty_permuted",
                              "rand", "randn", "arange", "linspace"});
    add(&SizeRules::outer, {"outer", "ger"});
    add(&SizeRules::view, {"view", "reshape", "_unsafe_view", "flatten", "unflatten", "unsqueeze", "squeeze", "view_as",
                           "reshape_as", "view_as_complex", "view_as_real"});
    add(&SizeRules::permute, {"permute", "transpose", "swapaxes", "t", "numpy_T", "mT"});
    add(&SizeRules::expand, {"expand", "expand_as"});
    add(&SizeRules::repeat, {"repeat", "tile"});
    add(&SizeRules::repeatInterleave, {"repeat_interleave"});
    add(&SizeRules::slice, {"slice"});
    add(&SizeRules::select, {"select"});
    add(&SizeRules::split, {"split", "split_with_sizes", "chunk", "unbind"});
    add(&SizeRules::cat, {"cat", "concat"});
    add(&SizeRules::stack, {"stack"});
    add(&SizeRules::pad, {"pad", "constant_pad_nd"});
    add(&SizeRules::difference, {"diff"});
    add(&SizeRules::product, {"matmul", "mm", "bmm", "mv", "dot"});
    add(&SizeRules::addmm, {"addmm", "baddbmm"});
    add(&SizeRules::linear, {"linear"});
    add(&SizeRules::groupedProduct, {"grouped_mm_fallback", "_grouped_mm"});
    add(&SizeRules::attention, {"scaled_dot_product_attention"});
    add(&SizeRules::crossEntropy, {"cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss_forward"});
    add(&SizeRules::layerNorm, {"layer_norm", "native_layer_norm", "rms_norm"});
    add(&SizeRules::convolution, {"conv1d", "conv2d", "convolution"});
    add(&SizeRules::embedding, {"embedding"});
    add(&SizeRules::indexBy, {"index", "index_put", "_unsafe_index"});
    add(&SizeRules::gather, {"gather", "index_select", "take_along_dim"});
    add(&SizeRules::scatter, {"scatter", "scatter_add", "index_add"});
    add(&SizeRules::reduce, {"sum", "mean", "max", "min", "amax", "amin", "argmax", "argmin", "prod", "any", "all", "var", "std",
                             "norm", "linalg_vector_norm", "logsumexp", "var_mean", "count_nonzero"});
    add(&SizeRules::alongDim, {"topk", "sort", "argsort"});
    add(&SizeRules::oneHot, {"one_hot"});
    add(&SizeRules::histogram, {"histc", "bincount"});
    return t;
  }();
  return rules;
}

void SizeRules::run() {
  for (NodeId id : graph_.order) {
    const Node& n = graph_.node(id);
    std::string_view base = ir::baseName(n.op);
    if (ir::isMutating(n.op) && !table().count(base)) base.remove_suffix(1);
    auto rule = table().find(base);
    // max(a, b) and min(a, b) are elementwise.
    if ((base == "max" || base == "min") && ir::useArg(n, "other") != kNone) rule = table().find("maximum");
    if (rule == table().end()) unknown(n);
    else (this->*rule->second)(n);
    bounds(n);
  }
}

bool SizeRules::propagate(bool decide) {
  bool moved = false;
  for (NodeId id : cut_order_) {
    if (system_.conflict()) return false;
    if (applyCut(id, cuts_[id], decide)) {
      if (decide) return true;
      moved = true;
    }
  }
  if (!decide) return moved;
  // A range that covers a whole dim, used to read it: it covers the dim of the new length too.
  for (const TableRead& read : reads_) {
    const LinearSize &low = read.bound.low, &high = read.bound.high;
    if (low.atom != kNone || low.add != 0 || high.atom == kNone || high.sign != 1 || high.add != -1) continue;
    if (read.rows.size() != 1 || read.bound.assumed) continue;
    const Atom rows = read.rows[0], range = high.atom;
    if (system_.oldSize(rows) != system_.oldSize(range) || system_.changes(rows) == system_.changes(range)) continue;
    const Atom still = system_.changes(rows) ? range : rows;
    if (system_.difference(still)) continue;
    system_.unify(rows, range, read.at);
    return true;
  }
  return false;
}

void SizeRules::check(std::int64_t length, DiagnosticSink& diagnostics) {
  for (NodeId id : cut_order_) {
    const SizeCut& cut = cuts_.at(id);
    const auto [start, end] = newBounds(cut);
    const std::int64_t n = system_.newSize(cut.whole);
    const bool clamped = cut.part == kNone && cut.end > cut.n;
    Length which = system_.lengthOf(cut.whole);
    if (cut.part != kNone && which == Length::kNone) which = system_.lengthOf({cut.part});
    if (clamped ? n > cut.end : start < 0 || end > n || end < start || (end == start && cut.end > cut.start)) {
      const std::string& why = system_.reasonOf(cut.whole);
      system_.refuse({id, which, cut.n, end,
                      clamped ? strf("the slice ends at %lld", static_cast<long long>(cut.end))
                              : !why.empty() ? why : strf("the slice takes [%lld, %lld) of %lld", static_cast<long long>(start),
                                                          static_cast<long long>(end), static_cast<long long>(n))});
    }
  }
  for (const auto& [id, pick] : picks_) {
    const std::int64_t n = system_.newSize(pick.whole), old = system_.oldSize(pick.whole), i = newIndex(pick);
    const bool unclear = pick.index >= 0 && i < 0;
    if (unclear || i >= n || i < -n)
      system_.refuse({id, system_.lengthOf(pick.whole), old, n,
                      unclear ? strf("index %lld may be counted from the start or from the end", static_cast<long long>(pick.index))
                              : strf("index %lld is out of range", static_cast<long long>(i))});
  }
  checkReads(length, diagnostics);
}

}  // namespace spscope::passes
