// SPDX-License-Identifier: Apache-2.0
#include "core/torch/value_compare.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/torch/elements.h"

namespace spscope::exec {
namespace {

constexpr double kSentinel = 1e30;  // masks hold the most negative number there is: it measures nothing
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The dimension `shard.dim` as [outer, blocks]: what a rank holds is then a window of the second.
at::Tensor unfolded(const at::Tensor& t, const ir::ShardSpec& shard) {
  return t.unflatten(shard.dim, at::IntArrayRef{shard.outer, t.size(shard.dim) / shard.outer});
}

struct Worst {
  double squares = 0.0, finite = 0.0;
  double max_abs = -1.0, max_rel = 0.0;
  std::int64_t index = 0;  ///< flat, in the part
  double got = 0.0, wanted = 0.0;
};

Worst differenceOf(const at::Tensor& got, const at::Tensor& wanted) {
  Worst out;
  forElements(got, wanted, [&out](std::int64_t i, double x, double y) {
    if (x == y || (std::isnan(x) && std::isnan(y))) return;
    double d = std::abs(x - y);
    if (std::isfinite(d)) out.finite += d * d;
    else d = kInfinity;
    out.squares += d * d;
    out.max_rel = std::max(out.max_rel, y == 0.0 ? kInfinity : d / std::abs(y));
    if (d > out.max_abs) out.max_abs = d, out.index = i, out.got = x, out.wanted = y;
  });
  return out;
}

double norm(const at::Tensor& t) {
  double squares = 0.0;
  forElements(t, [&squares](std::int64_t, double x) {
    if (std::abs(x) < kSentinel) squares += x * x;
  });
  return std::sqrt(squares);
}

}  // namespace

bool fits(const Assembly& how, const std::vector<ir::Dims>& parts, const ir::Dims& whole) {
  const bool sharded = how.kind == ir::PlacementKind::kSharded;
  const ir::ShardSpec& s = how.shard;
  const auto dim = static_cast<std::size_t>(s.dim);
  if (sharded && (s.blocks.size() != parts.size() || dim >= whole.size() || s.outer < 1)) return false;
  std::int64_t sum = 0;
  for (std::size_t r = 0; r < parts.size(); ++r) {
    ir::Dims expected = whole;
    if (sharded) expected[dim] = s.outer * s.blocks[r], sum += expected[dim];
    if (parts[r] != expected) return false;
  }
  return !sharded || sum == whole[dim];
}

std::vector<Assembly> assembliesFor(const std::vector<ir::Dims>& parts, const ir::Dims& whole, const std::vector<std::int64_t>& outers) {
  std::vector<Assembly> out;
  for (const auto kind : {ir::PlacementKind::kReplicated, ir::PlacementKind::kPartial})
    if (Assembly how{kind}; fits(how, parts, whole)) out.push_back(how);
  if (!out.empty()) return out;
  std::size_t dim = whole.size();  // the one that differs on some rank
  for (const ir::Dims& part : parts) {
    if (part.size() != whole.size()) return {};
    for (std::size_t d = 0; d < whole.size(); ++d)
      if (part[d] != whole[d]) dim = d;
  }
  if (dim == whole.size()) return {};
  for (const std::int64_t outer : outers) {
    Assembly how{ir::PlacementKind::kSharded, {static_cast<int>(dim), outer, {}}};
    for (const ir::Dims& part : parts) {
      if (outer < 1 || part[dim] % outer != 0) break;
      how.shard.blocks.push_back(part[dim] / outer);
    }
    if (fits(how, parts, whole)) out.push_back(std::move(how));
  }
  return out;
}

Result<double> normOfValue(const TensorBag& value) {
  SP_ASSIGN(const at::Tensor t, onlyTensor(value));
  return norm(t);
}

Result<ValueDifference> compareValue(const std::vector<TensorBag>& parts, const TensorBag& whole, const Assembly& how) {
  SP_ASSIGN(const at::Tensor reference, onlyTensor(whole));
  std::vector<at::Tensor> tensors;
  std::vector<ir::Dims> shapes;
  for (const TensorBag& part : parts) {
    SP_ASSIGN(at::Tensor t, onlyTensor(part));
    shapes.push_back(t.sizes().vec());
    tensors.push_back(std::move(t));
  }
  if (!fits(how, shapes, reference.sizes().vec())) return makeError("tensor-shape", "the parts do not make up the value");
  ValueDifference out;
  out.norm = norm(reference);
  out.max_abs = -1.0;
  if (how.kind == ir::PlacementKind::kPartial) {
    at::Tensor sum = at::zeros(reference.sizes(), at::kDouble);
    std::vector<double> strange;
    for (const at::Tensor& t : tensors) {
      sum.add_(t);
      strange.push_back(t.is_floating_point() && !t.isfinite().all().item<bool>() ? kInfinity : 0.0);
    }
    if (std::count(strange.begin(), strange.end(), kInfinity) > 0 && reference.is_floating_point() && reference.isfinite().all().item<bool>()) out.rank_error = std::move(strange);
    tensors = {sum};
  }
  const bool told = !out.rank_error.empty();  // which ranks it is
  if (told) out.rank_norm.assign(out.rank_error.size(), out.norm);
  double squares = 0.0, finite = 0.0;
  std::int64_t offset = 0;
  const bool sharded = how.kind == ir::PlacementKind::kSharded;
  for (std::size_t r = 0; r < tensors.size(); ++r) {
    at::Tensor wanted = reference, got = tensors[r];
    if (sharded) {
      wanted = unfolded(reference, how.shard).narrow(how.shard.dim + 1, offset, how.shard.blocks[r]);
      if (how.shard.blocks[r] > 0) got = unfolded(got, how.shard);
    }
    const Worst worst = differenceOf(got, wanted);
    const double error = std::sqrt(worst.squares);
    if (!told) {
      out.rank_error.push_back(std::isfinite(error) ? error : kInfinity);
      out.rank_norm.push_back(sharded ? norm(wanted) : out.norm);
    }
    squares += worst.squares;
    finite = sharded ? finite + worst.finite : std::max(finite, worst.finite);
    out.max_rel = std::max(out.max_rel, worst.max_rel);
    if (worst.max_abs > out.max_abs) {
      out.max_abs = worst.max_abs;
      out.got = worst.got;
      out.wanted = worst.wanted;
      out.worst = indexOf(worst.index, wanted.sizes());
      if (sharded) {  // back to the one dimension of the whole
        const auto d = static_cast<std::size_t>(how.shard.dim);
        out.worst[d] = out.worst[d] * (reference.size(how.shard.dim) / how.shard.outer) + out.worst[d + 1] + offset;
        out.worst.erase(out.worst.begin() + how.shard.dim + 1);
      }
    }
    if (sharded) offset += how.shard.blocks[r];
  }
  out.max_abs = std::max(out.max_abs, 0.0);
  out.error = sharded ? std::sqrt(squares) : *std::max_element(out.rank_error.begin(), out.rank_error.end());
  if (!std::isfinite(out.error)) out.error = kInfinity;
  out.finite_error = std::sqrt(finite);
  return out;
}

}  // namespace spscope::exec
