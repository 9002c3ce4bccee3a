// SPDX-License-Identifier: Apache-2.0
// Elementwise and broadcasting ops, casts, dropout, copies.
#include <algorithm>
#include <set>

#include "passes/sequence/rules.h"

namespace spscope::passes {

using ir::Factors;
using ir::kNone;
using ir::NodeId;
using ir::Placement;
using ir::ValueId;

namespace {

bool isOneOf(std::string_view base, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), base) != names.end();
}

/// True where the op is linear in its partial operands as they stand, so that the result is partial too.
bool keepsPartial(const Planner& p, NodeId id, const std::vector<ValueId>& operands) {
  const std::string_view base = ir::baseName(p.node(id).op);
  std::size_t partial = 0, sharded = 0;
  for (ValueId v : operands) {
    partial += p.placement(v).isPartial();
    sharded += p.placement(v).isSharded();
  }
  if (isOneOf(base, {"neg", "alias", "clone", "contiguous", "detach"})) return true;
  if (isOneOf(base, {"to", "_to_copy"})) {
    const ValueId out = p.node(id).outputs[0];  // through a narrowing cast the parts would be rounded one by one
    return ir::sizeOf(p.value(out).dtype) >= ir::sizeOf(p.value(operands[0]).dtype) &&
           ir::isFloating(p.value(out).dtype) == ir::isFloating(p.value(operands[0]).dtype);
  }
  if (sharded > 0) return false;
  if (base == "mul") return partial == 1;
  if (base == "div")
    return partial == 1 && p.placement(operands[0]).isPartial() && !p.node(id).find("rounding_mode");
  if (isOneOf(base, {"add", "sub"})) {
    // P + R and P + number would count the addend once per rank.
    const bool second_is_tensor = ir::useArg(p.node(id), "other") != kNone;
    return second_is_tensor && partial == operands.size();
  }
  return false;
}

NoRule typeAs(Planner& p, NodeId id) {
  // Only the dtype of `other` is read.
  const ValueId self = p.unpartial(ir::useArg(p.node(id), "self"));
  p.replaceOperand(id, ir::useArg(p.node(id), "self"), self);
  p.setOutput(id, 0, p.factors(self), p.placement(self));
  return {};
}

NoRule dropout(Planner& p, NodeId id) {
  const ValueId x = p.operands(id)[0];
  const bool train = ir::boolArg(p.node(id), "train", true);
  if (train && ir::doubleArg(p.node(id), "p", 0.0) > 0.0 && p.placement(x).isPartial()) return "dropout of a partial sum";
  for (std::size_t i = 0; i < p.node(id).outputs.size(); ++i)
    p.setOutput(id, static_cast<int>(i), p.factors(x), p.placement(x));
  return {};
}

NoRule copyInto(Planner& p, NodeId id) {
  // aten.copy(self, src): only the shape and dtype of self matter.
  const ValueId self = ir::useArg(p.node(id), "self"), src = ir::useArg(p.node(id), "src");
  if (p.value(self).shape != p.value(src).shape) return "copy with broadcasting";
  const ValueId moved = p.unpartial(src);
  p.replaceOperand(id, src, moved);
  if (p.placement(self).isPartial()) return "copy into a partial sum";
  if (p.placement(moved).isSharded()) {
    p.replaceOperand(id, self, p.align(self, p.rankOf(moved), Planner::shardOf(p.value(moved))));
  } else if (!p.placement(self).isReplicated()) {
    p.replaceOperand(id, moved, p.align(moved, p.rankOf(self), Planner::shardOf(p.value(self))));
  }
  const ValueId now = ir::useArg(p.node(id), "src");
  p.setOutput(id, 0, p.factors(now), p.placement(now));
  return {};
}

NoRule likeFactory(Planner& p, NodeId id) {
  const ValueId x = ir::useArg(p.node(id), "self");
  p.setOutput(id, 0, p.factors(x), p.placement(x).isPartial() ? Placement::replicated() : p.placement(x));
  return {};
}

/// Random numbers by position: on each rank those of its part.
NoRule drawnLike(Planner& p, NodeId id) {
  if (ir::useArg(p.node(id), "self") != kNone) return likeFactory(p, id);
  p.setReplicated(id);
  return {};
}

NoRule factory(Planner& p, NodeId id) {
  // Global values on every rank, never local ones: this is what keeps offsets right.
  p.setReplicated(id);
  return {};
}

}  // namespace

