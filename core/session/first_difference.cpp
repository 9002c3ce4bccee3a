// SPDX-License-Identifier: Apache-2.0
#include "core/session/first_difference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/base/strings.h"
#include "core/ir/pending.h"
#include "core/session/value_map.h"
#include "core/session/value_scale.h"
#include "core/session/virtual_programs.h"
#include "core/torch/shards.h"
#include "core/torch/value_compare.h"

namespace spscope::session {
namespace {

using exec::TensorBag;
using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

constexpr std::int64_t kBudget = std::int64_t{1} << 30;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

const Graph& graphOf(const exec::VirtualRanks& ranks, int rank) { return ranks.program(rank).graph(); }

/// What the unsharded run left behind.
struct Reference {
  std::map<ValueId, TensorBag> kept;    ///< the stretch under comparison
  exec::StepResult result;
};

class Comparer {
 public:
  Comparer(const Sides& sides, const Request& request) : sides_(sides), request_(request), ref_(*sides.reference), scales_(ref_, sides.tolerance.floor) {}

  Result<ValueComparison> run() {
    SP_ASSIGN(exec::VirtualRanks reference, prepareRanks({sides_.reference}, sides_.state));
    SP_ASSIGN(exec::VirtualRanks sharded, prepareRanks(sides_.programs, sides_.state));
    if (sides_.values) {
      for (const auto& graph : sides_.programs) {
        maps_.push_back(counterpartsOf(*graph, ref_));
        if (sides_.unsettled) dropSums(*graph, maps_.back());
      }
      outers_ = shardOuters(*sides_.programs.front());
      countAlone();
      findExtras();
    }
    order();
    std::size_t begin = 0;
    do {  // once, even where nothing is to be kept: the results are compared too
      const std::size_t end = stretchFrom(begin);
      SP_TRY(runReference(reference, begin, end));
      SP_TRY(runSharded(sharded, begin));
      begin = end;
      const bool found = best_.first && begin > 0 && best_.position <= position_[static_cast<std::size_t>(wanted_[begin - 1])];
      if (found) break;  // what comes later in the program cannot be the first
    } while (begin < wanted_.size());
    out_.first = std::move(best_.first);
    return std::move(out_);
  }

 private:
  static void dropSums(const Graph& graph, std::vector<Counterpart>& map) {
    std::vector<bool> open(graph.valueCount(), false);
    for (const NodeId id : graph.order) {
      const Node& n = graph.node(id);
      bool from_open = false;
      ir::forEachUse(n, [&](const ir::Use& use) { from_open = from_open || open[static_cast<std::size_t>(use.value)]; });
      for (const ValueId v : n.outputs) {
        if (v == ir::kNone || !(from_open || graph.value(v).placement.isPartial())) continue;
        open[static_cast<std::size_t>(v)] = true;
        map[static_cast<std::size_t>(v)].reference = ir::kNone;
      }
    }
  }

  void countAlone() {
    const Graph& g = *sides_.programs.front();
    for (const NodeId id : g.order)
      for (const ValueId v : g.node(id).outputs)
        out_.alone += !ir::isStart(g.node(id).op) && v != ir::kNone && maps_.front()[static_cast<std::size_t>(v)].reference == ir::kNone;
  }

  /// What some rank makes and others do not have: it is compared with what the others have of the same value.
  void findExtras() {
    std::map<std::string, int> ranks_with;
    for (const auto& program : sides_.programs)
      for (const NodeId id : program->order)
        for (const ValueId v : program->node(id).outputs)
          if (v != ir::kNone) ++ranks_with[program->value(v).name];
    for (std::size_t r = 0; r < sides_.programs.size(); ++r)
      for (const NodeId id : sides_.programs[r]->order)
        for (const ValueId v : sides_.programs[r]->node(id).outputs) {
          if (v == ir::kNone || ranks_with[sides_.programs[r]->value(v).name] == std::ssize(sides_.programs)) continue;
          const ValueId reference = maps_[r][static_cast<std::size_t>(v)].reference;
          if (reference != ir::kNone) extras_.insert(sides_.programs[r]->value(v).name), latest_.try_emplace(reference);
        }
  }

