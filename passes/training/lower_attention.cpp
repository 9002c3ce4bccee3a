// SPDX-License-Identifier: Apache-2.0
#include "passes/training/lower_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/base/strings.h"
#include "core/ir/mask_rule.h"
#include "core/ir/mesh_axis.h"
#include "passes/rewrite_count.h"
#include "passes/rewriter.h"
#include "passes/training/attention_dropout.h"
#include "passes/training/innermost.h"

namespace spscope::passes {
namespace {

using ir::Argument;
using ir::Attribute;
using ir::Dims;
using ir::DType;
using ir::Factor;
using ir::Factors;
using ir::kNone;
using ir::NodeId;
using ir::Placement;
using ir::Use;
using ir::Value;
using ir::ValueId;

const Symbol kSdpa("aten.scaled_dot_product_attention.default");

enum class Kernel : std::uint8_t { kCpuFlash, kCpuRule, kCudaFlash, kCudaEfficient };

Attribute number(std::int64_t n) { return n; }

class Lowering {
 public:
  Lowering(ir::Graph& graph, const PassContext& context)
      : g_(graph), context_(context), rw_(graph, "lower-attention"), cuda_(context.settings.device == "cuda") {}
  bool run();

 private:
  /// Why the attention fits no kernel of the device; empty where it does (then `kernel_` says which).
  std::string obstacle(NodeId id);
  void lower(NodeId id);
  void keepMaskReached(NodeId id);

  // Each takes a value and gives one with consistent factors, placement and local shape.
  ValueId like(Symbol op, ValueId v, std::vector<Argument> args, DType dtype) {
    const Value x = g_.value(v);
    return rw_.emit(op, std::move(args), dtype, x.factors, x.placement, at_);
  }
  ValueId unsqueezeFront(ValueId v, std::size_t rank);
  ValueId squeezeFront(ValueId v, std::size_t rank);
  ValueId padLast(ValueId v, std::int64_t size);
  ValueId sliceLast(ValueId v, std::int64_t size);
  ValueId rowsInnermost(ValueId v);
  ValueId repeatHeads(ValueId v, std::int64_t times);
  ValueId floatMask(ValueId mask, DType dtype);
  ValueId biasFor(ValueId mask, ValueId query);
  void addSums(NodeId node, const Value& out, DType dtype, std::int64_t rows);

  const Dims& local(ValueId v) const { return g_.value(v).local; }

