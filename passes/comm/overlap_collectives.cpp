// SPDX-License-Identifier: Apache-2.0
#include "passes/comm/overlap_collectives.h"

#include <algorithm>
#include <map>

#include "core/ir/pending.h"
#include "core/ir/sp_ops.h"
#include "passes/memory/liveness.h"
#include "passes/memory/replay_plan.h"

namespace spscope::passes {
namespace {

using ir::kNone;
using ir::NodeId;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// What may be moved: both ends of one collective.
struct Move {
  NodeId start = kNone, wait = kNone;
  bool early = true, late = true;
};

class Overlapper {
 public:
  explicit Overlapper(const ir::Graph& graph) : g_(graph), move_of_(graph.nodeCount(), -1) {
    for (const NodeId id : g_.order) {
      const ir::Node& n = g_.node(id);
      if (ir::isStart(n.op)) {
        move_of_[at(id)] = static_cast<std::int32_t>(moves.size());
        moves.push_back({id, kNone, true, true});
      } else if (n.op == ir::sp::kWait) {
        const NodeId start = g_.value(std::get<ir::UseList>(*n.find("self")).front().value).producer;
        move_of_[at(id)] = move_of_[at(start)];
        moves[at(move_of_[at(id)])].wait = id;
      }
    }
    findTails();
  }

  std::vector<Move> moves;  ///< in the order of their starts

  /// The program with the moves that are still wanted.
  std::vector<NodeId> order() const { return lateWaits(earlyStarts()); }

 private:
  template <typename F>
  void forEachProducer(NodeId id, F&& f) const {
    ir::forEachUse(g_.node(id), [&](const ir::Use& use) {
      if (g_.value(use.value).producer != kNone) f(g_.value(use.value).producer);
    });
  }
  bool isView(const ir::Node& n) const {
    return std::all_of(n.outputs.begin(), n.outputs.end(), [&](ir::ValueId v) { return v == kNone || g_.value(v).storage != kNone; });
  }

  /// The storages that a start changes: a sum in its operands' own memory. Whoever reads them as they were goes before it.
  std::vector<ir::ValueId> changedBy(const ir::Node& n) const {
    std::vector<ir::ValueId> out;
    if (!ir::isStart(n.op) || ir::plainOf(n.op) != ir::sp::kAllReduce) return out;
    for (const ir::ValueId v : n.outputs)
      if (v != kNone && g_.value(v).storage != kNone) out.push_back(g_.value(v).storage);
    return out;
  }
  bool reads(NodeId id, const std::vector<ir::ValueId>& storages) const {
    bool any = false;
    ir::forEachUse(g_.node(id), [&](const ir::Use& use) {
      const ir::Value& v = g_.value(use.value);
      any = any || std::find(storages.begin(), storages.end(), v.storage == kNone ? v.id : v.storage) != storages.end();
    });
    return any;
  }

  /// Waits that no start needs, and everything that follows from their results.
  void findTails() {
    tail_.assign(g_.nodeCount(), false);
    std::vector<bool> needed(g_.nodeCount(), false);
    for (auto it = g_.order.rbegin(); it != g_.order.rend(); ++it) {
      if (!ir::isStart(g_.node(*it).op) && !needed[at(*it)]) continue;
      forEachProducer(*it, [&](NodeId p) {
        if (!ir::isStart(g_.node(p).op)) needed[at(p)] = true;
      });
    }
    for (const NodeId id : g_.order) {
      const ir::Node& n = g_.node(id);
      bool tail = n.op == ir::sp::kWait && !needed[at(id)] && n.phase == ir::Phase::kBackward;
      forEachProducer(id, [&](NodeId p) { tail = tail || tail_[at(p)]; });
      tail_[at(id)] = tail;
    }
  }

