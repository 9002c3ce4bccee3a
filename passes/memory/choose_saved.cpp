// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/choose_saved.h"

#include <algorithm>
#include <cmath>

#include "passes/memory/saving.h"
#include "passes/memory/tags.h"

namespace spscope::passes {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

SavingPoint pointOf(double price, const Plan& plan, const MemoryCurve& curve) {
  return {price,           curve.saved_bytes,   plan.rerun_ns, plan.rerun_flops, plan.rerun_nodes,
          plan.rerun_matmuls, curve.peak, curve.working_peak};
}

/// The choices met so far, by rising price.
class PriceSearch {
 public:
  PriceSearch(const StepModel& model, SavingSolver& solver) : model_(model), solver_(solver) {}

  struct Candidate {
    Decisions decisions;
    SavingPoint point;
    ClassBytes at_peak{};
  };
  std::vector<Candidate> candidates;

  /// Adds the choice of this price; false where it is one that is known.
  bool tryPrice(double price) {
    Decisions decisions = solver_.solve(price);
    for (const Candidate& c : candidates)
      if (c.decisions == decisions) return false;
    const Plan plan = planReplay(model_, decisions);
    const MemoryCurve curve = curveOf(model_, plan, decisions, false);
    const auto place = std::find_if(candidates.begin(), candidates.end(),
                                    [&](const Candidate& c) { return c.point.price > price; });
    candidates.insert(place, {std::move(decisions), pointOf(price, plan, curve), curve.at_peak});
    return true;
  }

  std::size_t best() const {
    std::size_t best = 0;
    for (std::size_t i = 1; i < candidates.size(); ++i) {
      const SavingPoint& a = candidates[i].point;
      const SavingPoint& b = candidates[best].point;
      if (a.peak_bytes < b.peak_bytes || (a.peak_bytes == b.peak_bytes && a.recompute_ns < b.recompute_ns)) best = i;
    }
    return best;
  }

 private:
  const StepModel& model_;
  SavingSolver& solver_;
};

/// The price at which two choices cost the same: if any choice is optimal between them, it is at this price.
double meetingPrice(const SavingPoint& a, const SavingPoint& b) {
  const double bytes = static_cast<double>(b.saved_bytes - a.saved_bytes);
  const double ns = static_cast<double>(a.recompute_ns - b.recompute_ns);
  const double price = ns > 0 ? bytes / ns : 0;
  // Views that serve both sides and storages that stay anyway make the two differ from the cut's own sums: stay between.
  return price > a.price && price < b.price ? price : std::sqrt(std::max(a.price, 1e-12) * b.price);
}

constexpr int kGridPoints = 20;
constexpr int kRefinements = 12;

}  // namespace

Result<SavingChoice> searchSaving(const StepModel& model, const std::vector<bool>& long_values, const CancelToken& cancel) {
  SavingChoice choice;
  choice.report.policy = "sac";
  {
    const Decisions all = saveAll(model);
    const Plan plan = planReplay(model, all);
    choice.report.save_all = pointOf(0, plan, curveOf(model, plan, all, false));
  }
  const Segments segments = findSegments(model);
  SavingSolver solver(model, long_values, segments);
  choice.segments = segments.count;
  choice.distinct_segments = solver.distinctSegments();

  // A whole chain may be worth less per nanosecond than any of its nodes: start well below the cheapest ratio.
  auto [low, high] = solver.ratios();
  if (high <= 0) low = high = 1;
  low /= 32;
  high *= 2;
  PriceSearch search(model, solver);
  for (int i = 0; i < kGridPoints; ++i) {
    SP_TRY(cancel.check());
    search.tryPrice(low * std::pow(high / low, static_cast<double>(i) / (kGridPoints - 1)));
  }
  // Between the best choice and its neighbours, until they are neighbours indeed.
  for (int i = 0; i < kRefinements; ++i) {
    SP_TRY(cancel.check());
    const std::size_t best = search.best();
    const auto& found = search.candidates;
    bool fresh = false;
    double below = best > 0 ? meetingPrice(found[best - 1].point, found[best].point) : -1;
    double above = best + 1 < found.size() ? meetingPrice(found[best].point, found[best + 1].point) : -1;
    if (below > 0) fresh = search.tryPrice(below);
    if (above > 0) fresh = search.tryPrice(above) || fresh;
    if (!fresh) break;
  }

  // What the schedule will make of those that are near the best; it may change which one is.
  const auto limit = static_cast<std::int64_t>(1.08 * static_cast<double>(search.candidates[search.best()].point.peak_bytes));
  for (auto& candidate : search.candidates) {
    if (candidate.point.peak_bytes > limit) continue;
    SP_TRY(cancel.check());
    MemoryCurve curve;
    const Plan plan = planTightly(model, candidate.decisions, &curve);
    candidate.point = pointOf(candidate.point.price, plan, curve);
    candidate.at_peak = curve.at_peak;
  }

  const std::size_t best = search.best();
  for (const auto& candidate : search.candidates) choice.report.points.push_back(candidate.point);
  choice.report.chosen = static_cast<int>(best);
  choice.report.at_peak = search.candidates[best].at_peak;
  choice.decisions = std::move(search.candidates[best].decisions);
  return choice;
}

