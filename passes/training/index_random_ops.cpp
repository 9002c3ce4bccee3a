// SPDX-License-Identifier: Apache-2.0
#include "passes/training/index_random_ops.h"

#include <numbers>

#include "core/ir/rng_ops.h"
#include "passes/rewriter.h"

namespace spscope::passes {
namespace {

using ir::Argument;
using ir::Dims;
using ir::DType;
using ir::kNone;
using ir::NodeId;
using ir::Use;
using ir::ValueId;

enum class Kind : std::uint8_t { kNotRandom, kOff, kDropout, kFeatureDropout, kAttention, kBernoulli, kUniform, kNormal, kInteger, kUnknown };

Kind kindOf(const ir::Node& n) {
  const std::string_view base = ir::baseName(n.op);
  if (base == "scaled_dot_product_attention") return ir::doubleArg(n, "dropout_p", 0) > 0 ? Kind::kAttention : Kind::kNotRandom;
  if (base == "uniform") return Kind::kUniform;  // the twin of uniform_, which ir::isRandom knows
  if (!ir::isRandom(n.op)) return Kind::kNotRandom;
  if (base == "dropout" || base == "native_dropout" || base == "feature_dropout") {
    if (ir::doubleArg(n, "p", 0.5) == 0.0 || !ir::boolArg(n, "train", true)) return Kind::kOff;
    return base == "feature_dropout" ? Kind::kFeatureDropout : Kind::kDropout;
  }
  if (base == "bernoulli") return Kind::kBernoulli;
  if (base == "rand" || base == "rand_like") return Kind::kUniform;
  if (base == "randn" || base == "randn_like") return Kind::kNormal;
  if (base == "randint" || base == "randint_like") return Kind::kInteger;
  return Kind::kUnknown;
}

class Indexing {
 public:
  Indexing(ir::Graph& graph, const PassContext& context) : g_(graph), context_(context), rw_(graph, "index-random-ops") {}

  bool run() {
    for (const NodeId id : rw_.program()) {
      rw_.visit(id);
      at_ = id;
      const ir::Node n = g_.node(id);
      const Kind kind = kindOf(n);
      if (kind == Kind::kNotRandom || kind == Kind::kOff || kind == Kind::kUnknown) {
        rw_.keep(id);
        continue;
      }
      context_.count(kind == Kind::kAttention ? "attentions" : "indexed");
      out_ = n.outputs[0];
      switch (kind) {
        case Kind::kDropout:
        case Kind::kFeatureDropout: dropout(n, kind == Kind::kFeatureDropout); break;
        case Kind::kBernoulli: bernoulli(n); break;
        case Kind::kUniform: uniform(n); break;
        case Kind::kNormal: rw_.replace(out_, normal(n)); break;
        case Kind::kInteger: integer(n); break;
        default:
          g_.node(id).set(kRandomNumber, number_++);
          rw_.keepChanged(id);
      }
    }
    return rw_.finish();
  }

 private:
  const ir::Value& result() const { return g_.value(out_); }