  /// Each start with all that it needs goes before whatever else stands between it and the start, or the wait, before.
  std::vector<NodeId> earlyStarts() const {
    std::vector<NodeId> out, between;
    std::vector<bool> needed(g_.nodeCount(), false);
    out.reserve(g_.order.size());
    for (const NodeId id : g_.order) {
      between.push_back(id);
      if (move_of_[at(id)] < 0 || !ir::isStart(g_.node(id).op)) continue;
      if (moves[at(move_of_[at(id)])].early) {
        needed[at(id)] = true;
        const std::vector<ir::ValueId> changed = changedBy(g_.node(id));
        for (auto it = between.rbegin(); it != between.rend(); ++it) {
          if (!changed.empty() && reads(*it, changed)) needed[at(*it)] = true;
          if (needed[at(*it)]) forEachProducer(*it, [&](NodeId p) { needed[at(p)] = true; });
        }
        // Not beyond the last wait that it needs: what was put off behind that one's start is to be done before it.
        auto from = between.begin();
        for (auto it = between.begin(); it != between.end(); ++it)
          if (needed[at(*it)] && g_.node(*it).op == ir::sp::kWait) from = it + 1;
        // A forward node never falls behind a backward one.
        const auto first = std::stable_partition(from, between.end(), [&](NodeId n) {
          return needed[at(n)] || (g_.node(n).phase == ir::Phase::kForward && g_.node(id).phase != ir::Phase::kForward);
        });
        out.insert(out.end(), between.begin(), first);
        between.erase(between.begin(), first);
      } else {
        out.insert(out.end(), between.begin(), between.end());
        between.clear();
      }
      std::fill(needed.begin(), needed.end(), false);
    }
    out.insert(out.end(), between.begin(), between.end());
    return out;
  }

  /// Each wait is held back, and views of its results with it, until a node computes with them.
  std::vector<NodeId> lateWaits(const std::vector<NodeId>& program) const {
    std::vector<NodeId> out;
    out.reserve(program.size());
    std::vector<std::int32_t> held(g_.nodeCount(), -1);  // by node: the move that holds it
    std::map<std::int32_t, std::vector<NodeId>> waiting; // by move, in program order
    std::vector<NodeId> end;                             // tails, in program order
    std::vector<bool> at_end(g_.nodeCount(), false);
    const auto release = [&](std::int32_t move) {
      for (const NodeId id : waiting[move]) {
        out.push_back(id);
        held[at(id)] = -1;
      }
      waiting.erase(move);
    };
    bool forward = true;
    for (const NodeId id : program) {
      const ir::Node& n = g_.node(id);
      if (forward && n.phase != ir::Phase::kForward) {
        while (!waiting.empty()) release(waiting.begin()->first);
        forward = false;
      }
      if (const std::vector<ir::ValueId> changed = changedBy(n); !changed.empty()) {
        const auto reader = [&](NodeId r) { return reads(r, changed); };
        std::vector<std::int32_t> before;
        const bool tails = std::any_of(end.begin(), end.end(), reader);
        for (const auto& [move, nodes] : waiting)
          if (tails || std::any_of(nodes.begin(), nodes.end(), reader)) before.push_back(move);
        for (const std::int32_t move : before) release(move);
        if (tails) {
          for (const NodeId tail : end) at_end[at(tail)] = false;
          out.insert(out.end(), end.begin(), end.end());
          end.clear();
        }
      }
      const bool wait = n.op == ir::sp::kWait;
      bool follows = false;  // of a tail that went to the end
      std::vector<std::int32_t> holders;
      forEachProducer(id, [&](NodeId p) {
        follows = follows || at_end[at(p)];
        const std::int32_t h = held[at(p)];
        if (h >= 0 && std::find(holders.begin(), holders.end(), h) == holders.end()) holders.push_back(h);
      });
      if (tail_[at(id)] && (follows || (wait && moves[at(move_of_[at(id)])].late))) {
        end.push_back(id);
        at_end[at(id)] = true;
      } else if (wait && moves[at(move_of_[at(id)])].late) {
        waiting[move_of_[at(id)]].push_back(id);
        held[at(id)] = move_of_[at(id)];
      } else if (holders.size() == 1 && (isView(n) || n.op == ir::sp::kUnpack) && !ir::isStart(n.op) && !wait) {
        waiting[holders[0]].push_back(id);
        held[at(id)] = holders[0];
      } else {
        std::sort(holders.begin(), holders.end());
        for (const std::int32_t h : holders) release(h);
        out.push_back(id);
      }
    }
    while (!waiting.empty()) release(waiting.begin()->first);
    out.insert(out.end(), end.begin(), end.end());
    return out;
  }