bool markDecisions(ir::Graph& graph, const StepModel& model, const Decisions& decisions) {
  bool changed = false;
  std::vector<bool> used_after(graph.valueCount(), false);
  for (const StepNode& step : model.nodes)
    if (!step.forward)
      for (const ir::ValueId use : model.usesOf(step)) used_after[at(use)] = true;
  for (const StepNode& step : model.nodes) {
    if (!step.forward) continue;
    for (const ir::ValueId id : model.outsOf(step)) {
      ir::Keep keep = ir::Keep::kFreed;
      const StepStorage& storage = model.storageAt(id);
      const Decision decision = decisions[at(model.storageOf(id))];
      if (decision == Decision::kRecompute) {
        keep = ir::Keep::kRecompute;
      } else if (decision == Decision::kSave && (storage.base == id || used_after[at(id)])) {
        keep = ir::Keep::kSaved;
      }
      changed = changed || graph.value(id).keep != keep;
      graph.value(id).keep = keep;
    }
  }
  return changed;
}

Result<Decisions> readDecisions(const StepModel& model) {
  Decisions decisions = saveAll(model);
  for (std::size_t s = 0; s < model.storages.size(); ++s) {
    const StepStorage& storage = model.storages[s];
    if (model.graph().value(storage.base).keep != ir::Keep::kRecompute) continue;
    if (!storage.forward) {
      Error error = makeError("internal", "a value that the forward does not make is marked for recomputation");
      error.node = "%" + model.graph().value(storage.base).name;
      return error;
    }
    decisions[s] = Decision::kRecompute;
  }
  return decisions;
}

Pass chooseSaved() {
  Pass pass;
  pass.info.name = "choose-saved";
  pass.info.summary = "Chooses what the forward keeps for the backward and what is made again, by the predicted peak.";
  pass.info.statistics = {
      {"saved-bytes", "bytes that cross from forward to backward, parameters and inputs not counted"},
      {"saved-all-bytes", "the same when everything that backward uses is kept"},
      {"recomputed-nodes", "nodes that run again in the backward, views not counted"},
      {"recomputed-matmuls", "contractions among them"},
      {"recomputed-mflop", "millions of floating-point operations that run again"},
      {"predicted-peak-bytes", "predicted peak of the step"},
      {"working-peak-bytes", "the same without parameters, optimizer states and gradients"},
      {"choices", "different choices that were compared"},
      {"segments", "layers + 1 that were solved apart"},
      {"distinct-segments", "of different structure among them"}};
  pass.info.needs = ir::Form::kJoint;
  pass.info.ensures = ir::Form::kJoint;
  pass.checkLegal = [](const ir::Graph&, const PassContext& context) -> Status {
    const std::string& policy = context.settings.save;
    if (policy == "all" || policy == "sac") return {};
    Error error = makeError("usage", "no memory policy is called '" + policy + "'", Outcome::kUsage);
    error.legal = "--save all, sac";
    return error;
  };
  pass.run = [](ir::Graph& graph, const PassContext& context) -> Result<bool> {
    const StepModel model(graph, livenessOptions(context.settings, context.services), nominalRates(context.settings.device));
    SavingChoice choice;
    if (context.settings.save == "sac") {
      const std::vector<bool> long_values = findLongValues(graph);
      if (std::find(long_values.begin(), long_values.end(), true) == long_values.end())
        context.diagnostics->warn("nothing-long", "no value carries the sequence: nothing is recomputed");
      SP_ASSIGN(choice, searchSaving(model, long_values, context.cancel));
    } else {
      choice.decisions = saveAll(model);
      const Plan plan = planReplay(model, choice.decisions);
      const MemoryCurve curve = curveOf(model, plan, choice.decisions, false);
      choice.report.policy = context.settings.save;
      choice.report.save_all = pointOf(0, plan, curve);
      choice.report.at_peak = curve.at_peak;
    }
    const SavingPoint& point = choice.report.choice();
    context.count("saved-bytes", point.saved_bytes);
    context.count("saved-all-bytes", choice.report.save_all.saved_bytes);
    context.count("recomputed-nodes", point.recompute_nodes);
    context.count("recomputed-matmuls", point.recompute_matmuls);
    context.count("recomputed-mflop", point.recompute_flops / 1000000);
    context.count("predicted-peak-bytes", point.peak_bytes);
    context.count("working-peak-bytes", point.working_peak);
    context.count("choices", std::max<std::int64_t>(1, static_cast<std::int64_t>(choice.report.points.size())));
    context.count("segments", choice.segments);
    context.count("distinct-segments", choice.distinct_segments);
    const bool changed = markDecisions(graph, model, choice.decisions);
    if (context.memory != nullptr) *context.memory = std::move(choice.report);
    return changed;
  };
  return pass;
}

}  // namespace spscope::passes
