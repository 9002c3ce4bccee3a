// SPDX-License-Identifier: Apache-2.0
// The longest length that fits, and what is learnt on the way. Memory grows with the length along straight lines wherever
// the program keeps its shape: two measured lengths give a line for every place of the program, and the lines say where to
// measure next. A line never is an answer: the length that is returned was measured. The next one does not fit: that was measured,
// or it is what lines say that have foretold the answer's own bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/session/plan/footprint.h"

namespace spscope::session {

/// Peaks of one configuration, between and beyond measured lengths.
class PeakFit {
 public:
  void add(const Footprint& footprint);
  std::size_t points() const { return points_.size(); }
  std::int64_t shortest() const { return points_.empty() ? 0 : points_.front().seq; }
  /// Bytes (the high end) at a length, from the two measured lengths nearest to it: the highest of the places' lines where
  /// both programs have the same places, the line of their peaks otherwise; at its highEnd(). Needs two points.
  double predict(std::int64_t seq) const;
  /// The same from two that are alike: for lengths at which nothing was measured. Where a policy has changed its mind between the
  /// nearest two, a line through both says nothing. Needs two points.
  double predictAlike(std::int64_t seq) const;
  /// The low end, from the two nearest.
  double predictLow(std::int64_t seq) const;
  /// How far the high end of a program with this peak may lie above it: what an allocator holds beyond what it is asked for. That
  /// goes up and down with the length by accident of how blocks fit each other: the worst one of those measured speaks for all,
  /// so that no length fits where a shorter one does not. In two parts, since a small program's share tells nothing of large ones.
  double highEnd(double peak) const { return peak * (1 + share_) + slack_; }
  /// Of a measured length: at least its own.
  std::int64_t highEnd(const Footprint& footprint) const;
  /// By how many bytes the lines of places miss a program that they do not know yet; empty where they are of other shapes.
  std::optional<double> miss(const Footprint& footprint) const;
  /// Of the host for a rank, from the same lengths: what is asked for, or what is taken for it.
  double predictHost(std::int64_t seq, bool asked) const;

 private:
  struct Point {
    std::int64_t seq = 0;
    double peak = 0;  ///< of the program, as what is modelled leaves it
    double gap = 0;   ///< from there down to the low end
    HostBytes host;
    std::vector<std::int64_t> live;
  };
  /// The two nearest: those around the length, or the last two, or the first two.
  struct Between {
    const Point *a, *b;
    double t;  ///< 0 at a, 1 at b, beyond them where the length is
    bool oneShape() const { return !a->live.empty() && a->live.size() == b->live.size(); }
  };
  Between nearest(std::int64_t seq) const;
  static double line(const Between& between);
  std::vector<Point> points_;  ///< by length
  double slack_ = 0;  ///< bytes, at most kSlack: segments of the allocator, which do not grow with the program
  double share_ = 0;  ///< of the peak, what is beyond kSlack
};

struct LongestRequest {
  std::int64_t step = 1;    ///< lengths are multiples of it
  std::int64_t start = 1;   ///< the first two that are measured: this, and twice this (in steps)
  std::int64_t most = 1;    ///< the longest that is asked for, in steps
  Room room;
};

struct Longest {
  std::optional<Footprint> fits;      ///< at the longest length; empty: not even one step does
  std::optional<Footprint> first;     ///< at the start
  double next_peak = 0;               ///< bytes one step further, which does not fit, surely or perhaps; 0: the model ends, or nobody asked for more
  bool next_measured = false;         ///< false: from the fit
  bool host_ends = false;             ///< one step further only the host's memory is too small
  std::optional<Error> limit;         ///< or this is why the model cannot be that long
  std::int64_t possible_seq = 0;      ///< at the good end of every interval; from the fit, not measured
  PeakFit fit;
};

/// `measure(seq)` compiles. Its errors mean that the model cannot have that length (position tables end); with code
/// "cancelled" or "internal" they end the search.
Result<Longest> findLongest(const LongestRequest& request, const std::function<Result<Footprint>(std::int64_t seq)>& measure);

}  // namespace spscope::session
