// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/intervals.h"

#include <algorithm>

namespace spscope::trace {

Intervals unionOf(std::vector<Interval> any) {
  std::sort(any.begin(), any.end(), [](const Interval& a, const Interval& b) { return a.start < b.start; });
  Intervals out;
  for (const Interval& i : any) {
    if (i.end <= i.start) continue;
    if (!out.empty() && i.start <= out.back().end) out.back().end = std::max(out.back().end, i.end);
    else out.push_back(i);
  }
  return out;
}

Intervals intersection(const Intervals& a, const Intervals& b) {
  Intervals out;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const std::int64_t start = std::max(a[i].start, b[j].start), end = std::min(a[i].end, b[j].end);
    if (start < end) out.push_back({start, end});
    if (a[i].end < b[j].end) ++i;
    else ++j;
  }
  return out;
}

Intervals difference(const Intervals& a, const Intervals& b) {
  Intervals out;
  std::size_t j = 0;
  for (Interval rest : a) {
    while (j < b.size() && b[j].end <= rest.start) ++j;
    for (std::size_t k = j; k < b.size() && b[k].start < rest.end; ++k) {
      if (b[k].start > rest.start) out.push_back({rest.start, b[k].start});
      rest.start = std::min(b[k].end, rest.end);
    }
    if (rest.start < rest.end) out.push_back(rest);
  }
  return out;
}

std::int64_t lengthOf(const Intervals& intervals) {
  std::int64_t sum = 0;
  for (const Interval& i : intervals) sum += i.end - i.start;
  return sum;
}

}  // namespace spscope::trace