  const ir::Graph& g_;
  std::vector<std::int32_t> move_of_;  ///< by node: of a start or a wait
  std::vector<bool> tail_;             ///< by node: follows from sums that only outputs need
};

constexpr int kRounds = 8;

Result<bool> run(ir::Graph& graph, const PassContext& context) {
  if (context.settings.communication != "overlap") return false;
  Overlapper overlapper(graph);
  if (overlapper.moves.empty()) return false;
  const std::vector<NodeId> before = graph.order;
  // Only the order changes: what the nodes take is looked up once.
  const StepModel model(graph, livenessOptions(context.settings, context.services), nominalRates("cpu"));
  MemoryCurve curve = curveInOrder(model, before, false);
  const std::int64_t bound = curve.peak;

  std::int64_t taken_back = 0;
  std::vector<NodeId> order = overlapper.order();
  for (int round = 0;; ++round) {
    SP_TRY(context.cancel.check());
    curve = curveInOrder(model, order, false);
    if (curve.peak <= bound || round == kRounds) break;
    // Exchanges first: a sum that goes on behind them in its operand's own memory costs nothing.
    // Then the same from the start before on: what a start needs was computed earlier, beside what was put off for it.
    std::vector<std::int64_t> place(graph.nodeCount(), 0);
    for (std::size_t i = 0; i < order.size(); ++i) place[at(order[i])] = static_cast<std::int64_t>(i);
    std::int64_t fewer = 0;
    for (int attempt = 0; attempt < 4 && fewer == 0; ++attempt) {
      const bool wide = attempt >= 2, sums = attempt % 2 == 1;
      for (std::size_t i = 0; i < overlapper.moves.size(); ++i) {
        Move& m = overlapper.moves[i];
        if ((!m.early && !m.late) || (ir::plainOf(graph.node(m.start).op) == ir::sp::kAllReduce) != sums) continue;
        const std::int64_t from = !wide ? place[at(m.start)] : i == 0 ? 0 : place[at(overlapper.moves[i - 1].start)];
        const bool over = std::any_of(curve.live.begin() + from, curve.live.begin() + place[at(m.wait)] + 1, [&](std::int64_t live) { return live > bound; });
        if (over) m.early = m.late = false, ++fewer;
      }
    }
    if (fewer == 0) break;
    taken_back += fewer;
    order = overlapper.order();
  }
  if (curve.peak > bound) {
    taken_back = static_cast<std::int64_t>(overlapper.moves.size());
    curve = curveInOrder(model, before, false);
  } else {
    graph.order = order;
  }
  context.count("moved", static_cast<std::int64_t>(overlapper.moves.size()) - taken_back);
  context.count("taken-back", taken_back);
  context.count("predicted-peak-bytes", curve.peak);
  return graph.order != before;
}

}  // namespace

Pass overlapCollectivesPass() {
  return {{"overlap-collectives",
           "Start collectives as early and wait for them as late as dependences and memory allow",
           {{"moved", "collectives whose start or wait may move"},
            {"taken-back", "those that would have raised the peak"},
            {"predicted-peak-bytes", "predicted peak of the step"}},
           ir::Form::kJoint,
           ir::Form::kJoint},
          [](const ir::Graph&, const PassContext&) { return Status{}; },
          run};
}

}  // namespace spscope::passes