  /// Draws for a value of `shape`. `like` says where it lives; kNone: on every rank whole.
  ValueId draw(Symbol op, ValueId like, const Dims& shape, Argument what, DType dtype) {
    std::vector<Argument> args;
    if (like != kNone) args.push_back({"self", Use{like}});
    args.push_back({"size", shape});
    args.push_back({"whole", shape});
    args.push_back({"number", number_++});
    args.push_back(std::move(what));
    const ValueId v = rw_.emitPlain(op, std::move(args), dtype, shape, at_);
    g_.value(v).requires_grad = false;
    return v;
  }
  ValueId fractions(ValueId like, DType dtype) { return draw(ir::rng::kUniformAt, like, result().shape, {"dtype", dtype}, dtype); }
  /// An elementwise op whose result has the shape of what is replaced.
  ValueId op(Symbol name, std::vector<Argument> args, DType dtype) {
    return rw_.emitPlain(name, std::move(args), dtype, result().shape, at_);
  }
  ValueId scaled(ValueId v, double by, DType dtype) { return op("aten.mul.Scalar", {{"self", Use{v}}, {"other", by}}, dtype); }
  ValueId shifted(ValueId v, double by, DType dtype) { return op("aten.add.Scalar", {{"self", Use{v}}, {"other", by}}, dtype); }
  ValueId cast(ValueId v, DType dtype) {
    return g_.value(v).dtype == dtype ? v : op("aten.to.dtype", {{"self", Use{v}}, {"dtype", dtype}}, dtype);
  }
  static ValueId selfOf(const ir::Node& n) {
    const std::string_view base = ir::baseName(n.op);
    return base == "rand" || base == "randn" || base == "randint" ? kNone : ir::useArg(n, "self");
  }
  /// The type to draw in; integers are drawn in float64.
  DType floatType() const { return ir::isFloating(result().dtype) ? result().dtype : DType::kF64; }

  void dropout(const ir::Node& n, bool whole_features) {
    const ValueId x = ir::useArg(n, "input");
    const double p = ir::doubleArg(n, "p", 0.5);
    Dims shape = result().shape;
    if (whole_features)
      for (std::size_t d = 2; d < shape.size(); ++d) shape[d] = 1;
    const ValueId keep = draw(ir::rng::kKeepAt, whole_features ? kNone : x, shape, {"p", p}, DType::kBool);
    const ValueId kept = op("aten.mul.Tensor", {{"self", Use{x}}, {"other", Use{keep}}}, result().dtype);
    rw_.replace(out_, scaled(kept, keptScale(p), result().dtype));
    if (n.outputs.size() > 1 && n.outputs[1] != kNone) rw_.replace(n.outputs[1], keep);
  }

  void bernoulli(const ir::Node& n) {
    const ValueId self = ir::useArg(n, "self");
    const ir::Attribute* p = n.find("p");
    ValueId drawn;
    if (p && (std::holds_alternative<double>(*p) || std::holds_alternative<std::int64_t>(*p))) {
      drawn = draw(ir::rng::kKeepAt, self, result().shape, {"p", 1.0 - ir::doubleArg(n, "p", 0.5)}, DType::kBool);
    } else {
      const ValueId chance = ir::useArg(n, "p") != kNone ? ir::useArg(n, "p") : self;  // a tensor of chances
      const DType type = ir::isFloating(g_.value(chance).dtype) ? g_.value(chance).dtype : DType::kF32;
      const ValueId u = fractions(self, type);
      drawn = op("aten.lt.Tensor", {{"self", Use{u}}, {"other", Use{chance}}}, DType::kBool);
    }
    rw_.replace(out_, cast(drawn, result().dtype));
  }

  void uniform(const ir::Node& n) {
    const double from = ir::doubleArg(n, "from", 0.0), to = ir::doubleArg(n, "to", 1.0);
    ValueId u = fractions(selfOf(n), result().dtype);
    if (to - from != 1.0) u = scaled(u, to - from, result().dtype);
    if (from != 0.0) u = shifted(u, from, result().dtype);
    rw_.replace(out_, u);
  }

  /// Box and Muller, of two draws; 1 - u is never 0.
  ValueId normal(const ir::Node& n) {
    const DType type = floatType();
    const auto unary = [&](const char* name, ValueId v) { return op(Symbol(name), {{"self", Use{v}}}, type); };
    const ValueId u = fractions(selfOf(n), type), v = fractions(selfOf(n), type);
    const ValueId radius = unary("aten.sqrt.default", scaled(unary("aten.log.default", shifted(scaled(u, -1.0, type), 1.0, type)), -2.0, type));
    const ValueId angle = unary("aten.cos.default", scaled(v, 2.0 * std::numbers::pi, type));
    return op("aten.mul.Tensor", {{"self", Use{radius}}, {"other", Use{angle}}}, type);
  }

