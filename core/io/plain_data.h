// SPDX-License-Identifier: Apache-2.0
// Plain data as Python knows it (numbers, texts, lists, dictionaries), from a pickle or from JSON: one tree, so that what
// reads a format that comes in both forms is written once. Nothing is executed; time and memory are linear in the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace spscope::io {

struct PlainItem {
  enum class Kind : std::uint8_t { kNone, kBool, kInt, kReal, kText, kList, kDict };
  Kind kind = Kind::kNone;
  std::int64_t number = 0;           ///< kBool, kInt
  std::string text;                  ///< kText
  std::vector<std::uint32_t> items;  ///< kList (tuples too); kDict: key, value, key, value ...
};

/// Values name each other by index. A pickle may name one value many times, or a list inside itself: whoever walks the
/// tree has to bound its steps.
struct PlainData {
  std::vector<PlainItem> items;
  std::uint32_t root = 0;

  const PlainItem& operator[](std::uint32_t index) const { return items[index]; }
};

/// Reals come without their value: no reader needs one yet. Errors: json-syntax.
Result<PlainData> readPlainJson(std::span<const std::byte> text, const std::string& what);

/// Protocols 0x80 2 to 5 of plain data only. Errors: pickle-not-plain (it names a function or class), pickle-corrupt.
Result<PlainData> readPlainPickle(std::span<const std::byte> pickle, const std::string& what);

}  // namespace spscope::io
