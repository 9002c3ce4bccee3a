// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/trouble.h"

#include <algorithm>
#include <cmath>

#include "core/ir/pending.h"
#include "core/session/debug/node_query.h"
#include "core/session/debug/trouble_cause.h"
#include "core/session/virtual_programs.h"
#include "core/torch/value_precision.h"

namespace spscope::session::debug {
namespace {

constexpr double kMask = -1e30;         // masks hold the most negative number there is, or minus infinity
constexpr std::size_t kPlaces = 8;      // elements that are looked at where a value is not finite

class Search {
 public:
  Search(const Sides& sides, const Request& request) : sides_(sides), request_(request) {}

  Result<TroubleReport> run() {
    SP_ASSIGN(exec::VirtualRanks ranks, beginRanks(sides_, request_));
    SP_TRY(inputs(ranks));
    const auto nodes = static_cast<std::int64_t>(ranks.program(0).nodeCount());
    while (!out_.first && !ranks.done()) {
      if (ranks.position(0) % 64 == 0) request_.report("looking for NaN", static_cast<std::int64_t>(ranks.position(0)), nodes);
      std::vector<std::size_t> before;
      std::vector<std::vector<Operand>> operands;
      for (int r = 0; r < ranks.ranks(); ++r) {
        before.push_back(ranks.position(r));
        operands.push_back(operandsOf(ranks, r));
      }
      SP_TRY(ranks.stepNode());
      for (int r = 0; r < ranks.ranks(); ++r) {
        const auto i = static_cast<std::size_t>(r);
        if (ranks.position(r) == before[i]) continue;
        const ir::Node& node = ranks.program(r).node(before[i]);
        if (!ir::isStart(node.op)) SP_TRY(look(ranks, r, node, operands[i]));  // its buffers mean nothing before the wait
      }
    }
    return std::move(out_);
  }

 private:
  /// What the rank's next node reads: gone, maybe, once it has run.
  static std::vector<Operand> operandsOf(const exec::VirtualRanks& ranks, int rank) {
    std::vector<Operand> out;
    const exec::Program& program = ranks.program(rank);
    if (ranks.position(rank) >= program.nodeCount()) return out;
    const ir::Node& node = program.node(ranks.position(rank));
    const auto take = [&](const ir::Argument& argument, ir::ValueId v) {
      if (v == ir::kNone) return;
      Operand o{argument.name.str(), v, {}};
      if (auto bag = ranks.value(rank, v)) o.bag = ranks.meets(rank) ? bag->clone() : std::move(*bag);  // exchanges may receive in it
      out.push_back(std::move(o));
    };
    for (const ir::Argument& argument : node.args) {
      if (const auto* use = std::get_if<ir::Use>(&argument.value)) take(argument, use->value);
      if (const auto* list = std::get_if<ir::UseList>(&argument.value))
        for (const ir::Use& use : *list) take(argument, use.value);
    }
    return out;
  }

  Status inputs(const exec::VirtualRanks& ranks) {
    const ir::Graph& g = ranks.program(0).graph();
    for (const ir::Input& input : g.inputs) {
      const auto bag = ranks.value(0, input.value);
      if (!bag || !ir::isFloating(g.value(input.value).dtype)) continue;
      SP_ASSIGN(const exec::ValueScan scan, exec::scanValue(*bag, kPlaces));
      ++out_.values;
      const bool weight = input.kind == ir::InputKind::kParameter;
      if (scan.nan == 0 && (scan.inf == 0 || !weight)) {
        out_.masks += scan.inf > 0;
        continue;
      }
      Trouble t;
      t.input = true;
      t.node.name = t.value = input.name;
      t.node.op = weight ? "weight" : "input";
      t.dtype = g.value(input.value).dtype;
      for (int r = 0; r < ranks.ranks(); ++r) t.ranks.push_back(r);
      describe(*bag, scan, t);
      t.why = weight ? "the weight was so before the step" : "the input was so before the step";
      out_.first = std::move(t);
      return {};
    }
    return {};
  }

  static void describe(const exec::TensorBag& bag, const exec::ValueScan& scan, Trouble& t) {
    t.nan = scan.nan;
    t.inf = scan.inf;
    t.count = scan.count;
    t.is_nan = scan.nan > 0;
    for (const ir::Dims& place : scan.strange) {
      const double x = exec::broadcastElement(bag, bag.entry(0).shape, place).value_or(NAN);
      if (t.is_nan && !std::isnan(x) && scan.nan > 0 && &place != &scan.strange.back()) continue;
      t.index = place;
      t.got = x;
      return;
    }
  }

