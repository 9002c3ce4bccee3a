// SPDX-License-Identifier: Apache-2.0
#include "passes/training/attention_dropout.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ir/rng_ops.h"
#include "passes/training/index_random_ops.h"

namespace spscope::passes {
namespace {

using ir::Argument;
using ir::Dims;
using ir::DType;
using ir::Factors;
using ir::kNone;
using ir::Placement;
using ir::Use;
using ir::Value;
using ir::ValueId;

constexpr std::int64_t kWindowBytes = std::int64_t{64} << 20;
constexpr std::int64_t kMostWindows = 32;

struct Range {
  std::int64_t begin = 0, end = 0;
};

class Dropout {
 public:
  Dropout(ir::Graph& graph, Rewriter& rewriter, ir::NodeId id, std::int32_t* next_checkpoint)
      : g_(graph), rw_(rewriter), node_(graph.node(id)), id_(id), out_(graph.value(node_.outputs[0])), next_checkpoint_(next_checkpoint) {
    rank_ = static_cast<int>(out_.shape.size());
  }

  std::int64_t run() {
    p_ = ir::doubleArg(node_, "dropout_p", 0.0);
    causal_ = ir::boolArg(node_, "is_causal", false);
    type_ = out_.dtype == DType::kBF16 || out_.dtype == DType::kF16 ? DType::kF32 : out_.dtype;
    ValueId q = wide(ir::useArg(node_, "query")), k = wide(ir::useArg(node_, "key")), v = wide(ir::useArg(node_, "value"));
    const auto root = 1.0 / std::sqrt(static_cast<double>(g_.value(q).shape.back()));
    q = like("aten.mul.Scalar", q, {{"self", Use{q}}, {"other", ir::doubleArg(node_, "scale", root)}}, type_);
    k = repeated(k, q), v = repeated(v, q);
    mask_ = ir::useArg(node_, "attn_mask");
    const std::int64_t rows = g_.value(q).shape[row()], keys = g_.value(k).shape[row()];
    if (mask_ != kNone && g_.value(mask_).dtype == DType::kBool)
      banned_ = like("aten.logical_not.default", mask_, {{"self", Use{mask_}}}, DType::kBool);

    const std::int64_t windows = windowsOf(q, keys);
    std::vector<ir::Use> parts;
    for (const std::int64_t count : ir::balancedBlocks(rows, static_cast<int>(windows))) {
      if (windows > 1) openCheckpoint();
      const Range at{begin_, begin_ + count};
      begin_ += count;
      parts.push_back({window(q, k, v, at, {0, causal_ ? std::min(keys, at.end) : keys}, rows, keys)});
    }
    close();
    ValueId out = parts[0].value;
    if (windows > 1)
      out = rw_.emit("aten.cat.default", {{"tensors", parts}, {"dim", std::int64_t{rank_ - 2}}}, type_, out_.factors, out_.placement, id_);
    if (type_ != out_.dtype) out = like("aten.to.dtype", out, {{"self", Use{out}}, {"dtype", out_.dtype}}, out_.dtype);
    rw_.replace(out_.id, out);
    return windows;
  }

 private:
  std::size_t row() const { return static_cast<std::size_t>(rank_) - 2; }

  ValueId like(Symbol op, ValueId v, std::vector<Argument> args, DType dtype) {
    const Value x = g_.value(v);
    return mark(rw_.emit(op, std::move(args), dtype, x.factors, x.placement, id_));
  }
  /// In the type to compute in: sums of 16-bit values are made in float32.
  ValueId wide(ValueId v) {
    return g_.value(v).dtype == type_ ? v : like("aten.to.dtype", v, {{"self", Use{v}}, {"dtype", type_}}, type_);
  }