  /// Values of the reference that are wanted, in program order; its inputs first.
  void order() {
    position_.assign(ref_.valueCount(), -1);
    std::vector<bool> has(ref_.valueCount(), false);
    for (std::size_t r = 0; r < maps_.size(); ++r)
      for (const NodeId id : sides_.programs[r]->order)
        for (const ValueId v : sides_.programs[r]->node(id).outputs)
          if (v != ir::kNone && maps_[r][static_cast<std::size_t>(v)].reference != ir::kNone) has[static_cast<std::size_t>(maps_[r][static_cast<std::size_t>(v)].reference)] = true;
    for (const ir::Input& in : ref_.inputs)
      if (in.kind == ir::InputKind::kUser && has[static_cast<std::size_t>(in.value)]) wanted_.push_back(in.value);
    std::int64_t at = 0;
    for (const NodeId id : ref_.order) {
      for (const ValueId v : ref_.node(id).outputs) {
        if (v == ir::kNone) continue;
        position_[static_cast<std::size_t>(v)] = at;
        if (has[static_cast<std::size_t>(v)]) wanted_.push_back(v);
      }
      ++at;
    }
  }

  std::size_t stretchFrom(std::size_t begin) const {
    const std::int64_t budget = sides_.budget_bytes > 0 ? sides_.budget_bytes : kBudget;
    std::int64_t bytes = 0;
    std::size_t end = begin;
    for (; end < wanted_.size(); ++end) {
      const ir::Value& v = ref_.value(wanted_[end]);
      const std::int64_t own = v.storage == ir::kNone ? v.localBytes() : 0;
      if (end > begin && bytes + own > budget) break;
      bytes += own;
    }
    return end;
  }

  /// Keeps the wanted values [begin, end). The first time through to the results, later only as far as needed.
  Status runReference(exec::VirtualRanks& ranks, std::size_t begin, std::size_t end) {
    request_.report("unsharded values", static_cast<std::int64_t>(begin), static_cast<std::int64_t>(wanted_.size()));
    reference_.kept.clear();
    const bool first = !std::exchange(measured_, true);
    std::vector<bool> keep(ref_.valueCount(), false);
    for (std::size_t i = begin; i < end; ++i) keep[static_cast<std::size_t>(wanted_[i])] = true;
    SP_TRY(ranks.begin(sides_.inputs, options()));
    if (first && sides_.values) SP_TRY(scales_.measureInputs(ranks));
    for (std::size_t i = begin; i < end; ++i)
      if (ref_.value(wanted_[i]).producer == ir::kNone)
        if (auto value = ranks.value(0, wanted_[i])) reference_.kept.emplace(wanted_[i], std::move(*value));
    const std::int64_t last = end > begin ? position_[static_cast<std::size_t>(wanted_[end - 1])] : -1;
    while (!ranks.done()) {
      const std::size_t at = ranks.position(0);
      if (!first && static_cast<std::int64_t>(at) > last) return {};
      const Node& n = ranks.program(0).node(at);
      SP_TRY(ranks.stepNode());
      if (first && sides_.values) SP_TRY(scales_.measure(ranks, n));
      for (const ValueId v : n.outputs) {
        if (v == ir::kNone || !keep[static_cast<std::size_t>(v)]) continue;
        if (auto value = ranks.value(0, v)) reference_.kept.emplace(v, std::move(*value));
      }
    }
    SP_ASSIGN(std::vector<exec::StepResult> results, ranks.finish());
    reference_.result = std::move(results.front());
    return {};
  }

  struct Parts {
    std::vector<TensorBag> of_rank;
    int have = 0;
  };