NoRule elementwise(Planner& p, NodeId id) {
  std::vector<ValueId> ops = p.operands(id);
  if (ops.empty()) {
    p.setReplicated(id);
    return {};
  }
  const ValueId out = p.node(id).outputs[0];
  const ir::Dims shape = p.value(out).shape;
  const int nd = static_cast<int>(shape.size());
  auto has = [&](auto test) { return std::any_of(ops.begin(), ops.end(), test); };

  if (has([&](ValueId v) { return p.placement(v).isPartial(); })) {
    if (keepsPartial(p, id, ops)) {
      for (ValueId v : ops)
        if (p.placement(v).isReplicated()) p.replaceOperand(id, v, p.vary(v));
      p.setOutput(id, 0, broadcastFactors(p, ops, shape), Placement::partial());
      return {};
    }
    // Where another operand is sharded, align() scatters the sum; else it is completed first.
    if (!chooseShard(p, ops, nd)) {
      for (ValueId v : ops) p.replaceOperand(id, v, p.unpartial(v));
      ops = p.operands(id);
    }
  }
  const auto shard = chooseShard(p, ops, nd);
  if (!shard) {
    p.setOutput(id, 0, broadcastFactors(p, ops, shape), Placement::replicated());
    return {};
  }
  for (ValueId v : ops) p.replaceOperand(id, v, p.align(v, nd, *shard));
  p.setOutput(id, 0, broadcastFactors(p, p.operands(id), shape, shard),
              Placement::sharded(shard->dim, shard->factor, shard->sizes));
  return {};
}

bool isElementwise(Symbol op) {
  const auto found = ruleTable().find(ir::baseName(op));
  return found != ruleTable().end() && found->second == elementwise;
}

void addElementwiseRules(RuleTable& t) {
  for (std::string_view name :
       {"add", "sub", "rsub", "mul", "div", "true_divide", "neg", "pow", "rsqrt", "sqrt", "exp", "expm1", "log", "log1p", "log2",
        "cos", "sin", "tanh", "sigmoid", "silu", "gelu", "relu", "elu", "leaky_relu", "softplus", "mish", "hardtanh",
        "hardswish", "erf", "le", "lt", "gt", "ge", "eq", "ne", "__and__", "__or__", "__xor__", "bitwise_and", "bitwise_or",
        "bitwise_not", "bitwise_xor", "logical_not", "logical_and", "logical_or", "logical_xor", "where", "masked_fill", "clamp",
        "clamp_min", "clamp_max", "abs", "sign", "floor", "ceil", "round", "trunc", "floor_divide", "remainder", "fmod",
        "to", "_to_copy", "alias", "clone", "contiguous", "detach", "reciprocal", "maximum", "minimum", "square",
        "addcmul", "addcdiv", "lerp", "isin", "isnan", "isinf", "nan_to_num", "float", "double", "half", "bfloat16", "int", "long", "bool",
        "fill", "threshold", "log_sigmoid", "logit", "cosh", "sinh", "atan2", "tan", "asin", "acos", "atan", "asinh", "acosh", "atanh",
        "celu", "selu", "relu6", "hardsigmoid", "hardshrink", "softshrink", "exp2", "log10", "frac", "erfc", "lgamma", "digamma",
        "absolute", "negative", "multiply", "divide", "subtract", "greater", "greater_equal", "less", "less_equal", "not_equal", "clip",
        "fmax", "fmin", "hypot", "logaddexp", "logaddexp2", "xlogy", "isfinite", "signbit", "sgn", "copysign", "float_power", "heaviside",
        "bitwise_left_shift", "bitwise_right_shift", "positive", "deg2rad", "rad2deg", "sinc"})
    t[name] = elementwise;
  t["type_as"] = typeAs;
  t["dropout"] = t["native_dropout"] = dropout;
  t["copy"] = copyInto;
  for (std::string_view name : {"empty_like", "zeros_like", "ones_like", "full_like"}) t[name] = likeFactory;
  t["keep_at"] = t["uniform_at"] = drawnLike;
  for (std::string_view name : {"arange", "full", "zeros", "ones", "scalar_tensor", "empty", "new_ones", "new_zeros",
                                "new_empty", "new_full", "empty_permuted", "eye", "linspace", "lift_fresh_copy"})
    t[name] = factory;
}

}  // namespace spscope::passes
