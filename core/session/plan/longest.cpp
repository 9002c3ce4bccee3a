// SPDX-License-Identifier: Apache-2.0
#include "core/session/plan/longest.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace spscope::session {

namespace {

/// A few of an allocator's segments, and how closely leastCapacity looks.
constexpr double kSlack = 64 << 20;

/// Of the program itself: the high end where no place shows it.
double programPeak(const Footprint& footprint) {
  const auto most = std::max_element(footprint.live.begin(), footprint.live.end());
  return most == footprint.live.end() ? static_cast<double>(footprint.peak_high) : static_cast<double>(*most);
}

}  // namespace

void PeakFit::add(const Footprint& footprint) {
  const auto at = std::lower_bound(points_.begin(), points_.end(), footprint.seq, [](const Point& p, std::int64_t seq) { return p.seq < seq; });
  if (at != points_.end() && at->seq == footprint.seq) return;
  const double peak = programPeak(footprint);
  const double beyond = std::max(0.0, static_cast<double>(footprint.peak_high) - peak);
  slack_ = std::max(slack_, std::min(beyond, kSlack));
  if (peak > 0) share_ = std::max(share_, (beyond - kSlack) / peak);
  points_.insert(at, {footprint.seq, peak, std::max(0.0, peak - static_cast<double>(footprint.peak_low)), footprint.host, footprint.live});
}

std::int64_t PeakFit::highEnd(const Footprint& footprint) const {
  return std::max(footprint.peak_high, static_cast<std::int64_t>(std::ceil(highEnd(programPeak(footprint)))));
}

PeakFit::Between PeakFit::nearest(std::int64_t seq) const {
  const auto at = std::lower_bound(points_.begin(), points_.end(), seq, [](const Point& p, std::int64_t s) { return p.seq < s; });
  const std::size_t place = std::clamp<std::size_t>(static_cast<std::size_t>(at - points_.begin()), 1, points_.size() - 1);
  const Point& a = points_[place - 1];
  const Point& b = points_[place];
  return {&a, &b, static_cast<double>(seq - a.seq) / static_cast<double>(b.seq - a.seq)};
}

double PeakFit::line(const Between& between) {
  const Point &a = *between.a, &b = *between.b;
  if (!between.oneShape()) return a.peak + (b.peak - a.peak) * between.t;
  double peak = 0;
  for (std::size_t i = 0; i < a.live.size(); ++i)
    peak = std::max(peak, static_cast<double>(a.live[i]) + static_cast<double>(b.live[i] - a.live[i]) * between.t);
  return peak;
}

double PeakFit::predict(std::int64_t seq) const { return highEnd(line(nearest(seq))); }

double PeakFit::predictAlike(std::int64_t seq) const {
  // How much two programs differ in their number of places, then how far from them the length is, in units of their distance.
  const Point *first = nullptr, *second = nullptr;
  std::pair<double, double> least{};
  for (auto a = points_.begin(); a != points_.end(); ++a)
    for (auto b = std::next(a); b != points_.end(); ++b) {
      const double sizes = static_cast<double>(std::max<std::size_t>({a->live.size(), b->live.size(), 1}));
      const double apart = std::floor(50 * std::abs(static_cast<double>(a->live.size()) - static_cast<double>(b->live.size())) / sizes);  // of 2 %
      const std::pair key{apart, static_cast<double>(std::max<std::int64_t>({0, a->seq - seq, seq - b->seq})) / static_cast<double>(b->seq - a->seq)};
      if (first != nullptr && key >= least) continue;
      first = &*a, second = &*b, least = key;
    }
  return highEnd(line({first, second, static_cast<double>(seq - first->seq) / static_cast<double>(second->seq - first->seq)}));
}

double PeakFit::predictLow(std::int64_t seq) const {
  const Between between = nearest(seq);
  return line(between) - std::max(0.0, between.a->gap + (between.b->gap - between.a->gap) * between.t);
}

double PeakFit::predictHost(std::int64_t seq, bool asked) const {
  const auto [a, b, t] = nearest(seq);
  const auto between = [t = t](std::int64_t from, std::int64_t to) { return static_cast<double>(from) + static_cast<double>(to - from) * t; };
  if (a->host.blocks.size() != b->host.blocks.size()) return asked ? between(a->host.low, b->host.low) : between(a->host.high, b->host.high);
  // What is taken grows in steps, block by block: their sizes are on lines.
  HostBytes out;
  for (std::size_t i = 0; i < a->host.blocks.size(); ++i) out.add(std::llround(between(a->host.blocks[i], b->host.blocks[i])));
  return static_cast<double>(asked ? out.low : out.high);
}

std::optional<double> PeakFit::miss(const Footprint& footprint) const {
  if (points_.size() < 2) return std::nullopt;
  const Between between = nearest(footprint.seq);
  if (!between.oneShape() || between.a->live.size() != footprint.live.size()) return std::nullopt;
  return std::abs(line(between) - programPeak(footprint));
}

