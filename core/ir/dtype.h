// SPDX-License-Identifier: Apache-2.0
// Element types, with the names of the text form (f32) and of the command line (float32).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace spscope::ir {

enum class DType : std::uint8_t {
  kUnknown, kBool, kU8, kU16, kU32, kU64, kI8, kI16, kI32, kI64, kF16, kBF16, kF32, kF64,
  kC32, kC64, kC128, kF8E4M3FN, kF8E5M2, kF8E4M3FNUZ, kF8E5M2FNUZ, kF8E8M0FNU,
};

/// Bytes of one element; 0 for kUnknown.
std::int64_t sizeOf(DType type);
bool isFloating(DType type);
bool isComplex(DType type);
/// "f32", "bf16", "i64", "bool" ...
std::string_view shortName(DType type);
/// "float32", "bfloat16", "int64" ...
std::string_view longName(DType type);
/// Accepts both spellings.
std::optional<DType> parseDType(std::string_view text);

}  // namespace spscope::ir
