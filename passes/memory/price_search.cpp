// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/price_search.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace spscope::passes {
namespace {

SavingPoint pointOf(double price, const Plan& plan, const MemoryCurve& curve) {
  return {price,           curve.saved_bytes,   plan.rerun_ns, plan.rerun_flops, plan.rerun_nodes,
          plan.rerun_matmuls, curve.peak, curve.working_peak};
}

struct Candidate {
  Decisions decisions;
  SavingPoint point;
  ClassBytes at_peak{};
};

Candidate roughly(const StepModel& model, Decisions decisions, double price) {
  const Plan plan = planReplay(model, decisions);
  const MemoryCurve curve = curveOf(model, plan, decisions, false);
  return {std::move(decisions), pointOf(price, plan, curve), curve.at_peak};
}

/// What the schedule will make of it.
void measure(const StepModel& model, Candidate& candidate) {
  MemoryCurve curve;
  const Plan plan = planTightly(model, candidate.decisions, &curve);
  candidate.point = pointOf(candidate.point.price, plan, curve);
  candidate.at_peak = curve.at_peak;
}

/// Lower peak, then less run again.
bool better(const SavingPoint& a, const SavingPoint& b) {
  return a.peak_bytes != b.peak_bytes ? a.peak_bytes < b.peak_bytes : a.recompute_ns < b.recompute_ns;
}

/// The choices of one solver met so far, by rising price.
class PriceSearch {
 public:
  PriceSearch(const StepModel& model, const SavingSolver& solver) : model_(model), solver_(solver) {}

  std::vector<Candidate> candidates;

  /// Adds the choice of this price; false where it is one that is known.
  bool tryPrice(double price) {
    Decisions decisions = solver_.solve(price);
    for (const Candidate& c : candidates)
      if (c.decisions == decisions) return false;
    const auto place = std::find_if(candidates.begin(), candidates.end(),
                                    [&](const Candidate& c) { return c.point.price > price; });
    candidates.insert(place, roughly(model_, std::move(decisions), price));
    return true;
  }

  /// A grid over all prices that can matter.
  Status survey(const CancelToken& cancel) {
    // A whole chain may be worth less per nanosecond than any of its nodes: start well below the cheapest ratio.
    auto [low, high] = solver_.ratios();
    if (high <= 0) low = high = 1;
    low /= 32;
    high *= 2;
    constexpr int kGridPoints = 20;
    for (int i = 0; i < kGridPoints; ++i) {
      SP_TRY(cancel.check());
      tryPrice(low * std::pow(high / low, static_cast<double>(i) / (kGridPoints - 1)));
    }
    return {};
  }

  std::size_t best() const {
    const auto less = [](const Candidate& a, const Candidate& b) { return better(a.point, b.point); };
    return static_cast<std::size_t>(std::min_element(candidates.begin(), candidates.end(), less) - candidates.begin());
  }

 private:
  const StepModel& model_;
  const SavingSolver& solver_;
};

/// The price at which two choices cost the same: if any choice is optimal between them, it is at this price.
double meetingPrice(const SavingPoint& a, const SavingPoint& b) {
  const double bytes = static_cast<double>(b.saved_bytes - a.saved_bytes);
  const double ns = static_cast<double>(a.recompute_ns - b.recompute_ns);
  const double price = ns > 0 ? bytes / ns : 0;
  // Views that serve both sides and storages that stay anyway make the two differ from the cut's own sums: stay between.
  return price > a.price && price < b.price ? price : std::sqrt(std::max(a.price, 1e-12) * b.price);
}

constexpr int kRefinements = 12;
/// Between two neighbouring prices: the part of the layers, from the first on, that run again what the lower one says.
constexpr std::array<double, 5> kMixtures = {1. / 6, 2. / 6, 3. / 6, 4. / 6, 5. / 6};
/// Single changes that are tried on top of the lowest peak.
constexpr int kTrials = 64;
/// Choices of a budget that are measured as the schedule runs them; the others lie between these.
constexpr std::size_t kMeasured = 32;

/// Only those that no other beats in peak and in what runs again, by falling cost.
void keepBest(std::vector<Candidate>& all) {
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return better(a.point, b.point); });
  std::vector<Candidate> kept;
  for (Candidate& c : all)
    if (kept.empty() || c.point.recompute_ns < kept.back().point.recompute_ns) kept.push_back(std::move(c));
  all = std::move(kept);
}

/// At most `most` of them: the ends, and those nearest to equal steps of the peak.
void thin(std::vector<Candidate>& front, std::size_t most) {
  if (front.size() <= most) return;
  const double low = static_cast<double>(front.front().point.peak_bytes), high = static_cast<double>(front.back().point.peak_bytes);
  std::vector<Candidate> kept;
  double next = low;
  for (std::size_t i = 0; i < front.size(); ++i) {
    if (i + 1 < front.size() && static_cast<double>(front[i].point.peak_bytes) < next) continue;
    next = static_cast<double>(front[i].point.peak_bytes) + (high - low) / static_cast<double>(most - 1);
    kept.push_back(std::move(front[i]));
  }
  front = std::move(kept);
}