  Status runSharded(exec::VirtualRanks& ranks, std::size_t begin) {
    request_.report("sharded values", static_cast<std::int64_t>(begin), static_cast<std::int64_t>(wanted_.size()));
    ++out_.runs;
    std::map<std::pair<ValueId, std::string>, Parts> open;  // parts that have come so far
    for (auto& [reference, parts] : latest_) parts.clear();
    SP_TRY(ranks.begin(sides_.inputs, options()));
    std::vector<std::size_t> before(static_cast<std::size_t>(ranks.ranks()));
    while (!ranks.done()) {
      for (int r = 0; r < ranks.ranks(); ++r) before[static_cast<std::size_t>(r)] = ranks.position(r);
      SP_TRY(ranks.stepNode());
      if (maps_.empty()) continue;
      for (int r = 0; r < ranks.ranks(); ++r) {
        const std::size_t at = before[static_cast<std::size_t>(r)];
        if (ranks.position(r) == at) continue;
        const Node& n = ranks.program(r).node(at);
        for (const ValueId v : n.outputs) {
          if (v == ir::kNone) continue;
          const Counterpart& c = maps_[static_cast<std::size_t>(r)][static_cast<std::size_t>(v)];
          if (c.reference == ir::kNone || !reference_.kept.contains(c.reference)) continue;
          auto value = ranks.value(r, v);
          if (!value) continue;  // nobody reads it: it is gone already
          const std::string& name = graphOf(ranks, r).value(v).name;
          if (const auto latest = latest_.find(c.reference); latest != latest_.end()) {
            latest->second.resize(static_cast<std::size_t>(ranks.ranks()));
            latest->second[static_cast<std::size_t>(r)] = *value;
            if (extras_.contains(name)) {
              const auto& parts = latest->second;
              if (std::none_of(parts.begin(), parts.end(), [](const TensorBag& part) { return part.empty(); })) SP_TRY(compare(n, v, graphOf(ranks, r), c, parts));
              continue;
            }
          }
          Parts& parts = open[{c.reference, name}];
          parts.of_rank.resize(static_cast<std::size_t>(ranks.ranks()));
          parts.of_rank[static_cast<std::size_t>(r)] = std::move(*value);
          if (++parts.have < ranks.ranks()) continue;
          SP_TRY(compare(n, v, graphOf(ranks, r), c, parts.of_rank));
          open.erase({c.reference, graphOf(ranks, r).value(v).name});
        }
      }
    }
    SP_ASSIGN(std::vector<exec::StepResult> results, ranks.finish());
    if (sides_.unsettled) out_.equal = !best_.first;
    if (out_.runs != 1 || sides_.unsettled) return {};
    SP_TRY(joinBlocks(results));
    return compareResults(ranks, results);
  }

  /// From shard-optimizer on (--zero 1) each rank has its blocks of the gradients only: what they make up is compared, as verify does.
  Status joinBlocks(std::vector<exec::StepResult>& results) const {
    const TensorBag& wanted = reference_.result.gradients;
    bool blocks = false;
    for (const exec::StepResult& r : results)
      for (const std::string& name : r.gradients.names()) {
        if (!wanted.contains(name)) continue;
        SP_ASSIGN(const TensorBag::Entry have, r.gradients.entry(name));
        SP_ASSIGN(const TensorBag::Entry whole, wanted.entry(name));
        blocks = blocks || ir::numel(have.shape) < ir::numel(whole.shape);
      }
    if (!blocks) return {};
    std::vector<TensorBag> bags;
    for (const exec::StepResult& r : results) bags.push_back(r.gradients);
    SP_ASSIGN(const TensorBag joined, exec::joinShards(bags, wanted));
    for (exec::StepResult& r : results) r.gradients = joined;
    return {};
  }

  Status compare(const Node& n, ValueId v, const Graph& graph, const Counterpart& c, const std::vector<TensorBag>& parts) {
    const TensorBag& whole = reference_.kept.at(c.reference);
    SP_ASSIGN(std::optional<Nearest> nearest, nearestTo(whole, parts, c.how, outers_));
    if (!nearest) return {};
    ++out_.compared;
    const exec::ValueDifference& difference = nearest->difference;
    const bool is_float = ir::isFloating(graph.value(v).dtype);
    const double scale = is_float ? std::max(difference.norm, scales_.of(c.reference)) : difference.norm;
    const double allowed = is_float ? sides_.tolerance.gradient * scale : 0.0;
    if (difference.error <= allowed) {
      right_.insert(graph.value(v).name);
      return {};
    }
    FirstDifference d = describe(graph, n, v);
    d.not_compared = notCompared(n.name);
    const NodeId made_by = ref_.value(c.reference).producer;
    d.reference_node = made_by == ir::kNone ? ref_.value(c.reference).name : ref_.node(made_by).name;
    d.placement = placementWords(nearest->how);
    d.rel = scale > 0.0 ? difference.error / scale : kInfinity;
    d.max_abs = difference.max_abs;
    d.max_rel = difference.max_rel;
    d.shape = whole.entry(0).shape;
    d.index = difference.worst;
    d.got = difference.got;
    d.wanted = difference.wanted;
    d.ranks = offRanks(difference.rank_error, allowed, static_cast<int>(parts.size()));
    if (nearest->how.kind == ir::PlacementKind::kReplicated) {
      const exec::Assembly sum{ir::PlacementKind::kPartial};
      SP_ASSIGN(const exec::ValueDifference as_sum, exec::compareValue(parts, whole, sum));
      if (as_sum.error <= allowed) d.remark = kSumIsMissing;
    }
    offer(position_[static_cast<std::size_t>(c.reference)], std::move(d));
    return {};
  }

