// SPDX-License-Identifier: Apache-2.0
// The rng.* ops (core/ir/rng_ops.h) as libtorch sees them. Their numbers come from a hash of position, op and seed made of
// int64 ATen ops whose products stay below 2^63: the same bits on every device. No state, no generator.
//
// The bits of element i of op n in a step with seed s: k = splitmix64(s ^ splitmix64(n)), two 32-bit halves k0 and k1;
//   bits = mix32(mix32(low32(i) ^ k0) ^ high32(i) ^ k1),
// mix32 being the two-round multiply-xorshift permutation of 32 bits with the lowest known bias (Wellons, hash-prospector:
// 16, 7feb352d, 15, 846ca68b, 16). tests/unit/torch/rng_test.cpp holds its statistics.
#pragma once

#include <cstdint>

namespace spscope::exec {

/// Registers the library "rng" with the dispatcher, once per process. Any thread.
void registerRngOps();

/// What the rng ops that run on this thread draw from while the object lives. Nests.
class RandomScope {
 public:
  struct State {
    std::uint64_t seed = 0;  ///< of the step
    int rank = 0;            ///< on the sequence axis: which block of `blocks`
    int replica = 0;         ///< on the data axis: which rows of the batch
    int replicas = 1;
  };
  explicit RandomScope(const State& state);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  State previous_;
};

/// splitmix64 of seed and step, so that neighbouring steps are unrelated.
std::uint64_t stepSeed(std::uint64_t seed, std::int64_t step);

}  // namespace spscope::exec
