// SPDX-License-Identifier: Apache-2.0
// The two clocks, in nanoseconds.
#pragma once

#include <cstdint>

namespace spscope {

/// CLOCK_MONOTONIC, of everything that is measured or recorded: never goes back, the same in all processes of one boot.
std::int64_t monotonicNs();
/// CLOCK_REALTIME, since 1970: only to say when something was.
std::int64_t wallNs();

}  // namespace spscope
