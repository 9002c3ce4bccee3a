// SPDX-License-Identifier: Apache-2.0
#include "ui/model/timeline/paint.h"

#include <array>

namespace spscope::ui {

std::string_view nameOf(Paint paint) {
  static constexpr std::array<std::string_view, kPaints> kNames{
      "matmul", "attention", "pointwise and other ops", "transfer", "waiting", "copy", "call", "range", "Python", "other",
      "overlapped communication", "exposed communication", "live memory"};
  return kNames[static_cast<std::size_t>(paint)];
}

Shade shadeOf(Paint paint) {
  switch (paint) {
    case Paint::kMatmul: return {Tone::kMatmul};
    case Paint::kAttention: return {Tone::kAttention};
    case Paint::kPointwise: return {Tone::kPointwise};
    case Paint::kTransfer: case Paint::kOverlapped: return {Tone::kTransfer};
    case Paint::kWaiting: return {Tone::kWaiting};
    case Paint::kCopy: return {Tone::kMatmul, Tone::kTransfer, 0.5};
    case Paint::kCall: return {Tone::kOther, Tone::kAccent, 0.25};
    case Paint::kRange: return {Tone::kOther, Tone::kPanel, 0.55};
    case Paint::kPython: return {Tone::kOther, Tone::kChanged, 0.3};
    case Paint::kOther: return {Tone::kOther};
    case Paint::kExposed: return {Tone::kRemoved};
    case Paint::kMemory: return {Tone::kSaved};
  }
  return {};
}

Shade shadeOf(Ink ink) {
  switch (ink) {
    case Ink::kBackground: return {Tone::kPanel};
    case Ink::kBand: return {Tone::kPanel, Tone::kWindow, 1};
    case Ink::kGrid: return {Tone::kLine};
    case Ink::kText: case Ink::kSelected: return {Tone::kText};
    case Ink::kFaint: return {Tone::kSecondary};
    case Ink::kFollowed: case Ink::kMeasure: return {Tone::kAccent};
    case Ink::kMatch: return {Tone::kWarning};
    case Ink::kPeak: return {Tone::kBad};
  }
  return {};
}

}  // namespace spscope::ui