  /// See FirstDifference::not_compared. A rank may have nodes that others do not have, and its values may have come from them.
  std::vector<std::string> notCompared(const std::string& name) const {
    std::set<std::string> found;
    std::vector<std::string> open{name}, out;
    std::vector<std::unordered_map<std::string, NodeId>> nodes;
    std::vector<const Graph*> graphs;
    for (const auto& program : sides_.programs) {
      if (std::find(graphs.begin(), graphs.end(), program.get()) != graphs.end()) continue;
      graphs.push_back(program.get());
      for (auto& by_name = nodes.emplace_back(); const NodeId id : program->order) by_name.emplace(program->node(id).name, id);
    }
    while (!open.empty()) {
      const std::string at = std::move(open.back());
      open.pop_back();
      for (std::size_t i = 0; i < graphs.size(); ++i) {
        const auto id = nodes[i].find(at);
        if (id == nodes[i].end()) continue;
        ir::forEachUse(graphs[i]->node(id->second), [&](const ir::Use& use) {
          const ir::Value& v = graphs[i]->value(use.value);
          if (v.producer == ir::kNone || right_.contains(v.name)) return;
          if (const std::string& made_by = graphs[i]->node(v.producer).name; found.insert(made_by).second) open.push_back(made_by);
        });
      }
    }
    for (const Graph* graph : graphs)
      for (const NodeId id : graph->order)
        if (found.erase(graph->node(id).name) > 0) out.push_back(graph->node(id).name);
    return out;
  }

  static FirstDifference describe(const Graph& graph, const Node& n, ValueId v) {
    FirstDifference d;
    d.node = n.name;
    d.node_id = n.id;
    if (v != ir::kNone) d.value = graph.value(v).name;
    d.op = n.op.str();
    d.phase = n.phase;
    d.pass = n.provenance.pass.empty() ? "import" : n.provenance.pass.str();
    if (n.location) d.source = n.location->source, d.module = n.location->module_path;
    return d;
  }

  /// Loss and gradients, as verify compares them.
  Status compareResults(const exec::VirtualRanks& ranks, const std::vector<exec::StepResult>& results) {
    const exec::StepResult& wanted = reference_.result;
    out_.equal = true;
    out_.reference_loss = wanted.loss;
    for (std::size_t r = 0; r < results.size(); ++r) {
      const exec::StepResult& got = results[r];
      const Graph& graph = graphOf(ranks, static_cast<int>(r));
      if (wanted.has_loss && got.has_loss) {
        const double rel = exec::relativeError(got.loss, wanted.loss);
        if (r == 0 || !(rel <= out_.loss_rel)) out_.loss = got.loss, out_.loss_rel = rel;
        if (!(rel <= sides_.tolerance.loss)) {
          out_.equal = false;
          FirstDifference d = atOutput(graph, ir::OutputKind::kLoss, -1);
          d.parameter = "loss";
          d.rel = d.max_rel = rel;
          d.max_abs = std::abs(got.loss - wanted.loss);
          d.got = got.loss;
          d.wanted = wanted.loss;
          double sum = 0.0;
          for (const exec::StepResult& other : results) sum += other.loss;
          if (results.size() > 1 && exec::relativeError(sum, wanted.loss) <= sides_.tolerance.loss) d.remark = kSumIsMissing;
          offerResult(ir::OutputKind::kLoss, -1, static_cast<int>(r), std::move(d));
        }
      }
      if (got.gradients.empty() && graph.form != ir::Form::kJoint) continue;  // a forward alone
      out_.gradients = true;
      SP_ASSIGN(const exec::GradientComparison all, exec::compareGradients(got.gradients, wanted.gradients, sides_.tolerance.floor));
      out_.grad_rel_max = std::max(out_.grad_rel_max, all.rel_max);
      for (const exec::ParameterDifference& p : all.parameters) {
        if (p.rel <= sides_.tolerance.gradient) continue;
        out_.equal = false;
        const int input = inputNamed(p.name);
        FirstDifference d = atOutput(graph, ir::OutputKind::kGradient, input);
        d.parameter = p.name;
        d.rel = p.rel;
        d.max_abs = std::abs(p.got - p.wanted);
        d.max_rel = p.wanted == 0.0 ? kInfinity : d.max_abs / std::abs(p.wanted);
        d.got = p.got;
        d.wanted = p.wanted;
        SP_TRY(remarkOnSum(results, p.name, &d));
        offerResult(ir::OutputKind::kGradient, input, static_cast<int>(r), std::move(d));
      }
    }
    return {};
  }

