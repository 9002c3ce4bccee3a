// SPDX-License-Identifier: Apache-2.0
// ir::DType <-> c10::ScalarType. Only for files that include libtorch anyway.
#pragma once

#include <c10/core/ScalarType.h>

#include "core/ir/dtype.h"

namespace spscope::exec {

/// c10::ScalarType::Undefined for kUnknown.
inline c10::ScalarType toScalarType(ir::DType type) {
  using D = ir::DType;
  using S = c10::ScalarType;
  switch (type) {
    case D::kUnknown: return S::Undefined;
    case D::kBool: return S::Bool;
    case D::kU8: return S::Byte;
    case D::kU16: return S::UInt16;
    case D::kU32: return S::UInt32;
    case D::kU64: return S::UInt64;
    case D::kI8: return S::Char;
    case D::kI16: return S::Short;
    case D::kI32: return S::Int;
    case D::kI64: return S::Long;
    case D::kF16: return S::Half;
    case D::kBF16: return S::BFloat16;
    case D::kF32: return S::Float;
    case D::kF64: return S::Double;
    case D::kC32: return S::ComplexHalf;
    case D::kC64: return S::ComplexFloat;
    case D::kC128: return S::ComplexDouble;
    case D::kF8E4M3FN: return S::Float8_e4m3fn;
    case D::kF8E5M2: return S::Float8_e5m2;
    case D::kF8E4M3FNUZ: return S::Float8_e4m3fnuz;
    case D::kF8E5M2FNUZ: return S::Float8_e5m2fnuz;
    case D::kF8E8M0FNU: return S::Float8_e8m0fnu;
  }
  return S::Undefined;
}

/// kUnknown for types that graphs do not carry (quantised and sub-byte ones).
inline ir::DType toDType(c10::ScalarType type) {
  using D = ir::DType;
  using S = c10::ScalarType;
  switch (type) {
    case S::Bool: return D::kBool;
    case S::Byte: return D::kU8;
    case S::UInt16: return D::kU16;
    case S::UInt32: return D::kU32;
    case S::UInt64: return D::kU64;
    case S::Char: return D::kI8;
    case S::Short: return D::kI16;
    case S::Int: return D::kI32;
    case S::Long: return D::kI64;
    case S::Half: return D::kF16;
    case S::BFloat16: return D::kBF16;
    case S::Float: return D::kF32;
    case S::Double: return D::kF64;
    case S::ComplexHalf: return D::kC32;
    case S::ComplexFloat: return D::kC64;
    case S::ComplexDouble: return D::kC128;
    case S::Float8_e4m3fn: return D::kF8E4M3FN;
    case S::Float8_e5m2: return D::kF8E5M2;
    case S::Float8_e4m3fnuz: return D::kF8E4M3FNUZ;
    case S::Float8_e5m2fnuz: return D::kF8E5M2FNUZ;
    case S::Float8_e8m0fnu: return D::kF8E8M0FNU;
    default: return D::kUnknown;
  }
}

}  // namespace spscope::exec
