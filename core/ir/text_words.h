// SPDX-License-Identifier: Apache-2.0
// The words that the printer and the parser of the text form share. Private to core/ir.
#pragma once

#include <array>
#include <string_view>

#include "core/ir/graph.h"

namespace spscope::ir::words {

inline constexpr std::string_view kVersionPrefix = "// spscope-graph ";
inline constexpr std::string_view kVersion = "1";

// Indexed by the enumerators.
inline constexpr std::array<std::string_view, 4> kForms = {"global", "planned", "local", "joint"};
inline constexpr std::array<std::string_view, 4> kInputKinds = {"parameter", "buffer", "constant", "user"};
inline constexpr std::array<std::string_view, 4> kOutputKinds = {"loss", "gradient", "user", "buffer_update"};
inline constexpr std::array<std::string_view, 3> kPhases = {"forward", "backward", "recompute"};
inline constexpr std::array<std::string_view, 4> kKeeps = {"unknown", "saved", "recompute", "freed"};
inline constexpr std::array<std::string_view, 4> kMemoryFormats = {"contiguous", "channels_last", "channels_last_3d",
                                                                   "preserve"};
inline constexpr std::array<char, 4> kTags = {'n', 's', 'b', 'x'};

/// Index of the word in the table, -1 where it is not there.
template <std::size_t N>
int indexOf(const std::array<std::string_view, N>& table, std::string_view word) {
  for (std::size_t i = 0; i < N; ++i)
    if (table[i] == word) return static_cast<int>(i);
  return -1;
}

inline bool isWordStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
inline bool isDigit(char c) { return c >= '0' && c <= '9'; }
inline bool isNameChar(char c) { return isWordStart(c) || isDigit(c) || c == '.'; }
inline bool isWordChar(char c) { return isNameChar(c) || c == '-'; }

/// Printed bare where word says so, otherwise quoted.
inline bool isWord(std::string_view text) {
  if (text.empty() || !isWordStart(text[0]) || text == "_") return false;
  for (char c : text)
    if (!isWordChar(c)) return false;
  return true;
}
/// After '%', where digits may come first.
inline bool isName(std::string_view text) {
  if (text.empty()) return false;
  for (char c : text)
    if (!isNameChar(c)) return false;
  return true;
}

}  // namespace spscope::ir::words
