// SPDX-License-Identifier: Apache-2.0
#include "ui/model/theme.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace spscope::ui {
namespace {

struct Row {
  const char* name;
  std::uint32_t dark, light;
};

constexpr std::array<Row, static_cast<std::size_t>(Tone::kCount)> kRows = {{
    {"window", 0x16181d, 0xf4f5f7},      {"panel", 0x1a1d23, 0xffffff},      {"raised", 0x22262e, 0xeceef2},
    {"line", 0x2a2e37, 0xd3d7de},        {"text", 0xd7dbe2, 0x1d2129},       {"secondary", 0x8d95a3, 0x5b6370},
    {"accent", 0x4d9be6, 0x1f6fc0},      {"selection", 0x24384f, 0xcfe2f6},  {"button", 0x23272f, 0xffffff},
    {"hover", 0x2d323c, 0xe4e8ee},       {"added", 0x3fb27f, 0x1d8a58},      {"removed", 0xb0574f, 0xb23c33},
    {"changed", 0xc08a3e, 0x9a6410},     {"good", 0x3fb27f, 0x1a7d50},       {"bad", 0xe0685e, 0xb3261e},
    {"warning", 0xd6a04f, 0x8a5a0b},     {"sequence", 0x20405e, 0xcfe1f4},   {"heads", 0x5a4420, 0xf3e0bd},
    {"replicated", 0x2b3038, 0xe6e9ee},  {"partial", 0x4a2f45, 0xf0d9ec},    {"collective", 0x1d4a3a, 0xc9ecdc},
    {"module", 0x242932, 0xeef1f5},      {"matmul", 0x2f7fb8, 0x3d8fcb},     {"attention", 0xc08a3e, 0xd09a45},
    {"pointwise", 0x7a5cc0, 0x8d70d0},   {"transfer", 0x3fb27f, 0x3fa97b},   {"waiting", 0x6b4a4a, 0xc9a3a0},
    {"other", 0x59616e, 0x9aa2ae},       {"parameters", 0x3c4553, 0x8a94a3}, {"optimizer", 0x4d5a70, 0xa9b3c3},
    {"saved", 0x2f7fb8, 0x3d8fcb},       {"temporaries", 0xc08a3e, 0xd09a45}, {"communication", 0x3fb27f, 0x3fa97b},
}};

constexpr Color fromRgb(std::uint32_t rgb) {
  return {static_cast<std::uint8_t>(rgb >> 16), static_cast<std::uint8_t>(rgb >> 8), static_cast<std::uint8_t>(rgb), 255};
}

double luminance(Color c) {
  const auto linear = [](std::uint8_t v) {
    const double s = v / 255.0;
    return s <= 0.04045 ? s / 12.92 : std::pow((s + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(c.r) + 0.7152 * linear(c.g) + 0.0722 * linear(c.b);
}

}  // namespace

Color Theme::color(Tone tone) const {
  const Row& row = kRows[static_cast<std::size_t>(tone)];
  return fromRgb(dark_ ? row.dark : row.light);
}

Color Theme::fill(std::uint64_t index) const {
  static constexpr std::array<std::uint32_t, 12> dark = {0x20405e, 0x1d4a3a, 0x5a4420, 0x4a2f45, 0x3a3a68, 0x57332f,
                                                         0x2c4f55, 0x4d4a22, 0x39513a, 0x5c3a52, 0x2f4475, 0x474d57};
  static constexpr std::array<std::uint32_t, 12> light = {0xcfe1f4, 0xc9ecdc, 0xf3e0bd, 0xf0d9ec, 0xdcdcf7, 0xf6d8d4,
                                                          0xcfe9ee, 0xebe8bf, 0xd8ebd6, 0xf3d6e6, 0xcdd9f8, 0xe0e4ea};
  return fromRgb((dark_ ? dark : light)[index % 12]);
}

Color Theme::heat(double share) const {
  share = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.0;
  const Color cold = color(Tone::kReplicated), warm = fromRgb(dark_ ? 0x6b5a1e : 0xf6df9d), hot = fromRgb(dark_ ? 0x8f3328 : 0xf2a296);
  return share < 0.5 ? mix(cold, warm, share * 2) : mix(warm, hot, share * 2 - 1);
}

Color Theme::mix(Color a, Color b, double share_of_b) const {
  const auto part = [&](std::uint8_t x, std::uint8_t y) { return static_cast<std::uint8_t>(std::lround(x + (y - x) * share_of_b)); };
  return {part(a.r, b.r), part(a.g, b.g), part(a.b, b.b), part(a.a, b.a)};
}

const char* toneName(Tone tone) { return kRows[static_cast<std::size_t>(tone)].name; }

double contrast(Color a, Color b) {
  const double x = luminance(a), y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

}  // namespace spscope::ui
