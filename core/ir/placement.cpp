// SPDX-License-Identifier: Apache-2.0
#include "core/ir/placement.h"

namespace spscope::ir {

std::int64_t numel(const Dims& dims) {
  std::int64_t n = 1;
  for (auto d : dims) n *= d;
  return n;
}

Factors plainFactors(const Dims& shape) {
  Factors out(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) out[d].push_back({shape[d], Tag::kNone});
  return out;
}

std::int64_t sizeOf(const FactorList& factors) {
  std::int64_t n = 1;
  for (const Factor& f : factors) n *= f.size;
  return n;
}

Dims shapeOf(const Factors& factors) {
  Dims out(factors.size());
  for (std::size_t d = 0; d < factors.size(); ++d) out[d] = sizeOf(factors[d]);
  return out;
}

bool hasTag(const FactorList& factors, Tag tag) {
  for (const Factor& f : factors)
    if (f.tag == tag) return true;
  return false;
}

bool hasTag(const Factors& factors, Tag tag) {
  for (const FactorList& list : factors)
    if (hasTag(list, tag)) return true;
  return false;
}

ShardSpec canonical(const Factors& factors, const Placement& placement) {
  const FactorList& list = factors[static_cast<std::size_t>(placement.dim)];
  ShardSpec spec{placement.dim, 1, placement.sizes};
  std::int64_t inner = 1;
  for (int j = 0; j < static_cast<int>(list.size()); ++j) {
    if (j < placement.factor) spec.outer *= list[static_cast<std::size_t>(j)].size;
    if (j > placement.factor) inner *= list[static_cast<std::size_t>(j)].size;
  }
  for (auto& b : spec.blocks) b *= inner;
  return spec;
}

Dims balancedBlocks(std::int64_t n, int ranks) {
  Dims out(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) out[static_cast<std::size_t>(r)] = n / ranks + (r < n % ranks ? 1 : 0);
  return out;
}

Dims offsetsOf(const Dims& sizes) {
  Dims out(sizes.size() + 1, 0);
  for (std::size_t i = 0; i < sizes.size(); ++i) out[i + 1] = out[i] + sizes[i];
  return out;
}

Dims localShape(const Factors& factors, const Placement& placement, int rank) {
  Dims out = shapeOf(factors);
  if (placement.isSharded()) {
    const ShardSpec spec = canonical(factors, placement);
    out[static_cast<std::size_t>(spec.dim)] = spec.outer * spec.blocks[static_cast<std::size_t>(rank)];
  }
  return out;
}

int Mesh::sizeOf(std::string_view name) const {
  for (const Axis& axis : axes)
    if (axis.name == name) return axis.size;
  return 1;
}

}  // namespace spscope::ir
