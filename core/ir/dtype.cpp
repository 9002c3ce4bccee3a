// SPDX-License-Identifier: Apache-2.0
#include "core/ir/dtype.h"

namespace spscope::ir {
namespace {
struct Row {
  DType type;
  std::string_view short_name, long_name;
  std::int64_t bytes;
};
constexpr Row kRows[] = {
    {DType::kUnknown, "?", "unknown", 0},      {DType::kBool, "bool", "bool", 1},
    {DType::kU8, "u8", "uint8", 1},            {DType::kU16, "u16", "uint16", 2},
    {DType::kU32, "u32", "uint32", 4},         {DType::kU64, "u64", "uint64", 8},
    {DType::kI8, "i8", "int8", 1},             {DType::kI16, "i16", "int16", 2},
    {DType::kI32, "i32", "int32", 4},          {DType::kI64, "i64", "int64", 8},
    {DType::kF16, "f16", "float16", 2},        {DType::kBF16, "bf16", "bfloat16", 2},
    {DType::kF32, "f32", "float32", 4},        {DType::kF64, "f64", "float64", 8},
    {DType::kC32, "c32", "complex32", 4},      {DType::kC64, "c64", "complex64", 8},
    {DType::kC128, "c128", "complex128", 16},  {DType::kF8E4M3FN, "f8e4m3fn", "float8_e4m3fn", 1},
    {DType::kF8E5M2, "f8e5m2", "float8_e5m2", 1},
    {DType::kF8E4M3FNUZ, "f8e4m3fnuz", "float8_e4m3fnuz", 1},
    {DType::kF8E5M2FNUZ, "f8e5m2fnuz", "float8_e5m2fnuz", 1},
    {DType::kF8E8M0FNU, "f8e8m0fnu", "float8_e8m0fnu", 1},
};
const Row& row(DType t) { return kRows[static_cast<std::size_t>(t)]; }
}  // namespace

std::int64_t sizeOf(DType t) { return row(t).bytes; }
bool isFloating(DType t) { return (t >= DType::kF16 && t <= DType::kF64) || t >= DType::kF8E4M3FN; }
bool isComplex(DType t) { return t >= DType::kC32 && t <= DType::kC128; }
std::string_view shortName(DType t) { return row(t).short_name; }
std::string_view longName(DType t) { return row(t).long_name; }

std::optional<DType> parseDType(std::string_view text) {
  for (const Row& r : kRows)
    if (r.type != DType::kUnknown && (text == r.short_name || text == r.long_name)) return r.type;
  return std::nullopt;
}

}  // namespace spscope::ir