namespace {

/// A step further than what they foretold, lines miss by a few times as much at most.
constexpr double kTrust = 8;

/// The largest k in [low, high] at whose length the predictions are within the room, its sure or its hopeful end; low - 1 where there
/// is none. Predictions rise with k.
std::int64_t lastBelow(const PeakFit& fit, std::int64_t low, std::int64_t high, std::int64_t step, const Room& room, bool sure) {
  while (low <= high) {
    const std::int64_t middle = low + (high - low) / 2;
    const std::int64_t seq = middle * step;
    const bool within = sure ? fit.predict(seq) <= room.sure && fit.predictHost(seq, false) <= room.host_sure
                             : fit.predictLow(seq) <= room.hopeful && fit.predictHost(seq, true) <= room.host_hopeful;
    if (within) low = middle + 1;
    else high = middle - 1;
  }
  return high;
}

}  // namespace

Result<Longest> findLongest(const LongestRequest& request, const std::function<Result<Footprint>(std::int64_t seq)>& measure) {
  Longest out;
  struct Look {
    Footprint footprint;
    std::optional<double> miss;  // of the lines, before it was measured
  };
  std::map<std::int64_t, Look> looks;  // by length in steps
  std::int64_t first = 0;              // of them
  // In steps. `fits` was measured (or is 0), `above` does not fit, or the model cannot be that long, or nobody asked.
  std::int64_t fits = 0, above = request.most + 1, ends = request.most + 1;
  const auto look = [&](std::int64_t k) -> Status {
    Result<Footprint> measured = measure(k * request.step);
    if (!measured) {
      if (measured.error().code == "cancelled" || measured.error().code == "internal") return measured.error();
      if (k < ends) ends = k, out.limit = measured.error();
    } else {
      const std::optional<double> missed = out.fit.miss(*measured);
      out.fit.add(*measured);
      if (looks.empty()) first = k;
      looks.emplace(k, Look{std::move(*measured), missed});
    }
    // What was learnt of one length is true of the others.
    fits = 0, above = ends;
    for (auto& [steps, seen] : looks) {
      seen.footprint.peak_high = out.fit.highEnd(seen.footprint);
      if (verdictOf(seen.footprint, request.room) == Verdict::kFits) {
        fits = steps;
      } else {
        above = std::min(above, steps);
        break;
      }
    }
    return {};
  };
  SP_TRY(look(std::clamp<std::int64_t>(request.start, 1, request.most)));
  const bool hopeless = !looks.empty() && static_cast<double>(looks.begin()->second.footprint.floor) > request.room.hopeful;
  for (int round = 0; above - fits > 1 && !hopeless; ++round) {
    if (const auto at = looks.find(fits); at != looks.end() && at->second.miss) {
      // Lines that have foretold this one know the next one, too.
      const std::int64_t seq = (fits + 1) * request.step;
      const double next = out.fit.predict(seq);
      const bool host = out.fit.predictHost(seq, false) > request.room.host_sure;
      if (host || next - kTrust * *at->second.miss > request.room.sure) {
        out.next_peak = next;
        out.host_ends = host && next <= request.room.sure;
        break;
      }
    }
    std::int64_t k = fits + (above - fits) / 2;
    if (out.fit.points() < 2) {
      // Nothing to draw a line from: twice as long, or the shortest, which tells at once where nothing fits at all.
      k = fits > 0 ? 2 * fits : 1;
    } else if (round < 8 || round % 2 == 0) {  // lines that mislead (a program that changes its shape) end in bisection
      const std::int64_t thought = lastBelow(out.fit, fits + 1, above - 1, request.step, request.room, true);
      // The last one that is thought to fit; where that is known, the first one that is not. Lines know nothing of where the
      // model ends: below such a limit the middle is as good a guess as any.
      if (above != ends || thought < above - 1) k = std::max(thought, fits + 1);
    }
    SP_TRY(look(std::clamp(k, fits + 1, above - 1)));
  }
  if (const auto next = looks.find(fits + 1); next != looks.end()) {
    const Footprint& f = next->second.footprint;
    out.next_peak = static_cast<double>(f.peak_high);
    out.next_measured = true;
    out.host_ends = hostVerdict(f, request.room) != Verdict::kFits && deviceVerdict(f, request.room) == Verdict::kFits;
  }
  if (fits + 1 != ends) out.limit.reset();
  out.possible_seq = fits * request.step;
  if (out.fit.points() >= 2) {
    // Lengths above one that does not fit surely may still fit at the good end.
    const std::int64_t hopeful = lastBelow(out.fit, fits + 1, ends - 1, request.step, request.room, false);
    out.possible_seq = std::max(fits, hopeful) * request.step;
  }
  if (!looks.empty()) out.first = looks.at(first).footprint;
  if (const auto best = looks.find(fits); best != looks.end()) out.fits = std::move(best->second.footprint);
  return out;
}

}  // namespace spscope::session
