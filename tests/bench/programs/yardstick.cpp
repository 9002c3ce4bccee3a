// SPDX-License-Identifier: Apache-2.0
// What this machine is worth right now: for each line "step" a fixed piece of work of the kind that compiling is (small
// allocations, maps of strings, sorting, walking memory), answered by the nanoseconds of CPU time it took. Times of a run are compared
// with those of a stored run in units of it, so that a busy or another machine does not look like a slower program.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/programs/clocks.h"

namespace {

std::uint64_t work() {
  std::uint64_t random = 88172645463325252ULL, sum = 0;
  const auto next = [&] { return random ^= random << 13, random ^= random >> 7, random ^= random << 17; };
  std::map<std::string, std::unique_ptr<std::vector<std::int64_t>>> nodes;
  for (int i = 0; i < 20'000; ++i) {
    auto& list = nodes["node_" + std::to_string(next() % 15'000)];
    if (!list) list = std::make_unique<std::vector<std::int64_t>>();
    list->push_back(static_cast<std::int64_t>(next() % 1000));
  }
  for (auto& [name, list] : nodes) {
    std::sort(list->begin(), list->end());
    for (const std::int64_t v : *list) sum += static_cast<std::uint64_t>(v) * name.size();
  }
  std::vector<std::uint64_t> table(1 << 17);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = next();
  std::sort(table.begin(), table.end());
  return sum + table[table.size() / 2];
}

}  // namespace

int main() {
  std::printf("ready\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    const std::int64_t begin = spscope::cpuNs();
    const std::uint64_t result = work();
    std::printf("%lld %llu\n", static_cast<long long>(spscope::cpuNs() - begin), static_cast<unsigned long long>(result));
    std::fflush(stdout);
  }
}