  void integer(const ir::Node& n) {
    const std::int64_t low = ir::intArg(n, "low", 0), high = ir::intArg(n, "high", 1);
    const ValueId u = scaled(fractions(selfOf(n), DType::kF64), static_cast<double>(high - low), DType::kF64);
    const ValueId whole = op("aten.floor.default", {{"self", Use{u}}}, DType::kF64);
    rw_.replace(out_, cast(shifted(whole, static_cast<double>(low), DType::kF64), result().dtype));
  }

  ir::Graph& g_;
  const PassContext& context_;
  Rewriter rw_;
  NodeId at_ = kNone;
  ValueId out_ = kNone;
  std::int64_t number_ = 0;
};

}  // namespace

DrawnPart drawnPart(const ir::Value& value, const ir::Node& node, bool replicas) {
  DrawnPart out;
  for (std::size_t d = 0; d < value.factors.size(); ++d)
    for (std::size_t j = 0; j < value.factors[d].size(); ++j) {
      const auto index = static_cast<std::int64_t>(out.whole.size());
      const ir::Placement& place = value.placement;
      if (place.isSharded() && place.dim == static_cast<int>(d) && place.factor == static_cast<int>(j)) out.cut = index;
      if (!replicas && value.factors[d][j].tag == ir::Tag::kBatch && out.batch < 0) out.batch = index;
      out.whole.push_back(value.factors[d][j].size);
    }
  const auto rows = ir::intListArg(node, kReplicaRows);
  if (!rows || rows->size() != 2) return out;
  std::size_t at = 0;
  for (std::int64_t before = 1; before != (*rows)[0] && at < out.whole.size(); ++at) before *= out.whole[at];
  out.batch = static_cast<std::int64_t>(at);
  if ((*rows)[1] != 1) return out;  // the outermost part of the rows, where they are several factors
  out.whole.insert(out.whole.begin() + static_cast<std::ptrdiff_t>(at), 1);
  if (out.cut >= out.batch) ++out.cut;
  return out;
}

void markReplicaRows(ir::Node& node, const ir::Value& value) {
  const ir::Placement& place = value.placement;
  if (!place.isSharded()) return;
  std::int64_t before = 1;
  for (int d = 0; d <= place.dim; ++d) {
    const ir::FactorList& list = value.factors[static_cast<std::size_t>(d)];
    const std::size_t end = d == place.dim ? static_cast<std::size_t>(place.factor) : list.size();
    for (std::size_t j = 0; j < end; ++j) before *= list[j].size;
  }
  node.set(kReplicaRows, ir::Dims{before, place.sizes.front()});
}

Pass indexRandomOpsPass() {
  Pass pass;
  pass.info = {"index-random-ops",
               "Let random ops draw by position, so that any number of ranks draws what one rank draws",
               {{"indexed", "random ops that draw by position"}, {"attentions", "attentions with dropout"}},
               ir::Form::kGlobal,
               ir::Form::kGlobal};
  pass.checkLegal = [](const ir::Graph& graph, const PassContext& context) -> Status {
    if (context.settings.sp == 1 && context.settings.dp == 1) return {};
    for (const NodeId id : graph.order) {
      const ir::Node& n = graph.node(id);
      if (kindOf(n) != Kind::kUnknown) continue;
      Error e = makeError("random-op-sharded", n.op.str() + " draws from a sequential generator: its numbers on a shard would "
                                                            "not be those of the unsharded run");
      e.node = n.name;
      if (n.location) e.source = n.location->source;
      e.legal = "--sp 1, or an export without it";
      return e;
    }
    return {};
  };
  pass.run = [](ir::Graph& graph, const PassContext& context) -> Result<bool> { return Indexing(graph, context).run(); };
  return pass;
}

}  // namespace spscope::passes