  /// Fewer key heads than query heads: each is read by as many queries in a row.
  ValueId repeated(ValueId v, ValueId q) {
    if (rank_ < 3) return v;
    const auto heads = static_cast<std::size_t>(rank_) - 3;
    const Value x = g_.value(v);
    const std::int64_t have = x.shape[heads], want = g_.value(q).shape[heads];
    if (have == want || have == 1) return v;  // a single head spreads by itself
    Factors factors = x.factors;
    factors[heads].push_back({want / have, ir::Tag::kExpanded});
    return rw_.emit("aten.repeat_interleave.self_int",
                    {{"self", Use{v}}, {"repeats", want / have}, {"dim", static_cast<std::int64_t>(heads)}}, x.dtype, factors, x.placement, id_);
  }

  std::int64_t windowsOf(ValueId q, std::int64_t keys) const {
    const Value& x = g_.value(q);
    if (x.factors[row()].size() != 1 || (out_.placement.isSharded() && out_.placement.dim == static_cast<int>(row()))) return 1;
    const std::int64_t bytes = ir::numel(x.local) / std::max<std::int64_t>(1, x.local.back()) * keys * ir::sizeOf(type_);
    return std::clamp<std::int64_t>((bytes + kWindowBytes - 1) / kWindowBytes, 1, std::min(kMostWindows, std::max<std::int64_t>(1, x.shape[row()])));
  }

  ValueId part(ValueId v, std::size_t dim, Range r) {
    const Value x = g_.value(v);
    if (r.begin == 0 && r.end == x.shape[dim]) return v;
    Factors factors = x.factors;
    const ir::Tag tag = factors[dim].size() == 1 ? factors[dim][0].tag : ir::Tag::kNone;
    factors[dim] = ir::plainFactors({r.end - r.begin})[0];
    for (auto& f : factors[dim]) f.tag = tag;
    return mark(rw_.emit("aten.slice.Tensor", {{"self", Use{v}}, {"dim", static_cast<std::int64_t>(dim)}, {"start", r.begin}, {"end", r.end}},
                         x.dtype, factors, x.placement, id_));
  }
  /// The part of a mask that lies over these scores; its dims are right-aligned.
  ValueId maskPart(ValueId v, Range rows, Range keys) {
    const std::size_t n = g_.value(v).shape.size();
    if (n >= 2 && g_.value(v).shape[n - 2] != 1) v = part(v, n - 2, rows);
    if (n >= 1 && g_.value(v).shape[n - 1] != 1) v = part(v, n - 1, keys);
    return v;
  }

  ValueId window(ValueId q, ValueId k, ValueId v, Range rows, Range keys, std::int64_t all_rows, std::int64_t all_keys) {
    const auto last = static_cast<std::size_t>(rank_) - 1;
    const ValueId queries = part(q, row(), rows);
    const ValueId near = part(k, row(), keys);
    const Value kv = g_.value(near);
    Factors turned = kv.factors;
    std::swap(turned[row()], turned[last]);
    const ValueId columns = mark(rw_.emit("aten.transpose.int", {{"self", Use{near}}, {"dim0", std::int64_t{-2}}, {"dim1", std::int64_t{-1}}},
                                          type_, turned, kv.placement, id_));
    Factors factors = g_.value(queries).factors;
    factors[last] = ir::plainFactors({keys.end - keys.begin})[0];
    const auto scoreOp = [&](Symbol op, std::vector<Argument> args, DType dtype) {
      return mark(rw_.emit(op, std::move(args), dtype, factors, out_.placement, id_));
    };
    ValueId scores = scoreOp("aten.matmul.default", {{"self", Use{queries}}, {"other", Use{columns}}}, type_);
    const auto ban = [&](ValueId mask) {
      scores = scoreOp("aten.masked_fill.Scalar",
                       {{"self", Use{scores}}, {"mask", Use{mask}}, {"value", -std::numeric_limits<double>::infinity()}}, type_);
    };
    if (causal_) {  // row i sees the keys up to i
      const Dims square = {rows.end - rows.begin, keys.end - keys.begin};
      const auto table = [&](Symbol op, std::vector<Argument> args) {
        return mark(rw_.emit(op, std::move(args), DType::kBool, ir::plainFactors(square), {}, id_));
      };
      const ValueId ones = table("aten.ones.default", {{"size", square}, {"dtype", DType::kBool}});
      ban(table("aten.triu.default", {{"self", Use{ones}}, {"diagonal", rows.begin + 1}}));
    }
    if (banned_ != kNone)
      ban(maskPart(banned_, rows, keys));
    else if (mask_ != kNone)
      scores = scoreOp("aten.add.Tensor", {{"self", Use{scores}}, {"other", Use{maskPart(mask_, rows, keys)}}}, type_);
    ValueId weights = scoreOp("aten._safe_softmax.default", {{"self", Use{scores}}, {"dim", std::int64_t{-1}}}, type_);

    const ValueId keep = scoreOp(ir::rng::kKeepAt, {}, DType::kBool);
    place(g_.value(keep), factors, rows, keys, all_rows, all_keys);
    weights = scoreOp("aten.mul.Tensor", {{"self", Use{weights}}, {"other", Use{keep}}}, type_);

    Factors result = factors;
    result[last] = out_.factors[last];
    const ValueId sum = mark(rw_.emit("aten.matmul.default", {{"self", Use{weights}}, {"other", Use{part(v, row(), keys)}}}, type_, result,
                                      out_.placement, id_));
    // Not marked: it leaves the checkpoint.
    return rw_.emit("aten.mul.Scalar", {{"self", Use{sum}}, {"other", keptScale(p_)}}, type_, result, out_.placement, id_);
  }

