// SPDX-License-Identifier: Apache-2.0
#include "core/torch/rng_ops.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>

namespace spscope::exec {
namespace {

using at::IntArrayRef;
using at::Tensor;

thread_local RandomScope::State t_state;

constexpr std::int64_t kMask32 = 0xffffffff;

std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// In place, of values in [0, 2^32). The second constant is 846ca68b - 2^32, which is equal modulo 2^32 and keeps the
/// product inside int64.
void mix32(Tensor& x) {
  x.bitwise_xor_(x.bitwise_right_shift(16));
  x.mul_(std::int64_t{0x7feb352d}).bitwise_and_(kMask32);
  x.bitwise_xor_(x.bitwise_right_shift(15));
  x.mul_(std::int64_t{0x846ca68b} - (std::int64_t{1} << 32)).bitwise_and_(kMask32);
  x.bitwise_xor_(x.bitwise_right_shift(16));
}

/// One run of elements that is contiguous on this rank: `size` of them, `offset` into a factor of `full`.
struct Axis {
  std::int64_t size = 1, offset = 0, full = 1;
};

struct Where {
  std::vector<Axis> axes;  ///< outermost first; neighbours that are one run in the whole value are one axis
  std::int64_t local = 1;  ///< elements on this rank
  std::int64_t whole = 1;  ///< elements of the whole value over all replicas
};

Where locate(IntArrayRef whole, IntArrayRef start, IntArrayRef part, std::int64_t cut, IntArrayRef blocks, std::int64_t batch) {
  const auto at = [](IntArrayRef list, std::size_t i, std::int64_t otherwise) { return list.empty() ? otherwise : list[i]; };
  TORCH_CHECK((start.empty() || start.size() == whole.size()) && (part.empty() || part.size() == whole.size()),
              "rng: one start and one part per factor");
  Where out;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Axis a{at(part, i, whole[i]), at(start, i, 0), whole[i]};
    if (static_cast<std::int64_t>(i) == cut && !blocks.empty()) {
      TORCH_CHECK(t_state.rank < static_cast<int>(blocks.size()), "rng: ", blocks.size(), " blocks for rank ", t_state.rank);
      const auto mine = blocks.begin() + t_state.rank;
      a = {*mine, std::accumulate(blocks.begin(), mine, std::int64_t{0}), whole[i]};
    }
    if (static_cast<std::int64_t>(i) == batch) {
      a.offset += t_state.replica * whole[i];
      a.full *= t_state.replicas;
    }
    out.local *= a.size;
    out.whole *= a.full;
    if (!out.axes.empty() && a.size == a.full) {
      Axis& outer = out.axes.back();
      outer = {outer.size * a.size, outer.offset * a.size, outer.full * a.size};
    } else {
      out.axes.push_back(a);
    }
  }
  if (out.axes.empty()) out.axes.push_back({});
  return out;
}

/// Positions in the whole value of the elements [begin, end) of this rank.
Tensor positions(const Where& where, std::int64_t begin, std::int64_t end, const at::TensorOptions& options) {
  Tensor rest = at::arange(begin, end, options.dtype(at::kLong));
  if (where.axes.size() == 1) return rest.add_(where.axes[0].offset);
  Tensor out = at::zeros_like(rest);
  std::int64_t stride = 1;
  for (std::size_t i = where.axes.size(); i-- > 0;) {
    const Axis& a = where.axes[i];
    if (i == 0) {
      out.add_(rest.add(a.offset).mul_(stride));
    } else {
      const Tensor outer = rest.div(a.size, "floor");
      out.add_(rest.sub(outer, a.size).add_(a.offset).mul_(stride));
      rest = outer;
    }
    stride *= a.full;
  }
  return out;
}

/// 32 random bits per position.
Tensor bitsAt(const Tensor& position, std::int64_t number, std::int64_t whole) {
  const std::uint64_t key = splitmix64(t_state.seed ^ splitmix64(static_cast<std::uint64_t>(number)));
  const auto k0 = static_cast<std::int64_t>(key & 0xffffffffULL), k1 = static_cast<std::int64_t>(key >> 32);
  const bool small = whole <= kMask32 + 1;
  Tensor x = small ? position.bitwise_xor(k0) : position.bitwise_and(kMask32).bitwise_xor_(k0);
  mix32(x);
  if (!small) x.bitwise_xor_(position.bitwise_right_shift(32));
  x.bitwise_xor_(k1);
  mix32(x);
  return x;
}

/// Calls fill(positions, part of the flat result) chunk by chunk: a chunk fits a core's cache, or fills a GPU.
template <typename Fill>
Tensor fillByChunks(IntArrayRef size, at::ScalarType type, c10::Device device, const Where& where, Fill&& fill) {
  Tensor out = at::empty(size, at::TensorOptions().dtype(type).device(device));
  TORCH_CHECK(device.is_meta() || out.numel() == where.local, "rng: a result of ", out.numel(), " elements, ", where.local, " positions");
  if (device.is_meta()) return out;
  Tensor flat = out.view({-1});
  const std::int64_t chunk = device.is_cpu() ? std::int64_t{1} << 15 : std::int64_t{1} << 24;
  for (std::int64_t begin = 0; begin < where.local; begin += chunk) {
    const std::int64_t end = std::min(where.local, begin + chunk);
    fill(positions(where, begin, end, out.options()), flat.narrow(0, begin, end - begin));
  }
  return out;
}

Tensor keepAt(IntArrayRef size, IntArrayRef whole, std::int64_t number, double p, IntArrayRef start, IntArrayRef part, std::int64_t cut,
              IntArrayRef blocks, std::int64_t batch, std::optional<c10::Device> device) {
  const at::AutoDispatchBelowADInplaceOrView below;
  TORCH_CHECK(p >= 0.0 && p <= 1.0, "rng: the probability ", p);
  const Where where = locate(whole, start, part, cut, blocks, batch);
  const auto threshold = static_cast<std::int64_t>(p * 4294967296.0 + 0.5);
  return fillByChunks(size, at::kBool, device.value_or(at::kCPU), where, [&](const Tensor& position, Tensor target) {
    target.copy_(bitsAt(position, number, where.whole).ge(threshold));
  });
}

Tensor uniformAt(IntArrayRef size, IntArrayRef whole, std::int64_t number, at::ScalarType dtype, IntArrayRef start, IntArrayRef part,
                 std::int64_t cut, IntArrayRef blocks, std::int64_t batch, std::optional<c10::Device> device) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const Where where = locate(whole, start, part, cut, blocks, batch);
  // As many bits as the type's fraction holds, so that no value is rounded up to 1.
  const int digits = dtype == at::kDouble ? 53 : dtype == at::kFloat ? 24 : dtype == at::kHalf ? 11 : 8;
  return fillByChunks(size, dtype, device.value_or(at::kCPU), where, [&](const Tensor& position, Tensor target) {
    Tensor bits = bitsAt(position, number, where.whole);
    if (digits > 32) {
      // The low bits are those of an op that no program has.
      const Tensor low = bitsAt(position, ~number, where.whole).bitwise_right_shift_(64 - digits);
      bits = bits.mul_(std::int64_t{1} << (digits - 32)).add_(low);
    } else {
      bits.bitwise_right_shift_(32 - digits);
    }
    target.copy_(bits.to(dtype == at::kDouble ? at::kDouble : at::kFloat).mul_(1.0 / static_cast<double>(std::int64_t{1} << digits)));
  });
}

}  // namespace

void registerRngOps() {
  using torch::Library;
  static Library* const library = [] {
    auto* l = new Library(Library::DEF, "rng", std::nullopt, __FILE__, __LINE__);  // lives as long as the process
    const std::string rest = "int[] start=[], int[] part=[], int cut=-1, int[] blocks=[], int batch=-1, *, Device? device=None) -> Tensor";
    l->def(("keep_at(int[] size, int[] whole, int number, float p, " + rest).c_str());
    l->def(("uniform_at(int[] size, int[] whole, int number, ScalarType dtype, " + rest).c_str());
    auto* kernels = new Library(Library::IMPL, "rng", c10::DispatchKey::CompositeExplicitAutograd, __FILE__, __LINE__);
    kernels->impl("keep_at", &keepAt);
    kernels->impl("uniform_at", &uniformAt);
    return l;
  }();
  (void)library;
}

RandomScope::RandomScope(const State& state) : previous_(t_state) { t_state = state; }
RandomScope::~RandomScope() { t_state = previous_; }

std::uint64_t stepSeed(std::uint64_t seed, std::int64_t step) {
  return splitmix64(seed + 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(step));
}

}  // namespace spscope::exec
