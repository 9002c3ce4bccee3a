// SPDX-License-Identifier: Apache-2.0
#include "passes/sequence/tile_loss.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/ir/mesh_axis.h"
#include "core/ir/tiled_loss.h"
#include "passes/rewriter.h"

namespace spscope::passes {
namespace {

using ir::Dims;
using ir::Factors;
using ir::kNone;
using ir::NodeId;
using ir::Placement;
using ir::Use;
using ir::ValueId;

bool oneOf(std::string_view base, std::initializer_list<std::string_view> names) { return std::find(names.begin(), names.end(), base) != names.end(); }

/// A cross entropy and the product whose rows it reads.
struct Head {
  ValueId input = kNone, weight = kNone, bias = kNone;
  bool weight_is_transposed = false;   ///< [D, V]
  std::vector<NodeId> moves;           ///< views and slices of rows, from the product on
  std::vector<ir::LogitStep> steps;
};

class Tiling {
 public:
  Tiling(ir::Graph& graph, const PassContext& context) : g_(graph), context_(context), rw_(graph, "tile-loss") {
    readers_.assign(g_.valueCount(), 0);
    for (NodeId id : rw_.program()) ir::forEachUse(g_.node(id), [&](const Use& use) { ++readers_[static_cast<std::size_t>(use.value)]; });
    for (const ir::Output& o : g_.outputs)
      if (o.value != kNone) ++readers_[static_cast<std::size_t>(o.value)];
  }

  bool run() {
    bool any = false;
    for (NodeId id : rw_.program()) {
      rw_.visit(id);
      if (ir::baseName(g_.node(id).op) != "cross_entropy_loss") {
        rw_.keep(id);
        continue;
      }
      any = true;
      const Result<Head> head = find(id);
      if (head) {
        tile(id, *head);
      } else {
        untiled(head.error().message, &g_.node(id));
        rw_.keep(id);
      }
    }
    if (!any) untiled("the graph holds no cross entropy", nullptr);
    return rw_.finish();
  }

 private:
  void untiled(const std::string& why, const ir::Node* n) {
    context_.count("untiled");
    context_.diagnostics->warn("loss-untiled", "the loss is not tiled, its logits exist whole: " + why, n ? "%" + n->name : "",
                               n && n->location ? n->location->source : "");
  }
  static Error no(std::string why) { return makeError("loss-untiled", std::move(why)); }
  const ir::Value& value(ValueId v) const { return g_.value(v); }

  Result<Head> find(NodeId id) {
    const ir::Node& loss = g_.node(id);
    const ValueId logits = ir::useArg(loss, "self"), target = ir::useArg(loss, "target");
    if (logits == kNone || target == kNone || loss.outputs.size() != 1) return no("logits or labels are missing");
    const ir::Attribute* weights = loss.find("weight");
    if (weights && !std::holds_alternative<std::monostate>(*weights)) return no("classes have weights");
    if (ir::isFloating(value(target).dtype)) return no("its labels are probabilities");
    if (ir::intArg(loss, "reduction", 1) == 1 && value(loss.outputs[0]).placement.isPartial()) return no("its mean is not over all ranks yet");
    const std::size_t rank = value(logits).local.size();
    if (rank != 2 && rank != 3) return no("its logits have " + std::to_string(rank) + " dimensions");
    Head head;
    bool last = rank == 2;  // classes are the last dimension
    ValueId v = logits;
    for (;;) {
      if (readers_[static_cast<std::size_t>(v)] != 1) return no("%" + value(v).name + " is read elsewhere, too");
      const NodeId at = value(v).producer;
      if (at == kNone) return no("its logits are an input");
      const ir::Node& n = g_.node(at);
      const std::string_view base = ir::baseName(n.op);
      const ValueId self = ir::useArg(n, "self");
      const auto refuse = [&] { return no("%" + n.name + " (" + n.op.str() + ") stands between the product and the loss"); };
      if (last && oneOf(base, {"linear", "mm", "matmul", "addmm"})) {
        SP_TRY(readProduct(n, head));
        break;
      }
      if (self == kNone) return refuse();
      const Dims& from = value(self).local;
      const Dims& to = value(v).local;
      if (!last) {
        const auto dims = ir::intListArg(n, "dims");
        const auto wrapped = [](std::int64_t d) { return d < 0 ? d + 3 : d; };
        const bool transposes = base == "transpose" && wrapped(ir::intArg(n, "dim0", 0)) + wrapped(ir::intArg(n, "dim1", 1)) == 3 &&
                                wrapped(ir::intArg(n, "dim0", 0)) != 0 && wrapped(ir::intArg(n, "dim1", 1)) != 0;
        if (!transposes && !(base == "permute" && dims == Dims{0, 2, 1})) return refuse();
        last = true;
      } else if (oneOf(base, {"view", "reshape", "_unsafe_view", "flatten", "squeeze", "unsqueeze"})) {
        if (from.empty() || from.back() != to.back() || to.size() < 2 || from.size() < 2) return refuse();
        head.moves.push_back(at);
      } else if (base == "slice") {
        const auto dims = static_cast<std::int64_t>(from.size());
        const std::int64_t d = ir::intArg(n, "dim", 0);
        if ((d < 0 ? d + dims : d) == dims - 1 && from.back() != to.back()) return refuse();
        head.moves.push_back(at);
      } else if (oneOf(base, {"contiguous", "clone", "alias"})) {
      } else if (oneOf(base, {"to", "_to_copy"})) {
        if (!ir::isFloating(value(v).dtype) || !ir::isFloating(value(self).dtype)) return refuse();
        if (value(v).dtype != value(self).dtype) head.steps.push_back({ir::LogitStep::kTo, value(v).dtype, 1});
      } else if (base == "tanh") {
        head.steps.push_back({ir::LogitStep::kTanh, ir::DType::kF32, 1});
      } else if (base == "mul" || (base == "div" && !n.find("rounding_mode"))) {
        const ir::Attribute* by = n.find("other");
        const auto* d = by ? std::get_if<double>(by) : nullptr;
        const auto* i = by ? std::get_if<std::int64_t>(by) : nullptr;
        if (!d && !i) return refuse();
        head.steps.push_back({base == "mul" ? ir::LogitStep::kMul : ir::LogitStep::kDiv, ir::DType::kF32, d ? *d : static_cast<double>(*i)});
      } else {
        return refuse();
      }
      v = self;
    }
    std::reverse(head.moves.begin(), head.moves.end());
    std::reverse(head.steps.begin(), head.steps.end());
    return head;
  }

