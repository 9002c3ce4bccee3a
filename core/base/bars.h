// SPDX-License-Identifier: Apache-2.0
// Counts as a line of bars, for terminals and text fields.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spscope {

/// Bars of eight heights, one for each bin; a bin that holds anything is seen.
std::string barsOf(const std::vector<std::int64_t>& histogram);

}  // namespace spscope
