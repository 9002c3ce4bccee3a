// SPDX-License-Identifier: Apache-2.0
// Gloo groups for tests: every rank a thread of this process, meeting at a file; and numbers whose sums tell their order.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/dist/async_collectives.h"
#include "core/dist/c10d/gloo.h"
#include "tests/support/temp_folder.h"

namespace spscope::dist {

/// Runs `body(std::unique_ptr<Collectives>)` on P threads, each a rank; what each of them returns, or why it has no group.
template <typename Body>
std::vector<Status> withGroups(int ranks, const Rendezvous& base, Body body) {
  const TempFolder folder;
  std::vector<Status> results(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      Rendezvous at = base;
      at.rank = r;
      at.size = ranks;
      if (at.host.empty()) at.file = folder.path("store");
      auto group = connectGloo(at);
      results[static_cast<std::size_t>(r)] = group ? body(std::move(*group)) : Status(group.error());
    });
  for (std::thread& t : threads) t.join();
  return results;
}

/// The same for `body(Collectives&)`.
template <typename Body>
std::vector<Status> onRanks(int ranks, Body body, const Rendezvous& base = {}) {
  return withGroups(ranks, base, [&](std::unique_ptr<Collectives> group) { return body(*group); });
}
/// ... whose collectives may be started, and waited for later.
template <typename Body>
std::vector<Status> onAsyncRanks(int ranks, Body body, const Rendezvous& base = {}) {
  return withGroups(ranks, base, [&](std::unique_ptr<Collectives> group) { return body(*makeAsync(std::move(group))); });
}

/// Every rank's value of element i; sums of them in rank order are what the collectives must give, to the bit.
inline double valueAt(int rank, std::int64_t i) {
  return std::sin(static_cast<double>(i) * 0.7 + rank * 1.3) * std::pow(10.0, rank);
}

}  // namespace spscope::dist