  Status readProduct(const ir::Node& n, Head& head) {
    const std::string_view base = ir::baseName(n.op);
    const bool linear = base == "linear", add = base == "addmm";
    head.input = ir::useArg(n, linear ? "input" : add ? "mat1" : "self");
    head.weight = ir::useArg(n, linear ? "weight" : base == "matmul" ? "other" : "mat2");
    head.bias = linear ? ir::useArg(n, "bias") : add ? ir::useArg(n, "self") : kNone;
    head.weight_is_transposed = !linear;
    if (head.input == kNone || head.weight == kNone) return no("its product has no operands");
    if (value(head.weight).local.size() != 2 || value(head.input).local.size() < 2) return no("its product is not one of rows by a matrix");
    if (!value(head.weight).placement.isReplicated() || (head.bias != kNone && !value(head.bias).placement.isReplicated()))
      return no("the classes are shared out between ranks");
    if (add && (ir::doubleArg(n, "alpha", 1) != 1 || ir::doubleArg(n, "beta", 1) != 1 || value(head.bias).local.size() != 1))
      return no("its product adds something else than a bias");
    const ir::Value& x = value(head.input);
    if (x.placement.isPartial() || (x.placement.isSharded() && x.placement.dim + 1 == static_cast<int>(x.shape.size())))
      return no("the features of its rows are shared out between ranks");
    if (x.dtype != value(head.weight).dtype) return no("rows and weight differ in type");
    return {};
  }

  /// The move done to rows of features instead of rows of classes.
  ValueId moved(ValueId v, NodeId move) {
    const ir::Node n = g_.node(move);
    const ir::Value before = value(v);
    const ir::Value after = value(n.outputs[0]);
    Factors factors = after.factors;
    factors.back() = before.factors.back();
    if (ir::baseName(n.op) == "slice") {
      std::vector<ir::Argument> args(n.args.begin(), n.args.end());
      for (ir::Argument& a : args)
        if (a.name == Symbol("self")) a.value = Use{v};
      return rw_.emit(n.op, std::move(args), before.dtype, factors, after.placement, move);
    }
    return reshape(v, factors, after.placement, move);
  }

  ValueId reshape(ValueId v, const Factors& factors, const Placement& placement, NodeId origin) {
    Dims shape = ir::localShape(factors, placement, ir::sequenceRank(g_));
    if (shape == value(v).local) return v;
    return rw_.emit("aten.reshape.default", {{"self", Use{v}}, {"shape", std::move(shape)}}, value(v).dtype, factors, placement, origin);
  }

