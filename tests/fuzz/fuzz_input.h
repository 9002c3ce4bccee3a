// SPDX-License-Identifier: Apache-2.0
// What every fuzzer needs: its input as a file or as text, and the checks that hold for any answer.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "core/base/codes.h"
#include "core/base/error.h"

namespace spscope::fuzz {

inline std::string_view textOf(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}
inline std::vector<std::byte> bytesOf(const std::uint8_t* data, std::size_t size) {
  const auto* first = reinterpret_cast<const std::byte*>(data);
  return {first, first + size};
}

/// Ends the program where a condition that must hold for every input does not: libFuzzer keeps the input.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

/// A refusal has a code that is explained and a message that a person can read.
inline void requireClear(const Error& error) {
  if (findCode(error.code) && error.code != "internal" && !error.message.empty() && error.message.size() < 3000) return;
  std::fprintf(stderr, "%s\n", error.format().c_str());
  require(false, "the error is clear");
}

}  // namespace spscope::fuzz