  /// The window as a part of the whole scores.
  void place(const Value& keep, Factors factors, Range rows, Range keys, std::int64_t all_rows, std::int64_t all_keys) {
    ir::Node& draw = g_.node(keep.producer);
    const auto last = static_cast<std::size_t>(rank_) - 1;
    const bool cut = rows.end - rows.begin != all_rows || keys.end - keys.begin != all_keys;
    if (cut) {  // a window of one row has a factor, too
      factors[row()] = {{all_rows, ir::Tag::kNone}};
      factors[last] = {{all_keys, ir::Tag::kNone}};
    }
    Value whole = out_;
    whole.factors = factors;
    const DrawnPart drawn = drawnPart(whole, node_, g_.mesh.sizeOf("dp") > 1);
    draw.args = {{"size", keep.local}, {"whole", drawn.whole}, {"number", ir::intArg(node_, kRandomNumber, 0)}, {"p", p_}};
    if (cut) {
      Dims start(drawn.whole.size(), 0), part = drawn.whole;
      start[start.size() - 2] = rows.begin, part[part.size() - 2] = rows.end - rows.begin;
      part.back() = keys.end - keys.begin;
      draw.set("start", start), draw.set("part", part);
    }
    if (drawn.cut >= 0) draw.set("cut", drawn.cut), draw.set("blocks", out_.placement.sizes);
    if (drawn.batch >= 0) draw.set("batch", drawn.batch);
  }

  void openCheckpoint() {
    ir::Location here = node_.location ? *node_.location : ir::Location{};
    if (here.checkpoint == 0) here.checkpoint = (*next_checkpoint_)++;
    inside_ = std::make_shared<const ir::Location>(std::move(here));
  }
  void close() { inside_.reset(); }
  ValueId mark(ValueId v) {
    if (inside_) g_.node(g_.value(v).producer).location = inside_;
    return v;
  }

  ir::Graph& g_;
  Rewriter& rw_;
  const ir::Node node_;
  const ir::NodeId id_;
  const Value out_;
  std::int32_t* next_checkpoint_;
  ir::LocationRef inside_;
  int rank_ = 0;
  double p_ = 0;
  bool causal_ = false;
  DType type_ = DType::kF32;
  ValueId mask_ = kNone, banned_ = kNone;
  std::int64_t begin_ = 0;
};

}  // namespace

bool dropsOut(const ir::Node& node) { return ir::doubleArg(node, "dropout_p", 0.0) > 0; }

void lowerWithDropout(ir::Graph& graph, Rewriter& rewriter, const PassContext& context, ir::NodeId node, std::int32_t* next_checkpoint) {
  const std::int64_t windows = Dropout(graph, rewriter, node, next_checkpoint).run();
  context.count("dropped-out");
  context.count("windows", windows);
}

}  // namespace spscope::passes
