// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/align.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "core/base/strings.h"
#include "profiler/analyze/collectives.h"

namespace spscope::trace {
namespace {

/// One shared instant, on the clocks of two ranks.
struct Anchor {
  std::int64_t reference = 0, own = 0;
  std::int64_t difference() const { return reference - own; }
};
struct Pair {
  std::vector<Anchor> anchors;  // collective ends
  bool barrier = false;         // and the start barrier, as one of them
};

constexpr double kMostDriftPpb = 1e6;     // 1000 ppm: no quartz is that far off
constexpr std::int64_t kFloorNs = 2'000;  // what collective ends differ by at least
constexpr std::size_t kDriftNeeds = 4;    // anchors; with fewer a line fits any jitter

std::int64_t median(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// common = own + offset + slope * (own - reference)
struct Fit {
  std::int64_t offset = 0, reference = 0;
  double slope = 0;
  std::int64_t residual = 0;
  std::size_t left_out = 0;
  std::int64_t error(const Anchor& a) const {
    return a.difference() - offset - std::llround(slope * static_cast<double>(a.own - reference));
  }
};

std::int64_t worst(const Fit& fit, const std::vector<Anchor>& anchors) {
  std::int64_t most = 0;
  for (const Anchor& a : anchors) most = std::max(most, std::abs(fit.error(a)));
  return most;
}

/// Least squares around the reference; without a drift the median.
Fit fitOnce(const std::vector<Anchor>& anchors, bool drift) {
  Fit fit;
  fit.reference = anchors.front().own;
  std::vector<std::int64_t> differences;
  for (const Anchor& a : anchors) differences.push_back(a.difference());
  fit.offset = median(differences);
  if (!drift) return fit;
  double x_mean = 0, y_mean = 0, xx = 0, xy = 0;
  const auto n = static_cast<double>(anchors.size());
  for (const Anchor& a : anchors) {
    x_mean += static_cast<double>(a.own - fit.reference) / n;
    y_mean += static_cast<double>(a.difference() - fit.offset) / n;  // small numbers: doubles hold them exactly
  }
  for (const Anchor& a : anchors) {
    const double x = static_cast<double>(a.own - fit.reference) - x_mean;
    xx += x * x;
    xy += x * (static_cast<double>(a.difference() - fit.offset) - y_mean);
  }
  if (xx > 0) fit.slope = xy / xx;
  fit.offset += std::llround(y_mean - fit.slope * x_mean);
  return fit;
}

/// Slope through the medians of the outer thirds, which outliers do not move; then without what is far from that line,
/// least squares.
Fit fitRobust(std::vector<Anchor> anchors, bool drift) {
  std::sort(anchors.begin(), anchors.end(), [](const Anchor& a, const Anchor& b) { return a.own < b.own; });
  Fit rough;
  rough.reference = anchors.front().own;
  if (drift) {
    const std::size_t third = std::max<std::size_t>(anchors.size() / 3, 1);
    const auto part = [&](std::size_t from, auto field) {
      std::vector<std::int64_t> values;
      for (std::size_t i = from; i < from + third; ++i) values.push_back(field(anchors[i]));
      return median(std::move(values));
    };
    const auto own = [](const Anchor& a) { return a.own; };
    const auto difference = [](const Anchor& a) { return a.difference(); };
    const std::size_t last = anchors.size() - third;
    const std::int64_t run = part(last, own) - part(0, own);
    if (run > 0) rough.slope = static_cast<double>(part(last, difference) - part(0, difference)) / static_cast<double>(run);
  }
  std::vector<std::int64_t> errors;
  for (const Anchor& a : anchors) errors.push_back(rough.error(a));
  rough.offset += median(errors);
  errors.clear();
  for (const Anchor& a : anchors) errors.push_back(std::abs(rough.error(a)));
  const std::int64_t limit = std::max(kFloorNs, 6 * median(errors));
  std::vector<Anchor> kept;
  for (const Anchor& a : anchors)
    if (std::abs(rough.error(a)) <= limit) kept.push_back(a);
  Fit fit = fitOnce(kept, drift);
  fit.residual = worst(fit, kept);
  fit.left_out = anchors.size() - kept.size();
  return fit;
}

Error notAlignable(const Trace& trace, std::size_t a, std::size_t b, const std::string& why) {
  const auto name = [&](std::size_t r) {
    const Rank& rank = trace.ranks[r];
    return rank.number == kUnknown ? "rank #" + std::to_string(r) : "rank " + std::to_string(rank.number);
  };
  return makeError("trace-not-alignable", name(b) + " cannot be put on the clock of " + name(a) + ": " + why);
}

/// Shared instants of every two ranks that have some. A collective in which a rank has its number twice is none.
std::map<std::pair<std::size_t, std::size_t>, Pair> anchorsOf(const Trace& trace) {
  std::map<std::pair<StringId, std::int64_t>, std::map<std::size_t, std::vector<std::int64_t>>> ends;
  const std::set<StringId> miscounted = miscountedGroups(trace);
  for (const Collective& c : trace.collectives)
    if (c.event != kNoIndex && c.sequence != kUnknown && !miscounted.contains(c.group))
      ends[{c.group, c.sequence}][static_cast<std::size_t>(c.rank)].push_back(trace.events.end[static_cast<std::size_t>(c.event)]);
  std::map<std::pair<std::size_t, std::size_t>, Pair> pairs;
  for (const auto& [key, ranks] : ends) {
    // Each against the first of the collective: enough to connect them, and linear in the ranks.
    const auto& [first, first_ends] = *ranks.begin();
    if (first_ends.size() != 1) continue;
    for (auto it = std::next(ranks.begin()); it != ranks.end(); ++it)
      if (it->second.size() == 1) pairs[{first, it->first}].anchors.push_back({first_ends[0], it->second[0]});
  }
  std::optional<std::size_t> first;
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    if (trace.ranks[r].barrier_ns == kUnknown) continue;
    if (!first) first = r;
    else pairs[{*first, r}].barrier = true;
  }
  for (auto& [key, pair] : pairs)
    if (pair.barrier) pair.anchors.push_back({trace.ranks[key.first].barrier_ns, trace.ranks[key.second].barrier_ns});
  return pairs;
}

std::string methodOf(const Pair& pair) {
  if (pair.barrier && pair.anchors.size() == 1) return "start-barrier";
  return pair.barrier ? "start-barrier+collective-ends" : "collective-ends";
}

/// Median time between one anchor and the next, on the reference's clock; nothing for a single one.
std::optional<std::int64_t> gapOf(const std::vector<Anchor>& anchors) {
  std::vector<std::int64_t> times, gaps;
  for (const Anchor& a : anchors) times.push_back(a.reference);
  std::sort(times.begin(), times.end());
  for (std::size_t i = 1; i < times.size(); ++i) gaps.push_back(times[i] - times[i - 1]);
  if (gaps.empty()) return std::nullopt;
  return median(std::move(gaps));
}

Result<Fit> alignPair(const Trace& trace, std::size_t a, std::size_t b, const Pair& pair) {
  const auto& anchors = pair.anchors;
  Fit fit = fitRobust(anchors, false);
  if (anchors.size() >= kDriftNeeds) {
    // The simpler answer unless the drift explains most of what remains, or what contradicts.
    const Fit line = fitRobust(anchors, true);
    if (line.left_out < fit.left_out || (line.left_out == fit.left_out && line.residual < fit.residual / 2)) fit = line;
  }
  if (4 * fit.left_out > anchors.size())
    return notAlignable(trace, a, b, strf("the ends of %zu of %zu common collectives contradict the others", fit.left_out, anchors.size()));
  if (std::abs(fit.slope) * 1e9 > kMostDriftPpb)
    return notAlignable(trace, a, b, strf("the ends of their collectives drift apart by %.0f ppm", fit.slope * 1e6));
  if (const auto gap = gapOf(anchors); gap && fit.residual > std::max(*gap, kFloorNs))
    return notAlignable(trace, a, b, "they disagree by " + formatNs(fit.residual) + " about collectives that end every " + formatNs(*gap));
  return fit;
}

bool sameClock(const Trace& trace) {
  const Rank& first = trace.ranks.front();
  return std::all_of(trace.ranks.begin(), trace.ranks.end(), [&](const Rank& rank) {
    return (!first.host.empty() && rank.host == first.host) || (!first.file.empty() && rank.file == first.file);
  });
}

/// Ranks that claim one clock: what their anchors say about that. Nothing where they contradict it.
std::optional<Alignment> believe(const Trace& trace, const std::map<std::pair<std::size_t, std::size_t>, Pair>& pairs) {
  Alignment out;
  out.method = "same-clock";
  for (const auto& [key, pair] : pairs) {
    const Fit fit = fitRobust(pair.anchors, false);
    std::vector<std::int64_t> differences;
    for (const Anchor& a : pair.anchors) differences.push_back(std::abs(a.difference()));
    const auto gap = gapOf(pair.anchors);
    // A collective ends on all ranks within its own duration; an offset far beyond that is another clock.
    const std::int64_t typical = median(std::move(differences));
    if (gap && pair.anchors.size() >= kDriftNeeds && typical > *gap && typical > 1'000'000 && fit.residual < typical / 10) return std::nullopt;
    out.anchors += static_cast<std::int64_t>(pair.anchors.size());
    out.residual_ns = std::max(out.residual_ns, typical);
  }
  out.clocks.assign(trace.ranks.size(), Clock{.method = "same-clock", .residual_ns = out.residual_ns});
  return out;
}

}  // namespace

Result<Alignment> align(const Trace& trace) {
  Alignment out;
  const std::size_t n = trace.ranks.size();
  if (n <= 1) {
    out.method = "one-rank";
    out.clocks.assign(n, Clock{});
    return out;
  }
  const auto pairs = anchorsOf(trace);
  if (sameClock(trace))
    if (auto same = believe(trace, pairs)) return std::move(*same);

  // From the first rank outwards, over the pairs with the most anchors first.
  std::vector<bool> known(n, false);
  std::vector<Clock> clocks(n);
  std::set<std::string> methods;
  known[0] = true;
  for (std::size_t round = 1; round < n; ++round) {
    const Pair* best = nullptr;
    std::pair<std::size_t, std::size_t> of;
    for (const auto& [key, pair] : pairs)
      if (known[key.first] != known[key.second] && (!best || pair.anchors.size() > best->anchors.size())) best = &pair, of = key;
    if (!best) {
      const auto alone = static_cast<std::size_t>(std::find(known.begin(), known.end(), false) - known.begin());
      return notAlignable(trace, 0, alone, "they have no collective and no start barrier in common");
    }
    Pair pair = *best;
    if (known[of.second]) {
      std::swap(of.first, of.second);
      for (Anchor& a : pair.anchors) std::swap(a.reference, a.own);
    }
    // What the known rank says, said on the common clock.
    const Clock& parent = clocks[of.first];
    for (Anchor& a : pair.anchors)
      a.reference += parent.offset_ns + std::llround(parent.drift_ppb * 1e-9 * static_cast<double>(a.reference - parent.reference_ns));
    SP_ASSIGN(const Fit fit, alignPair(trace, of.first, of.second, pair));
    const std::string method = methodOf(pair);
    clocks[of.second] = {.method = method, .offset_ns = fit.offset, .reference_ns = fit.reference,
                         .drift_ppb = fit.slope * 1e9, .residual_ns = fit.residual};
    known[of.second] = true;
    methods.insert(method);
    out.anchors += static_cast<std::int64_t>(pair.anchors.size());
    out.left_out += static_cast<std::int64_t>(fit.left_out);
    out.residual_ns = std::max(out.residual_ns, fit.residual);
  }
  out.method = join(std::vector<std::string>(methods.begin(), methods.end()), ", ");
  clocks[0].method = out.method;
  clocks[0].residual_ns = 0;
  out.clocks = std::move(clocks);
  return out;
}

void applyAlignment(Trace& trace, const Alignment& alignment) {
  const auto move = [&](std::int32_t rank, std::int64_t& time) {
    const Clock& clock = alignment.clocks[static_cast<std::size_t>(rank)];
    if (time != kUnknown)
      time += clock.offset_ns + std::llround(clock.drift_ppb * 1e-9 * static_cast<double>(time - clock.reference_ns));
  };
  Events& e = trace.events;
  for (std::size_t i = 0; i < e.size(); ++i) {
    const std::int32_t rank = trace.tracks[static_cast<std::size_t>(e.track[i])].rank;
    move(rank, e.start[i]), move(rank, e.end[i]);
  }
  for (MemoryEvent& m : trace.memory) move(m.rank, m.time);
  for (CounterSample& c : trace.counters) move(c.rank, c.time);
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    Rank& rank = trace.ranks[r];
    const auto index = static_cast<std::int32_t>(r);
    move(index, rank.first_ns), move(index, rank.last_ns), move(index, rank.barrier_ns);
    rank.clock = alignment.clocks[r];
  }
}

}  // namespace spscope::trace