  ir::Graph& g_;
  const PassContext& context_;
  Rewriter rw_;
  const bool cuda_;
  Kernel kernel_ = Kernel::kCpuFlash;
  NodeId at_ = kNone;
  std::map<std::pair<ValueId, DType>, ValueId> masks_;  ///< layers share masks: each is converted once
  std::map<std::pair<ValueId, std::size_t>, ValueId> lifted_;
};

std::string Lowering::obstacle(NodeId id) {
  const ir::Node& n = g_.node(id);
  const ValueId q = ir::useArg(n, "query"), k = ir::useArg(n, "key"), v = ir::useArg(n, "value");
  const ValueId mask = ir::useArg(n, "attn_mask");
  const bool causal = ir::boolArg(n, "is_causal", false);
  if (q == kNone || k == kNone || v == kNone || n.outputs.size() != 1) return "query, key or value is missing";
  const Value& Q = g_.value(q);
  const Dims& ql = local(q);
  const Dims& kl = local(k);
  const Dims& vl = local(v);
  if (ql.size() < 2 || ql.size() > 4) return "the query has " + std::to_string(ql.size()) + " dimensions";
  if (kl.size() != ql.size() || vl.size() != ql.size()) return "query, key and value differ in the number of dimensions";
  if (ql.back() != kl.back()) return "query and key have other head sizes";
  if (Q.dtype != g_.value(k).dtype || Q.dtype != g_.value(v).dtype) return "query, key and value differ in type";
  for (ValueId x : {q, k, v})
    if (ir::numel(local(x)) == 0 && n.op != ir::kMaskedAttention) return "this rank's block is empty (the kernel divides by its size)";
  if (kl[kl.size() - 2] != vl[vl.size() - 2]) return "key and value differ in length";
  const Value& O = g_.value(n.outputs[0]);
  if (O.placement.isSharded() && O.placement.dim + 2 > static_cast<int>(ql.size())) return "the result is sharded on the head size";
  if (O.placement.isPartial()) return "the result is partial";
  if (ql.size() == 4) {
    if (ql[0] != kl[0] || ql[0] != vl[0]) return "query, key and value differ in batch size";
    if (kl[1] != vl[1]) return "key and value differ in the number of heads";
    if (ql[1] != kl[1] && (!ir::boolArg(n, "enable_gqa", false) || ql[1] % kl[1] != 0))
      return strf("%lld query heads do not go with %lld key heads", static_cast<long long>(ql[1]), static_cast<long long>(kl[1]));
  } else if (ql.size() == 3 && (ql[0] != kl[0] || ql[0] != vl[0])) {
    return "query, key and value differ in batch size";
  }
  if (mask != kNone) {
    const Value& m = g_.value(mask);
    if (causal) return "it has a mask and is causal";
    if (m.requires_grad) return "its mask is trained";
    if (m.dtype != DType::kBool && !ir::isFloating(m.dtype)) return "its mask is neither bool nor floating";
    if (m.local.size() > std::max<std::size_t>(ql.size(), 2)) return "its mask has more dimensions than the query";
    // Right-aligned against [B, H, S, K].
    Dims scores(ql.begin(), ql.end());
    scores.back() = kl[kl.size() - 2];
    for (std::size_t i = 0; i < m.local.size(); ++i) {
      const std::int64_t have = m.local[m.local.size() - 1 - i];
      if (have != 1 && have != scores[scores.size() - 1 - i]) return "its mask does not spread over the scores";
    }
  }
  if (!cuda_) {
    kernel_ = n.op == ir::kMaskedAttention ? Kernel::kCpuRule : Kernel::kCpuFlash;
    if (Q.dtype != DType::kF32 && Q.dtype != DType::kF64 && Q.dtype != DType::kBF16 && Q.dtype != DType::kF16)
      return "the kernel does not take " + std::string(ir::longName(Q.dtype));
    return {};
  }
  const bool half = Q.dtype == DType::kBF16 || Q.dtype == DType::kF16;
  if (half && mask == kNone && std::max(ql.back(), vl.back()) <= 256) {
    kernel_ = Kernel::kCudaFlash;
    return {};
  }
  if (!half && Q.dtype != DType::kF32) return "the kernels do not take " + std::string(ir::longName(Q.dtype));
  if (O.placement.isSharded() && O.placement.dim + 2 == static_cast<int>(ql.size())) return "the result is sharded on the sequence";
  kernel_ = Kernel::kCudaEfficient;
  return {};
}

ValueId Lowering::unsqueezeFront(ValueId v, std::size_t rank) {
  if (v == kNone || g_.value(v).shape.size() >= rank) return v;
  if (const auto it = lifted_.find({v, rank}); it != lifted_.end()) return it->second;
  ValueId out = v;
  while (g_.value(out).shape.size() < rank) {
    const Value x = g_.value(out);
    Factors factors = x.factors;
    factors.insert(factors.begin(), ir::FactorList{});
    Placement placement = x.placement;
    if (placement.isSharded()) ++placement.dim;
    out = rw_.emit("aten.unsqueeze.default", {{"self", Use{out}}, {"dim", number(0)}}, x.dtype, factors, placement, at_);
  }
  return lifted_[{v, rank}] = out;
}

ValueId Lowering::squeezeFront(ValueId v, std::size_t rank) {
  while (g_.value(v).shape.size() > rank) {
    const Value x = g_.value(v);
    Factors factors(x.factors.begin() + 1, x.factors.end());
    Placement placement = x.placement;
    if (placement.isSharded()) --placement.dim;
    v = rw_.emit("aten.squeeze.dim", {{"self", Use{v}}, {"dim", number(0)}}, x.dtype, factors, placement, at_);
  }
  return v;
}

ValueId Lowering::padLast(ValueId v, std::int64_t size) {
  const Value x = g_.value(v);
  if (x.shape.back() == size) return v;
  Factors factors = x.factors;
  factors.back().assign(1, Factor{size, ir::Tag::kNone});
  return rw_.emit("aten.constant_pad_nd.default",
                  {{"self", Use{v}}, {"pad", Dims{0, size - x.shape.back()}}, {"value", number(0)}}, x.dtype, factors,
                  x.placement, at_);
}

ValueId Lowering::sliceLast(ValueId v, std::int64_t size) {
  const Value x = g_.value(v);
  if (x.shape.back() == size) return v;
  Factors factors = x.factors;
  factors.back() = ir::plainFactors({size})[0];
  return rw_.emit("aten.slice.Tensor",
                  {{"self", Use{v}}, {"dim", number(static_cast<std::int64_t>(x.shape.size()) - 1)}, {"start", number(0)},
                   {"end", number(size)}},
                  x.dtype, factors, x.placement, at_);
}

ValueId Lowering::rowsInnermost(ValueId v) {
  if (lastDimIsInnermost(g_, v)) return v;
  context_.count("made-contiguous");
  return like("aten.clone.default", v, {{"self", Use{v}}, {"memory_format", ir::MemoryFormat::kContiguous}}, g_.value(v).dtype);
}

ValueId Lowering::repeatHeads(ValueId v, std::int64_t times) {
  // [B, Hkv, S, D] -> [B, Hkv, times, S, D] -> [B, Hkv * times, S, D]: head h of the queries reads h / times.
  const Value x = g_.value(v);
  const auto moved = [&](std::size_t at) {
    Placement p = x.placement;
    if (p.isSharded() && static_cast<std::size_t>(p.dim) >= at) ++p.dim;
    return p;
  };
  Factors wide = x.factors;
  wide.insert(wide.begin() + 2, ir::FactorList{});
  ValueId out = rw_.emit("aten.unsqueeze.default", {{"self", Use{v}}, {"dim", number(2)}}, x.dtype, wide, moved(2), at_);
  wide[2].push_back({times, ir::Tag::kExpanded});
  out = rw_.emit("aten.expand.default", {{"self", Use{out}}, {"size", ir::localShape(wide, moved(2), ir::sequenceRank(g_))}}, x.dtype, wide,
                 moved(2), at_);
  Factors joined = x.factors;
  joined[1].push_back({times, ir::Tag::kExpanded});
  return rw_.emit("aten.reshape.default", {{"self", Use{out}}, {"shape", ir::localShape(joined, x.placement, ir::sequenceRank(g_))}},
                  x.dtype, joined, x.placement, at_);
}

ValueId Lowering::floatMask(ValueId mask, DType dtype) {
  const DType have = g_.value(mask).dtype;
  if (have == dtype) return mask;
  if (const auto it = masks_.find({mask, dtype}); it != masks_.end()) return it->second;
  ValueId out;
  if (have == DType::kBool) {
    const ValueId banned = like("aten.logical_not.default", mask, {{"self", Use{mask}}}, DType::kBool);
    const ValueId zeros = like("aten.zeros_like.default", mask, {{"self", Use{mask}}, {"dtype", dtype}}, dtype);
    out = like("aten.masked_fill.Scalar", mask,
               {{"self", Use{zeros}}, {"mask", Use{banned}}, {"value", -std::numeric_limits<double>::infinity()}}, dtype);
    context_.count("masks-converted");
  } else {
    out = like("aten.to.dtype", mask, {{"self", Use{mask}}, {"dtype", dtype}}, dtype);
  }
  return masks_[{mask, dtype}] = out;
}

/// The efficient kernel's bias: spread over batch and heads, rows aligned to 16 elements.
ValueId Lowering::biasFor(ValueId mask, ValueId query) {
  const Value q = g_.value(query);
  const std::int64_t columns = g_.value(mask).shape.back();
  ValueId out = mask;
  if (columns % 16 != 0) out = sliceLast(padLast(out, (columns + 15) / 16 * 16), columns);
  const Value m = g_.value(out);
  if (m.local[0] == q.local[0] && m.local[1] == q.local[1] && m.local[2] == q.local[2]) return out;
  Factors factors = {q.factors[0], q.factors[1], q.factors[2], m.factors[3]};
  for (std::size_t d = 0; d < 2; ++d)
    if (m.shape[d] == 1)
      for (Factor& f : factors[d]) f.tag = ir::Tag::kExpanded;
  const Placement placement = q.placement;
  return rw_.emit("aten.expand.default", {{"self", Use{out}}, {"size", ir::localShape(factors, placement, ir::sequenceRank(g_))}}, m.dtype,
                  factors, placement, at_);
}

/// The second result: log-sum-exp of the scores, [B, H, rows].
void Lowering::addSums(NodeId node, const Value& out, DType dtype, std::int64_t rows) {
  Factors factors(out.factors.begin(), out.factors.end() - 1);
  if (rows != out.shape[2]) factors[2] = ir::plainFactors({rows})[0];
  const ValueId sums = g_.addOutput(node, dtype, ir::shapeOf(factors));
  Value& s = g_.value(sums);
  s.factors = std::move(factors);
  s.placement = out.placement;
  s.local = ir::localShape(s.factors, s.placement, ir::sequenceRank(g_));
}

void Lowering::lower(NodeId id) {
  const ValueId result = g_.node(id).outputs[0];
  const Value before = g_.value(result);
  const std::size_t rank = before.shape.size();
  ValueId q = ir::useArg(g_.node(id), "query"), k = ir::useArg(g_.node(id), "key"), v = ir::useArg(g_.node(id), "value");
  ValueId mask = ir::useArg(g_.node(id), "attn_mask");
  const bool causal = ir::boolArg(g_.node(id), "is_causal", false);
  const Attribute* scale_argument = g_.node(id).find("scale");
  Attribute scale = scale_argument ? *scale_argument : Attribute();
  const std::int64_t head = local(q).back(), value_head = local(v).back();

  q = unsqueezeFront(q, 4), k = unsqueezeFront(k, 4), v = unsqueezeFront(v, 4);
  // Query, key and value of one head size: zeros behind the shorter ones change neither scores nor the kept results.
  std::int64_t size = std::max(head, value_head);
  if (cuda_) size = (size + 7) / 8 * 8;
  if (size != head && std::holds_alternative<std::monostate>(scale)) scale = 1.0 / std::sqrt(static_cast<double>(head));
  if (size != head || size != value_head) context_.count("head-size-padded");
  q = padLast(rowsInnermost(q), size), k = padLast(rowsInnermost(k), size), v = padLast(rowsInnermost(v), size);
  if (local(q)[1] != local(k)[1] && kernel_ == Kernel::kCudaEfficient) {  // the flash kernels take fewer kv heads
    const std::int64_t times = local(q)[1] / local(k)[1];
    k = repeatHeads(k, times), v = repeatHeads(v, times);
    context_.count("heads-repeated");
  }
  if (mask != kNone) {
    mask = floatMask(mask, g_.value(q).dtype);
    if (const std::size_t have = g_.value(mask).shape.size(); have < 2) mask = unsqueezeFront(mask, 2);
    if (const std::size_t have = g_.value(mask).shape.size(); have == 3 || kernel_ == Kernel::kCudaEfficient) mask = unsqueezeFront(mask, 4);
    if (kernel_ == Kernel::kCudaEfficient) mask = biasFor(mask, q);
  }

  std::vector<Argument> args = {{"query", Use{q}}, {"key", Use{k}}, {"value", Use{v}}};
  if (kernel_ == Kernel::kCpuRule)
    for (Symbol name : {Symbol("query_rows"), Symbol("key_columns"), Symbol("mask_rule")}) args.push_back({name, *g_.node(id).find(name)});
  Symbol op;
  switch (kernel_) {
    case Kernel::kCpuFlash: op = "aten._scaled_dot_product_flash_attention_for_cpu.default"; break;
    case Kernel::kCpuRule: op = ir::kMaskedAttentionCpu; break;
    case Kernel::kCudaFlash: op = "aten._scaled_dot_product_flash_attention.default"; break;
    case Kernel::kCudaEfficient:
      op = "aten._scaled_dot_product_efficient_attention.default";
      args.push_back({"attn_bias", mask == kNone ? Attribute() : Attribute(Use{mask})});
      args.push_back({"compute_log_sumexp", true});
      break;
  }
  if (kernel_ != Kernel::kCpuRule) {
    args.push_back({"dropout_p", 0.0});
    args.push_back({"is_causal", causal});
  }
  if (kernel_ == Kernel::kCpuFlash && mask != kNone) args.push_back({"attn_mask", Use{mask}});
  if (!std::holds_alternative<std::monostate>(scale)) args.push_back({"scale", std::move(scale)});

  NodeId node = id;
  ValueId out = result;
  if (rank == 4 && size == value_head) {  // same result: the node itself becomes the kernel's
    g_.node(id).op = op;
    g_.node(id).args.assign(std::make_move_iterator(args.begin()), std::make_move_iterator(args.end()));
    rw_.keepChanged(id);
  } else {
    Factors factors = before.factors;
    Placement placement = before.placement;
    for (std::size_t i = rank; i < 4; ++i) {
      factors.insert(factors.begin(), ir::FactorList{});
      if (placement.isSharded()) ++placement.dim;
    }
    factors.back() = ir::plainFactors({size})[0];
    out = rw_.emit(op, std::move(args), before.dtype, factors, placement, id);
    node = g_.value(out).producer;
    g_.node(node).must_save = g_.node(id).must_save;
    rw_.replace(result, squeezeFront(sliceLast(out, value_head), rank));
  }
  const Value lowered = g_.value(out);
  const std::int64_t rows = lowered.shape[2];
  const DType accumulate = lowered.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  addSums(node, lowered, accumulate, kernel_ == Kernel::kCudaEfficient ? (rows + 31) / 32 * 32 : rows);
  // Results that nothing here reads: seeds, and (flash) lengths and the debug mask.
  const std::size_t results = !cuda_ ? 2 : kernel_ == Kernel::kCudaFlash ? 9 : 4;
  while (g_.node(node).outputs.size() < results) g_.node(node).outputs.push_back(kNone);
  context_.count("lowered");
}

bool Lowering::run() {
  std::int32_t next_checkpoint = 1;
  for (NodeId id : rw_.program())
    if (g_.node(id).location) next_checkpoint = std::max(next_checkpoint, g_.node(id).location->checkpoint + 1);
  for (NodeId id : rw_.program()) {
    rw_.visit(id);
    const bool plain = g_.node(id).op == kSdpa;  // runs as it is, too
    if ((!plain && g_.node(id).op != ir::kMaskedAttention) || (!mayRewrite(g_, id) && plain)) {
      rw_.keep(id);
      continue;
    }
    at_ = id;
    if (dropsOut(g_.node(id))) {
      lowerWithDropout(g_, rw_, context_, id, &next_checkpoint);
      continue;
    }
    if (const std::string reason = obstacle(id); !reason.empty() && g_.node(id).op == kSdpa) {
      const ir::Node& n = g_.node(id);
      context_.count("math");
      context_.diagnostics->remark("attention-math", "attention runs as separate matrix products: " + reason, "%" + n.name,
                                   n.location ? n.location->source : "");
      rw_.keep(id);
      keepMaskReached(id);
    } else {
      lower(id);
    }
  }
  return rw_.finish();
}

void Lowering::keepMaskReached(NodeId id) {
  // On a rank without a head libtorch returns zeros that depend on q, k, v, but not on the mask. A trainable mask would
  // have no gradient there, and its collective would be missing on this rank alone: add its (empty) sum times zero.
  const ir::Node n = g_.node(id);
  const ir::Value out = g_.value(n.outputs[0]);
  const ValueId mask = ir::useArg(n, "attn_mask");
  if (ir::numel(out.local) != 0 || mask == ir::kNone || !g_.value(mask).requires_grad || ir::numel(g_.value(mask).local) != 0) return;
  const ValueId sum = rw_.emit("aten.sum.default", {{"self", ir::Use{mask}}}, out.dtype, {}, ir::Placement::partial(), id);
  const ValueId zero = rw_.emit("aten.mul.Scalar", {{"self", ir::Use{sum}}, {"other", 0.0}}, out.dtype, {}, ir::Placement::partial(), id);
  rw_.replace(out.id, rw_.emit("aten.add.Tensor", {{"self", ir::Use{out.id}}, {"other", ir::Use{zero}}}, out.dtype, out.factors, out.placement, id));
}

}  // namespace

Pass lowerAttentionPass() {
  Pass pass;
  pass.info = {"lower-attention",
               "Replaces scaled_dot_product_attention by the target device's kernel.",
               {{"lowered", "attentions on a fused kernel"},
                {"math", "attentions left to separate matrix products"},
                {"masks-converted", "bool masks made into masks of 0 and -inf, each once"},
                {"head-size-padded", "attentions whose query and value differ in head size"},
                {"heads-repeated", "attentions whose key and value heads were repeated"},
                {"dropped-out", "attentions with dropout, as products over windows of rows"},
                {"windows", "windows of those"},
                {"made-contiguous", "operands copied because the kernel reads rows"}},
               ir::Form::kLocal,
               ir::Form::kLocal};
  pass.checkLegal = [](const ir::Graph&, const PassContext&) -> Status { return {}; };
  pass.run = [](ir::Graph& graph, const PassContext& context) -> Result<bool> { return Lowering(graph, context).run(); };
  return pass;
}

}  // namespace spscope::passes