  /// Minus infinity where an operand is a mask's number, and the op one by which masks are put together.
  static bool isMask(const ir::Node& node, const exec::TensorBag& bag, const exec::ValueScan& scan, const std::vector<Operand>& operands) {
    static constexpr std::string_view kOps[] = {"_to_copy", "to", "add", "sub", "minimum", "where", "masked_fill"};
    if (std::find(std::begin(kOps), std::end(kOps), ir::baseName(node.op)) == std::end(kOps)) return false;
    const ir::Dims shape = bag.entry(0).shape;
    return std::all_of(scan.strange.begin(), scan.strange.end(), [&](const ir::Dims& place) {
      if (exec::broadcastElement(bag, shape, place) != -INFINITY) return false;
      return std::any_of(operands.begin(), operands.end(), [&](const Operand& o) {
        const auto x = o.bag.empty() ? std::nullopt : exec::broadcastElement(o.bag, shape, place);
        return x && *x <= kMask;
      });
    });
  }

  Status look(const exec::VirtualRanks& ranks, int rank, const ir::Node& node, const std::vector<Operand>& operands) {
    const ir::Graph& g = ranks.program(rank).graph();
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ir::ValueId v = node.outputs[i];
      if (v == ir::kNone || !ir::isFloating(g.value(v).dtype)) continue;
      const auto bag = ranks.value(rank, v);
      if (!bag) continue;  // nobody reads it: it is gone already
      SP_ASSIGN(const exec::ValueScan scan, exec::scanValue(*bag, kPlaces));
      ++out_.values;
      if (scan.nan == 0 && scan.inf == 0) continue;
      bool nan_before = false, inf_before = false;
      for (const Operand& o : operands) {
        if (o.bag.empty() || !ir::isFloating(o.bag.entry(0).dtype)) continue;
        SP_ASSIGN(const exec::ValueScan read, exec::scanValue(o.bag, 0));
        nan_before = nan_before || read.nan > 0;
        inf_before = inf_before || read.inf > 0;
      }
      for (const ir::Argument& a : node.args)
        if (const auto* x = std::get_if<double>(&a.value)) inf_before = inf_before || std::isinf(*x) || *x <= kMask;  // masks' numbers are written so, too
      const bool made_nan = scan.nan > 0 && !nan_before;
      const bool made_inf = scan.inf > 0 && !inf_before && !nan_before && !isMask(node, *bag, scan, operands);
      if (!made_nan && !made_inf) {
        out_.masks += scan.nan == 0;
        continue;
      }
      if (out_.first) {  // another rank made the same in this move
        if (out_.first->node.name == node.name) out_.first->ranks.push_back(rank);
        return {};
      }
      out_.first = troubleAt(g, rank, node, operands, i, *bag, scan);
      return {};
    }
    return {};
  }

  static Trouble troubleAt(const ir::Graph& g, int rank, const ir::Node& node, const std::vector<Operand>& operands, std::size_t output, const exec::TensorBag& bag,
                           const exec::ValueScan& scan) {
    Trouble t;
    t.node = nameOf(node, ir::positionsOf(g)[static_cast<std::size_t>(node.id)]);
    t.pass = node.provenance.pass.empty() ? "import" : node.provenance.pass.str();
    t.value = g.value(node.outputs[output]).name;
    t.dtype = g.value(node.outputs[output]).dtype;
    t.ranks = {rank};
    describe(bag, scan, t);
    t.exact = inFloat64(g, node, operands, output, t.index);
    t.why = causeOf(g, node, operands, output, t.index, t.got, t.exact);
    for (const Operand& o : operands) {
      TroubleOperand one;
      one.argument = o.argument;
      one.value = g.value(o.value).name;
      one.dtype = g.value(o.value).dtype;
      one.shape = g.value(o.value).local;
      if (!o.bag.empty()) {
        one.there = exec::broadcastElement(o.bag, bag.entry(0).shape, t.index);
        if (const auto s = exec::summarize(o.bag); s) one.min = s->min, one.max = s->max, one.nan = s->nan, one.inf = s->inf;
      }
      t.operands.push_back(std::move(one));
    }
    return t;
  }

  const Sides& sides_;
  const Request& request_;
  TroubleReport out_;
};

}  // namespace

Result<TroubleReport> firstTrouble(const Sides& sides, const Request& request) { return Search(sides, request).run(); }

}  // namespace spscope::session::debug
