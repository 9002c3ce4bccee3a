// SPDX-License-Identifier: Apache-2.0
#include "core/session/plan/longest.h"

#include <algorithm>
#include <cmath>

namespace spscope::session {

void PeakFit::add(const Footprint& footprint) {
  const auto at = std::lower_bound(points_.begin(), points_.end(), footprint.seq, [](const Point& p, std::int64_t seq) { return p.seq < seq; });
  if (at != points_.end() && at->seq == footprint.seq) return;
  const auto most = std::max_element(footprint.live.begin(), footprint.live.end());
  const double beyond = most == footprint.live.end() ? 0 : static_cast<double>(footprint.peak_high - *most);
  points_.insert(at, {footprint.seq, static_cast<double>(footprint.peak_high), footprint.host, beyond, footprint.live});
}

PeakFit::Between PeakFit::nearest(std::int64_t seq) const {
  // The two nearest: those around it, or the last two, or the first two.
  const auto at = std::lower_bound(points_.begin(), points_.end(), seq, [](const Point& p, std::int64_t s) { return p.seq < s; });
  const std::size_t place = std::clamp<std::size_t>(static_cast<std::size_t>(at - points_.begin()), 1, points_.size() - 1);
  const Point& a = points_[place - 1];
  const Point& b = points_[place];
  return {&a, &b, static_cast<double>(seq - a.seq) / static_cast<double>(b.seq - a.seq)};
}

double PeakFit::predictHost(std::int64_t seq, bool asked) const {
  const auto [a, b, t] = nearest(seq);
  const double from = static_cast<double>(asked ? a->host.low : a->host.high), to = static_cast<double>(asked ? b->host.low : b->host.high);
  return from + (to - from) * t;
}

double PeakFit::predict(std::int64_t seq) const {
  const Between between = nearest(seq);
  const Point &a = *between.a, &b = *between.b;
  const double t = between.t;
  if (a.live.empty() || a.live.size() != b.live.size()) return a.peak + (b.peak - a.peak) * t;
  double peak = 0;
  for (std::size_t i = 0; i < a.live.size(); ++i)
    peak = std::max(peak, static_cast<double>(a.live[i]) + static_cast<double>(b.live[i] - a.live[i]) * t);
  return peak + std::max(0.0, a.beyond + (b.beyond - a.beyond) * t);
}

namespace {

/// The largest k in [low, high] at whose length the predictions are within the room, its sure or its hopeful end; low - 1 where there
/// is none. Predictions rise with k.
std::int64_t lastBelow(const PeakFit& fit, std::int64_t low, std::int64_t high, std::int64_t step, const Room& room, bool sure) {
  while (low <= high) {
    const std::int64_t middle = low + (high - low) / 2;
    const std::int64_t seq = middle * step;
    if (fit.predict(seq) <= (sure ? room.sure : room.hopeful) && fit.predictHost(seq, !sure) <= (sure ? room.host_sure : room.host_hopeful)) low = middle + 1;
    else high = middle - 1;
  }
  return high;
}

}  // namespace

Result<Longest> findLongest(const LongestRequest& request, const std::function<Result<Footprint>(std::int64_t seq)>& measure) {
  Longest out;
  // In steps. `fits` was measured (or is 0), `above` does not fit, or the model cannot be that long, or nobody asked.
  std::int64_t fits = 0, above = request.most + 1;
  const auto look = [&](std::int64_t k) -> Status {
    Result<Footprint> measured = measure(k * request.step);
    if (!measured) {
      if (measured.error().code == "cancelled" || measured.error().code == "internal") return measured.error();
      if (k < above) above = k, out.limit = measured.error(), out.next.reset();
      return {};
    }
    if (!out.first) out.first = *measured;
    out.fit.add(*measured);
    if (verdictOf(*measured, request.room) == Verdict::kFits) {
      if (k > fits) fits = k, out.fits = std::move(*measured);
    } else if (k < above) {
      above = k, out.next = std::move(*measured), out.limit.reset();
    }
    return {};
  };
  SP_TRY(look(std::clamp<std::int64_t>(request.start, 1, request.most)));
  for (int round = 0; above - fits > 1; ++round) {
    std::int64_t k = fits + (above - fits) / 2;
    if (out.fit.points() < 2) {
      // Nothing to draw a line from: twice as long, or the shortest, which tells at once where nothing fits at all.
      k = fits > 0 ? 2 * fits : 1;
    } else if (round < 8 || round % 2 == 0) {  // lines that mislead (a program that changes its shape) end in bisection
      const std::int64_t thought = lastBelow(out.fit, fits + 1, above - 1, request.step, request.room, true);
      // The last one that is thought to fit; where that is known, the first one that is not. Lines know nothing of where the
      // model ends: below such a limit the middle is as good a guess as any.
      if (!out.limit || thought < above - 1) k = std::max(thought, fits + 1);
    }
    SP_TRY(look(std::clamp(k, fits + 1, above - 1)));
  }
  const std::int64_t last = out.limit ? above - 1 : request.most;
  out.possible_seq = fits * request.step;
  if (out.fit.points() >= 2) {
    const std::int64_t hopeful = lastBelow(out.fit, fits + 1, last, request.step, request.room, false);
    out.possible_seq = std::max(fits, hopeful) * request.step;
  }
  return out;
}

}  // namespace spscope::session
