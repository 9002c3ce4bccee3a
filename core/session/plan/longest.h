// SPDX-License-Identifier: Apache-2.0
// The longest length that fits, and what is learnt on the way. Memory grows with the length along straight lines wherever
// the program keeps its shape: two measured lengths give a line for every place of the program, and the lines say where to
// measure next. A line never is an answer: the length that is returned was measured, and so was the next one.
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
  /// both programs have the same places, the peaks' line otherwise. Needs two points.
  double predict(std::int64_t seq) const;
  /// Of the host for a rank, from the same lengths: what is asked for, or what is taken for it.
  double predictHost(std::int64_t seq, bool asked) const;

 private:
  struct Point {
    std::int64_t seq = 0;
    double peak = 0;
    HostBytes host;
    double beyond = 0;  ///< of it, what no place of the program shows: what an allocator holds beyond what it is asked for
    std::vector<std::int64_t> live;
  };
  struct Between {
    const Point *a, *b;
    double t;  ///< 0 at a, 1 at b, beyond them where the length is
  };
  Between nearest(std::int64_t seq) const;
  std::vector<Point> points_;  ///< by length
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
  std::optional<Footprint> next;      ///< one step further: it does not fit, surely or perhaps
  std::optional<Error> limit;         ///< or this is why the model cannot be that long
  std::int64_t possible_seq = 0;      ///< at the good end of every interval; from the fit, not measured
  PeakFit fit;
};

/// `measure(seq)` compiles. Its errors mean that the model cannot have that length (position tables end); with code
/// "cancelled" or "internal" they end the search.
Result<Longest> findLongest(const LongestRequest& request, const std::function<Result<Footprint>(std::int64_t seq)>& measure);

}  // namespace spscope::session