  void tile(NodeId id, const Head& head) {
    const ir::Node loss = g_.node(id);
    const ir::Value result = value(loss.outputs[0]);
    const ir::Value logits = value(ir::useArg(loss, "self"));
    ValueId x = head.input, weight = head.weight, target = ir::useArg(loss, "target");
    const ir::Value labels = value(target);
    for (NodeId move : head.moves) x = moved(x, move);
    // One dimension of rows: [B, S, D] and labels [B, S] become [B*S, D] and [B*S].
    if (value(x).shape.size() > 2) {
      const ir::Value rows = value(x);
      Factors factors(2);
      Placement placement = rows.placement;
      for (std::size_t d = 0; d + 1 < rows.factors.size(); ++d) {
        if (placement.isSharded() && rows.placement.dim == static_cast<int>(d))
          placement = Placement::sharded(0, static_cast<int>(factors[0].size()) + rows.placement.factor, rows.placement.sizes);
        factors[0].insert(factors[0].end(), rows.factors[d].begin(), rows.factors[d].end());
      }
      factors[1] = rows.factors.back();
      x = reshape(x, factors, placement, id);
      if (labels.shape.size() > 1) target = reshape(target, {factors[0]}, placement, id);
    }
    if (head.weight_is_transposed) {
      const ir::Value w = value(weight);
      const NodeId producer = w.producer;
      const std::string_view base = producer == kNone ? std::string_view() : ir::baseName(g_.node(producer).op);
      if (base == "t") weight = ir::useArg(g_.node(producer), "self");
      else weight = rw_.emit("aten.t.default", {{"self", Use{weight}}}, w.dtype, {w.factors[1], w.factors[0]}, w.placement, id);
    }
    const std::int64_t classes = value(weight).shape[0];
    const std::int64_t widest = std::max<std::int64_t>({4, ir::sizeOf(logits.dtype), ir::sizeOf(value(x).dtype)});
    const std::int64_t rows = std::max<std::int64_t>(1, context_.settings.tile_bytes / std::max<std::int64_t>(1, classes * widest));
    std::vector<ir::Argument> args{{"self", Use{x}}, {"weight", Use{weight}}};
    if (head.bias != kNone) args.push_back({"bias", Use{head.bias}});
    args.push_back({"target", Use{target}});
    args.push_back({"ignore_index", ir::intArg(loss, "ignore_index", -100)});
    args.push_back({"label_smoothing", ir::doubleArg(loss, "label_smoothing", 0)});
    args.push_back({"rows", std::min(rows, std::max<std::int64_t>(1, value(x).local[0]))});
    args.push_back({"steps", ir::formatSteps(head.steps)});
    const Factors row_factors{value(x).factors[0]};
    const Placement row_placement = value(x).placement;
    ValueId out = rw_.emit(ir::kTiledCrossEntropy, std::move(args), logits.dtype, row_factors, row_placement, id, loss.name + "_tiled");
    context_.count("tiled");
    context_.count("logit_bytes", ir::numel(logits.local) * std::max(ir::sizeOf(logits.dtype), ir::sizeOf(value(x).dtype)));
    const std::int64_t reduction = ir::intArg(loss, "reduction", 1);
    if (reduction == 0) {
      out = reshape(out, result.factors, result.placement, id);
    } else {
      out = rw_.emit("aten.sum.default", {{"self", Use{out}}}, logits.dtype, {}, result.placement, id);
      if (reduction == 1) {
        const ir::Value all = value(target);
        const ValueId valid = rw_.emit("aten.ne.Scalar", {{"self", Use{target}}, {"other", ir::intArg(loss, "ignore_index", -100)}}, ir::DType::kBool, all.factors,
                                       all.placement, id);
        const ValueId count = rw_.emit("aten.sum.default", {{"self", Use{valid}}}, ir::DType::kI64, {}, all.placement, id, loss.name + "_valid");
        out = rw_.emit("aten.div.Tensor", {{"self", Use{out}}, {"other", Use{count}}}, logits.dtype, {}, result.placement, id);
      }
    }
    rw_.replace(loss.outputs[0], out);
  }

  ir::Graph& g_;
  const PassContext& context_;
  Rewriter rw_;
  std::vector<std::int32_t> readers_;
};

}  // namespace

Pass tileLossPass() {
  return {{"tile-loss",
           "Make the logits of the loss a block of rows at a time",
           {{"tiled", "losses whose logits never exist whole"},
            {"untiled", "losses left as they are"},
            {"logit_bytes", "bytes of logits on this rank that no longer exist at once"}},
           ir::Form::kLocal,
           ir::Form::kLocal},
          [](const ir::Graph&, const PassContext&) { return Status{}; },
          [](ir::Graph& graph, const PassContext& context) -> Result<bool> {
            if (!context.settings.tile_loss) return false;
            return Tiling(graph, context).run();
          }};
}

}  // namespace spscope::passes
