// SPDX-License-Identifier: Apache-2.0
// Sets of instants as sorted, disjoint intervals: what busy, idle, exposed and overlapped time are made of.
#pragma once

#include <cstdint>
#include <vector>

namespace spscope::trace {

/// From start up to, not including, end; ns.
struct Interval {
  std::int64_t start = 0, end = 0;
  bool operator==(const Interval&) const = default;
};

/// Sorted by start, disjoint, not touching, none empty.
using Intervals = std::vector<Interval>;

/// The instants that lie in any of them. O(n log n).
Intervals unionOf(std::vector<Interval> any);
/// Linear in both.
Intervals intersection(const Intervals& a, const Intervals& b);
/// `a` without `b`. Linear in both.
Intervals difference(const Intervals& a, const Intervals& b);
std::int64_t lengthOf(const Intervals& intervals);

}  // namespace spscope::trace