  Status remarkOnSum(const std::vector<exec::StepResult>& results, const std::string& name, FirstDifference* d) {
    std::vector<TensorBag> parts;
    TensorBag whole;
    if (!reference_.result.gradients.contains(name)) return {};
    SP_TRY(whole.share(reference_.result.gradients, name));
    for (const exec::StepResult& r : results) {
      if (!r.gradients.contains(name)) {
        d->remark = "the program does not compute this gradient";
        return {};
      }
      TensorBag part;
      SP_TRY(part.share(r.gradients, name));
      parts.push_back(std::move(part));
    }
    SP_ASSIGN(const exec::ValueDifference sum, exec::compareValue(parts, whole, {ir::PlacementKind::kPartial}));
    d->shape = whole.entry(0).shape;
    d->index = sum.worst;
    if (parts.size() > 1 && sum.error <= sides_.tolerance.gradient * sum.norm) d->remark = kSumIsMissing;
    return {};
  }

  int inputNamed(const std::string& name) const {
    for (std::size_t i = 0; i < ref_.inputs.size(); ++i)
      if (ref_.inputs[i].name == name) return static_cast<int>(i);
    return -1;
  }

  /// The node that gives a result, on a rank; of the unsharded program where the rank has no such result.
  FirstDifference atOutput(const Graph& graph, ir::OutputKind kind, int input) const {
    for (const Graph* g : {&graph, &ref_})
      for (const ir::Output& out : g->outputs) {
        if (out.kind != kind || (input >= 0 && out.input != input) || out.value == ir::kNone) continue;
        const NodeId producer = g->value(out.value).producer;
        if (producer == ir::kNone) continue;
        FirstDifference d = describe(*g, g->node(producer), out.value);
        if (g == &graph && !maps_.empty()) d.not_compared = notCompared(graph.node(producer).name);
        if (g == &ref_) d.node_id = ir::kNone;
        d.placement = "replicated";
        return d;
      }
    return {};
  }

  void offerResult(ir::OutputKind kind, int input, int rank, FirstDifference d) {
    std::int64_t position = static_cast<std::int64_t>(ref_.order.size());
    for (const ir::Output& out : ref_.outputs)
      if (out.kind == kind && (input < 0 || out.input == input) && out.value != ir::kNone && position_[static_cast<std::size_t>(out.value)] >= 0) {
        position = position_[static_cast<std::size_t>(out.value)];
        d.reference_node = ref_.node(ref_.value(out.value).producer).name;
      }
    if (best_.first && best_.position == position && best_.first->parameter == d.parameter && !d.parameter.empty()) {
      best_.first->ranks.push_back(rank);
      return;
    }
    d.ranks = {rank};
    offer(position, std::move(d));
  }

  /// Of the same place in the unsharded program the one that was computed first.
  void offer(std::int64_t position, FirstDifference d) {
    if (best_.first && best_.position <= position) return;
    best_.position = position;
    best_.first = std::move(d);
  }

  exec::StepOptions options() const {
    exec::StepOptions o = sides_.step;
    o.observer = nullptr;
    o.cancel = request_.cancel;
    return o;
  }

  static constexpr const char* kSumIsMissing = "the values of the ranks add up to the right one: a sum over the ranks is missing";

  const Sides& sides_;
  const Request& request_;
  const Graph& ref_;
  std::vector<std::vector<Counterpart>> maps_;  ///< by rank
  std::vector<std::int64_t> outers_;
  std::vector<ValueId> wanted_;
  std::vector<std::int64_t> position_;  ///< of a reference value's node in its program
  Reference reference_;
  std::set<std::string> extras_;  ///< values that not every rank's program has
  std::map<ValueId, std::vector<TensorBag>> latest_;  ///< by value of the reference that such a one stands for: the parts that were made last
  std::set<std::string> right_;  ///< names of values that were compared and agree
  ValueScales scales_;     ///< of the reference
  bool measured_ = false;
  ValueComparison out_;
  struct {
    std::int64_t position = 0;
    std::optional<FirstDifference> first;
  } best_;
};

}  // namespace

Result<ValueComparison> compareValues(const Sides& sides, const Request& request) { return Comparer(sides, request).run(); }

}  // namespace spscope::session
