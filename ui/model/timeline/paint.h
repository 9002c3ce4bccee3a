// SPDX-License-Identifier: Apache-2.0
// What a mark on the timeline means, and which colours of the theme say so. Never the colour alone: waiting and exposed
// communication are hatched, chosen things have a border, and the legend names them.
#pragma once

#include <cstdint>
#include <string_view>

#include "ui/model/theme.h"

namespace spscope::ui {

enum class Paint : std::uint8_t {
  kMatmul, kAttention, kPointwise,  ///< what computes
  kTransfer,                        ///< a collective
  kWaiting,                         ///< for a late rank, or for the device; hatched
  kCopy, kCall, kRange, kPython, kOther,
  kOverlapped,                      ///< communication under compute
  kExposed,                         ///< communication that nothing hides; hatched
  kMemory,
};
inline constexpr int kPaints = static_cast<int>(Paint::kMemory) + 1;
/// As the legend has it.
std::string_view nameOf(Paint paint);
inline bool isHatched(Paint p) { return p == Paint::kWaiting || p == Paint::kExposed; }

/// What is drawn besides events.
enum class Ink : std::uint8_t { kBackground, kBand, kGrid, kText, kFaint, kSelected, kFollowed, kMatch, kMeasure, kPeak };
inline constexpr int kInks = static_cast<int>(Ink::kPeak) + 1;

/// A colour of the theme, or one between two of them: Theme::mix(first, second, share).
struct Shade {
  Tone first = Tone::kText, second = Tone::kText;
  double share = 0;
};
Shade shadeOf(Paint paint);
Shade shadeOf(Ink ink);

}  // namespace spscope::ui
