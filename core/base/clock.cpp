// SPDX-License-Identifier: Apache-2.0
#include "core/base/clock.h"

#include <ctime>

namespace spscope {
namespace {

std::int64_t read(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

std::int64_t monotonicNs() { return read(CLOCK_MONOTONIC); }
std::int64_t wallNs() { return read(CLOCK_REALTIME); }

}  // namespace spscope
