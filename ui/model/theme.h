// SPDX-License-Identifier: Apache-2.0
// The colours of the window by meaning, for dark and light. The only place where a colour is written down; views ask by name.
// Colour never stands alone: hatching, borders or letters say the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spscope::ui {

struct Color {
  std::uint8_t r = 0, g = 0, b = 0, a = 255;
  friend bool operator==(Color, Color) = default;
};

enum class Tone : std::uint8_t {
  // surfaces and text
  kWindow, kPanel, kRaised, kLine, kText, kSecondary, kAccent, kSelection, kButton, kHover,
  // what happened to a node, and verdicts
  kAdded, kRemoved, kChanged, kGood, kBad, kWarning,
  // where a value lives
  kSequence, kHeads, kReplicated, kPartial, kCollective, kModule,
  // kinds of work, in the timeline and the legend of the memory curve
  kMatmul, kAttention, kPointwise, kTransfer, kWaiting, kOther,
  kParameters, kOptimizer, kSaved, kTemporaries, kCommunication,
  kCount
};

class Theme {
 public:
  explicit Theme(bool dark = true) : dark_(dark) {}
  bool dark() const { return dark_; }
  Color color(Tone tone) const;
  /// One of 12 well separated fills for things without a meaning of their own (modules, dtypes); any index.
  Color fill(std::uint64_t index) const;
  /// From cold to hot, 0..1: for metrics.
  Color heat(double share) const;
  Color mix(Color a, Color b, double share_of_b) const;

 private:
  bool dark_;
};

/// "added", "sequence", ...: the names that legends and tests use.
const char* toneName(Tone tone);
/// WCAG contrast of two opaque colours, 1 to 21.
double contrast(Color a, Color b);

}  // namespace spscope::ui
