// SPDX-License-Identifier: Apache-2.0
#include "core/base/bars.h"

#include <algorithm>
#include <cmath>

namespace spscope {

std::string barsOf(const std::vector<std::int64_t>& histogram) {
  static const char* const kBars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::int64_t top = histogram.empty() ? 0 : *std::max_element(histogram.begin(), histogram.end());
  std::string out;
  for (const std::int64_t n : histogram)
    out += kBars[n == 0 ? 0 : std::clamp<int>(static_cast<int>(std::ceil(8.0 * static_cast<double>(n) / static_cast<double>(top))), 1, 8)];
  return out;
}

}  // namespace spscope
