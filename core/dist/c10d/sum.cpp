// SPDX-License-Identifier: Apache-2.0
#include "core/dist/c10d/sum.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <array>

namespace spscope::dist {
namespace {

using ir::DType;

/// A chunk of the accumulator stays in the cache while the blocks are added to it one after the other: the inner loop
/// then vectorises, and the order of additions is still the rank order for every element.
template <typename T, typename Acc>
void sumAs(std::span<const void* const> blocks, void* out, std::int64_t count) {
  constexpr std::int64_t kChunk = 2048;
  std::array<Acc, kChunk> acc;
  T* to = static_cast<T*>(out);
  for (std::int64_t begin = 0; begin < count; begin += kChunk) {
    const std::int64_t n = std::min(kChunk, count - begin);
    const T* first = static_cast<const T*>(blocks[0]) + begin;
    for (std::int64_t i = 0; i < n; ++i) acc[static_cast<std::size_t>(i)] = static_cast<Acc>(first[i]);
    for (const void* block : blocks.subspan(1)) {
      const T* from = static_cast<const T*>(block) + begin;
      for (std::int64_t i = 0; i < n; ++i) acc[static_cast<std::size_t>(i)] += static_cast<Acc>(from[i]);
    }
    for (std::int64_t i = 0; i < n; ++i) to[begin + i] = static_cast<T>(acc[static_cast<std::size_t>(i)]);
  }
}

void anyOf(std::span<const void* const> blocks, void* out, std::int64_t count) {
  auto* to = static_cast<std::uint8_t*>(out);
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint8_t any = 0;
    for (const void* block : blocks) any |= static_cast<const std::uint8_t*>(block)[i];
    to[i] = any != 0;
  }
}

}  // namespace

bool canSum(DType type) {
  switch (type) {
    case DType::kUnknown:
    case DType::kF8E4M3FN:
    case DType::kF8E5M2:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2FNUZ:
    case DType::kF8E8M0FNU:
      return false;
    default:
      return true;
  }
}

void sumBlocks(DType type, std::span<const void* const> blocks, void* out, std::int64_t count) {
  // Integers are summed unsigned: two's complement gives the signed sum, and overflow stays defined.
  switch (type) {
    case DType::kF64: return sumAs<double, double>(blocks, out, count);
    case DType::kF32: return sumAs<float, float>(blocks, out, count);
    case DType::kBF16: return sumAs<c10::BFloat16, float>(blocks, out, count);
    case DType::kF16: return sumAs<c10::Half, float>(blocks, out, count);
    case DType::kI64:
    case DType::kU64: return sumAs<std::uint64_t, std::uint64_t>(blocks, out, count);
    case DType::kI32:
    case DType::kU32: return sumAs<std::uint32_t, std::uint32_t>(blocks, out, count);
    case DType::kI16:
    case DType::kU16: return sumAs<std::uint16_t, std::uint32_t>(blocks, out, count);
    case DType::kI8:
    case DType::kU8: return sumAs<std::uint8_t, std::uint32_t>(blocks, out, count);
    case DType::kBool: return anyOf(blocks, out, count);
    case DType::kC128: return sumAs<double, double>(blocks, out, 2 * count);
    case DType::kC64: return sumAs<float, float>(blocks, out, 2 * count);
    case DType::kC32: return sumAs<c10::Half, float>(blocks, out, 2 * count);
    default: return;  // refused by canSum
  }
}

}  // namespace spscope::dist