/// From a choice to lower peaks: one storage after the other, the largest first, is kept instead of made
/// again or the other way round, as long as that lowers the peak. Each step is a choice of its own.
std::vector<Candidate> descend(const StepModel& model, const Candidate& from) {
  const std::vector<bool> checkpointed = insideCheckpoints(model);
  std::vector<std::size_t> largest;
  for (std::size_t s = 0; s < model.storages.size(); ++s)
    if (model.storages[s].forward && !model.storages[s].output && !checkpointed[s]) largest.push_back(s);
  std::stable_sort(largest.begin(), largest.end(), [&](std::size_t a, std::size_t b) { return model.storages[a].bytes > model.storages[b].bytes; });
  std::vector<Candidate> found;
  Candidate best = from;
  int trials = 0;
  for (bool lower = true; lower && trials < kTrials;) {
    lower = false;
    std::vector<bool> keep(model.storages.size());
    for (std::size_t s = 0; s < keep.size(); ++s) keep[s] = best.decisions[s] != Decision::kRecompute && !checkpointed[s];
    for (const std::size_t s : largest) {
      if (best.decisions[s] == Decision::kFree || trials >= kTrials) continue;
      ++trials;
      keep[s] = !keep[s];
      Candidate next = roughly(model, decideByNeed(model, keep), SavingPoint::kNoPrice);
      lower = next.point.peak_bytes < best.point.peak_bytes;
      if (lower) {
        best = next;
        found.push_back(std::move(next));
        break;
      }
      keep[s] = !keep[s];
    }
  }
  return found;
}

void take(SavingChoice& choice, std::vector<Candidate>& candidates, std::size_t taken) {
  for (const Candidate& candidate : candidates) choice.report.points.push_back(candidate.point);
  choice.report.chosen = static_cast<int>(taken);
  choice.report.at_peak = candidates[taken].at_peak;
  choice.decisions = std::move(candidates[taken].decisions);
}

}  // namespace

SavingPoint measureChoice(const StepModel& model, const Decisions& decisions, ClassBytes* at_peak) {
  Candidate candidate{decisions, {}, {}};
  candidate.point.price = SavingPoint::kNoPrice;
  measure(model, candidate);
  *at_peak = candidate.at_peak;
  return candidate.point;
}

Result<SavingChoice> searchSaving(const StepModel& model, const std::vector<bool>& long_values, const CancelToken& cancel, SavingRules rules) {
  SavingChoice choice;
  const Segments segments = findSegments(model);
  const SavingSolver solver(model, long_values, segments, rules);
  choice.segments = segments.count;
  choice.distinct_segments = solver.distinctSegments();
  choice.rules = solver.rules();
  ClassBytes at_peak;
  choice.report.save_all = measureChoice(model, (rules == SavingRules::kSac ? solver : SavingSolver(model, long_values, segments)).least(), &at_peak);

  PriceSearch search(model, solver);
  SP_TRY(search.survey(cancel));
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
    measure(model, candidate);
  }
  take(choice, search.candidates, search.best());
  return choice;
}

Result<SavingChoice> searchBudget(const StepModel& model, const std::vector<bool>& long_values, double budget, const CancelToken& cancel) {
  SavingChoice choice;
  const Segments segments = findSegments(model);
  choice.segments = segments.count;
  std::vector<Candidate> all;
  for (const SavingRules rules : {SavingRules::kSac, SavingRules::kFused}) {
    const SavingSolver solver(model, long_values, segments, rules);
    choice.distinct_segments = solver.distinctSegments();
    choice.rules = solver.rules();
    if (rules == SavingRules::kSac) {
      ClassBytes at_peak;
      all.push_back(roughly(model, solver.least(), SavingPoint::kNoPrice));
      choice.report.save_all = measureChoice(model, all.front().decisions, &at_peak);
    }
    PriceSearch search(model, solver);
    SP_TRY(search.survey(cancel));
    const auto& found = search.candidates;
    for (std::size_t i = 0; i + 1 < found.size(); ++i)
      for (const double part : kMixtures) {
        SP_TRY(cancel.check());
        const int first = 1 + static_cast<int>(std::lround(part * (segments.count - 1)));
        if (first == 1 || first == segments.count) continue;
        all.push_back(roughly(model, solver.solve(found[i + 1].point.price, found[i].point.price, first), SavingPoint::kNoPrice));
      }
    for (Candidate& candidate : search.candidates) all.push_back(std::move(candidate));
  }
  keepBest(all);
  for (Candidate& candidate : descend(model, all.front())) all.push_back(std::move(candidate));
  keepBest(all);
  thin(all, kMeasured);
  // Prices refined around the lowest peak: a budget of 0 never takes more than sac.
  SP_ASSIGN(SavingChoice sac, searchSaving(model, long_values, cancel));
  all.push_back({std::move(sac.decisions), sac.report.choice(), sac.report.at_peak});
  for (Candidate& candidate : all) {
    SP_TRY(cancel.check());
    measure(model, candidate);
  }
  keepBest(all);  // by rising peak and falling cost

  const std::int64_t least = all.front().point.peak_bytes, most = choice.report.save_all.peak_bytes;
  const auto room = static_cast<std::int64_t>(budget * static_cast<double>(std::max<std::int64_t>(0, most - least)));
  std::size_t taken = 0;
  while (taken + 1 < all.size() && all[taken + 1].point.peak_bytes <= least + room) ++taken;
  take(choice, all, taken);
  return choice;
}

}  // namespace spscope::passes
