// SPDX-License-Identifier: Apache-2.0
// Random numbers by position: the same whatever part is asked for, and random as far as these statistics can tell.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <cmath>
#include <map>

#include "core/torch/dtype_convert.h"
#include "core/torch/op_call.h"
#include "core/torch/rng_ops.h"

namespace spscope::exec {
namespace {

using Ints = std::vector<std::int64_t>;

/// Arguments of one draw; sizes as in core/ir/rng_ops.h.
struct Draw {
  Ints size, whole;
  std::int64_t number = 0;
  double p = 0.25;
  std::map<std::string, ir::Attribute> more;
};

at::Tensor run(const Draw& d, const char* op = "rng.keep_at.default", ir::DType dtype = ir::DType::kUnknown) {
  registerRngOps();
  ir::Node node;
  node.op = Symbol(op);
  node.name = "n";
  node.set("size", d.size);
  node.set("whole", d.whole);
  node.set("number", d.number);
  if (dtype == ir::DType::kUnknown) node.set("p", d.p);
  else node.set("dtype", dtype);
  for (const auto& [name, value] : d.more) node.set(Symbol(name), value);
  const auto prepared = prepare(node);
  EXPECT_TRUE(prepared) << prepared.error().format();
  std::vector<at::Tensor> out;
  const Status status = call(*prepared, {}, out);
  EXPECT_TRUE(status) << status.error().format();
  return out.at(0);
}
at::Tensor uniform(const Draw& d, ir::DType dtype) { return run(d, "rng.uniform_at.default", dtype); }

TEST(Rng, EveryRankDrawsItsPartOfTheWhole) {
  // [3, 7, 50000] with its middle factor in uneven blocks (one empty); more elements than one chunk.
  const RandomScope seed({42, 0, 0, 1});
  const at::Tensor whole = run({{3, 7, 5000}, {3, 7, 5000}});
  const Ints blocks = {3, 0, 4};
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < 3; ++rank) {
    const RandomScope at_rank({42, rank, 0, 1});
    parts.push_back(run({{3, blocks[static_cast<std::size_t>(rank)], 5000}, {3, 7, 5000}, 0, 0.25, {{"cut", std::int64_t{1}}, {"blocks", blocks}}}));
  }
  EXPECT_TRUE(at::equal(at::cat(parts, 1), whole));
}

TEST(Rng, AFactorInsideADimensionMayBeCut) {
  const RandomScope seed({1, 1, 0, 1});  // rank 1 of a [2·6, 4] whose second factor is cut 4 and 2
  const at::Tensor whole = run({{12, 4}, {2, 6, 4}});
  const at::Tensor part = run({{4, 4}, {2, 6, 4}, 0, 0.25, {{"cut", std::int64_t{1}}, {"blocks", Ints{4, 2}}}});
  EXPECT_TRUE(at::equal(part, whole.view({2, 6, 4}).narrow(1, 4, 2).reshape({4, 4})));
}

TEST(Rng, AWindowIsAPartOfTheWhole) {
  const RandomScope seed({1, 0, 0, 1});
  const at::Tensor whole = run({{2, 64, 64}, {2, 64, 64}, 5});
  const at::Tensor window = run({{2, 16, 40}, {2, 64, 64}, 5, 0.25, {{"start", Ints{0, 32, 0}}, {"part", Ints{2, 16, 40}}}});
  EXPECT_TRUE(at::equal(window, whole.narrow(1, 32, 16).narrow(2, 0, 40)));
}

TEST(Rng, SP_62_replicas_draw_for_the_rows_that_they_hold) {
  // Same seed on all: equal inside a sequence group by position, different over the data axis because the rows are others.
  const RandomScope seed({9, 0, 0, 1});
  const at::Tensor whole = run({{4, 6, 8}, {4, 6, 8}});
  for (int replica = 0; replica < 2; ++replica) {
    const RandomScope at_replica({9, 0, replica, 2});
    const at::Tensor rows = run({{2, 6, 8}, {2, 6, 8}, 0, 0.25, {{"batch", std::int64_t{0}}}});
    EXPECT_TRUE(at::equal(rows, whole.narrow(0, 2 * replica, 2))) << replica;
    // A value without a batch is the same on all replicas.
    EXPECT_TRUE(at::equal(run({{6, 8}, {6, 8}}), run({{6, 8}, {6, 8}})));
  }
}

TEST(Rng, PositionsBeyondFourBillionAreOthers) {
  const RandomScope seed({3, 0, 0, 1});
  const std::int64_t far = std::int64_t{1} << 33;
  const auto at = [&](std::int64_t begin) {
    return run({{4096}, {far}, 0, 0.5, {{"start", Ints{begin}}, {"part", Ints{4096}}}}).to(at::kFloat);
  };
  const double agree = at(0).eq(at(std::int64_t{1} << 32)).to(at::kFloat).mean().item<double>();
  EXPECT_NEAR(agree, 0.5, 0.04);  // 5 sigma
}

TEST(Rng, StatisticsOfAMaskAreThoseOfIndependentCoins) {
  const std::int64_t n = 1 << 20;
  for (const double p : {0.1, 0.5}) {
    const double sigma = std::sqrt(p * (1 - p) / static_cast<double>(n));
    std::vector<at::Tensor> masks;
    for (const std::int64_t number : {0, 1, 2, 1000}) {
      const RandomScope seed({7, 0, 0, 1});
      masks.push_back(run({{n}, {n}, number, p}).to(at::kDouble));
    }
    const RandomScope other({8, 0, 0, 1});
    masks.push_back(run({{n}, {n}, 0, p}).to(at::kDouble));
    for (std::size_t i = 0; i < masks.size(); ++i) {
      EXPECT_NEAR(masks[i].mean().item<double>(), 1 - p, 5 * sigma);
      const at::Tensor centred = masks[i] - (1 - p);
      // Neighbours at distances that layouts have: rows, heads, blocks of two.
      for (const std::int64_t lag : {1, 2, 3, 32, 64, 127, 128, 1024, 4096, 65536}) {
        const double r = (centred.narrow(0, 0, n - lag) * centred.narrow(0, lag, n - lag)).mean().item<double>() / (p * (1 - p));
        EXPECT_NEAR(r, 0.0, 5.5 / std::sqrt(static_cast<double>(n - lag))) << "lag " << lag;
      }
      for (std::size_t j = 0; j < i; ++j) {
        const double r = (centred * (masks[j] - (1 - p))).mean().item<double>() / (p * (1 - p));
        EXPECT_NEAR(r, 0.0, 5.5 / std::sqrt(static_cast<double>(n))) << "masks " << i << " and " << j;
      }
      // Rows and columns of a [1024, 1024] mask: each has its share.
      const double share = 5.5 * std::sqrt(p * (1 - p) / 1024.0);
      for (const std::int64_t dim : {0, 1})
        EXPECT_LT((masks[i].view({1024, 1024}).mean(dim) - (1 - p)).abs().max().item<double>(), share);
    }
  }
}

TEST(Rng, UniformFillsItsIntervalEvenly) {
  const std::int64_t n = 1 << 20;
  const RandomScope seed({7, 0, 0, 1});
  for (const auto dtype : {ir::DType::kF64, ir::DType::kF32, ir::DType::kBF16, ir::DType::kF16}) {
    const at::Tensor u = uniform({{n}, {n}}, dtype).to(at::kDouble);
    EXPECT_GE(u.min().item<double>(), 0.0);
    EXPECT_LT(u.max().item<double>(), 1.0);
    const at::Tensor counts = at::bincount((u * 256).to(at::kLong), {}, 256).to(at::kDouble);
    const double expected = static_cast<double>(n) / 256;
    const double chi2 = ((counts - expected).square() / expected).sum().item<double>();
    EXPECT_NEAR(chi2, 255, 5 * std::sqrt(2 * 255.0)) << "chi-square of 256 bins, 255 degrees of freedom";
  }
  // float64 has 53 bits: the lowest are used, and evenly.
  const at::Tensor low = (uniform({{n}, {n}}, ir::DType::kF64) * 9007199254740992.0).to(at::kLong).bitwise_and(255);
  const at::Tensor counts = at::bincount(low, {}, 256).to(at::kDouble);
  const double expected = static_cast<double>(n) / 256;
  EXPECT_NEAR(((counts - expected).square() / expected).sum().item<double>(), 255, 5 * std::sqrt(2 * 255.0));
}

TEST(Rng, TheFirstBitsNeverChange) {
  // Resuming a run with a newer version must draw what the old one drew. By hand from the formula of rng_ops.h.
  const auto mix = [](std::uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    return x ^ (x >> 16);
  };
  const auto splitmix = [](std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  };
  const RandomScope seed({42, 0, 0, 1});
  const std::uint64_t key = splitmix(42 ^ splitmix(3));
  const at::Tensor u = uniform({{1000}, {1000}, 3}, ir::DType::kF32);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const std::uint32_t bits = mix(mix(i ^ static_cast<std::uint32_t>(key)) ^ static_cast<std::uint32_t>(key >> 32));
    ASSERT_EQ(u[i].item<float>(), static_cast<float>(bits >> 8) / 16777216.0F) << i;
  }
  EXPECT_NE(stepSeed(5, 0), stepSeed(5, 1));
  EXPECT_NE(stepSeed(5, 1), stepSeed(6, 0));
}

TEST(Rng, ProbabilitiesZeroAndOne) {
  const RandomScope seed({42, 0, 0, 1});
  EXPECT_TRUE(run({{1000}, {1000}, 0, 0.0}).all().item<bool>());
  EXPECT_FALSE(run({{1000}, {1000}, 0, 1.0}).any().item<bool>());
  EXPECT_EQ(run({{0, 4}, {0, 4}}).numel(), 0);
  EXPECT_EQ(run({{}, {}}).numel(), 1);
}

}  // namespace
}  // namespace spscope::exec
