// SPDX-License-Identifier: Apache-2.0
#include "core/session/link_rates.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "core/base/clock.h"
#include "core/base/strings.h"
#include "core/session/rank_errand.h"
#include "core/torch/self_test.h"

namespace spscope::session {
namespace {

constexpr const char* kKind = "link-rates";
constexpr std::int64_t kBlockBytes = std::int64_t{8} << 20;
constexpr int kSmall = 200, kLarge = 12;

/// A line of /proc/self/status in bytes; 0 where it is not there.
std::int64_t memoryLine(const std::string& name) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.rfind(name + ":", 0) == 0) return std::strtoll(line.c_str() + name.size() + 1, nullptr, 10) * 1024;
  return 0;
}

/// The fastest, and the one that a quarter was slower than.
std::pair<double, double> spread(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() * 3 / 4]};
}

}  // namespace

Result<LinkRates> measureLinks(int ranks, std::chrono::milliseconds deadline, const CancelToken& cancel) {
  std::vector<dist::Message> told(static_cast<std::size_t>(ranks));
  SP_TRY(sendErrand(kKind, ranks, deadline, cancel, [&](int rank, const dist::Message& m) {
    if (m.kind == "rates") told[static_cast<std::size_t>(rank)] = m;
  }));
  LinkRates out;
  out.ranks = ranks;
  out.times = kLarge;
  out.block_bytes = kBlockBytes;
  for (const dist::Message& m : told) {
    const auto number = [&](const char* key) { return std::strtod(m.at(key).c_str(), nullptr); };
    if (m.kind.empty() || number("large_low") <= 0 || number("small_low") <= 0) return makeError("internal", "a rank told no rates", Outcome::kRunFailed);
    const double sent = static_cast<double>(kBlockBytes) * (ranks - 1);
    const double fast = sent / number("large_low"), slow = sent / number("large_high");
    out.latency_low = std::max(out.latency_low, number("small_low"));
    out.latency_high = std::max(out.latency_high, number("small_high"));
    out.bytes_per_ns_low = out.bytes_per_ns_low == 0 ? slow : std::min(out.bytes_per_ns_low, slow);
    out.bytes_per_ns_high = out.bytes_per_ns_high == 0 ? fast : std::min(out.bytes_per_ns_high, fast);
    out.outside_low = std::max(out.outside_low, static_cast<std::int64_t>(number("own")));
    out.outside_high = std::max(out.outside_high, static_cast<std::int64_t>(number("resident")));
    out.group_bytes = std::max(out.group_bytes, static_cast<std::int64_t>(number("group")));
  }
  return out;
}

bool isLinkMeasurement(const std::string& request) {
  return isErrand(request, kKind);
}

Status measureAsRank(dist::RankReporter& reporter) {
  reporter.phase("measure");
  SP_ASSIGN(const auto kernels, exec::torchSelfTest());  // what a rank has of torch once it computes
  (void)kernels;
  const std::int64_t own = memoryLine("RssAnon"), resident = memoryLine("VmRSS");
  SP_ASSIGN(const auto group, meetOthers(reporter));
  std::vector<double> small, large;
  double value = 1;
  for (int i = 0; i < kSmall; ++i) {
    const std::int64_t begin = monotonicNs();
    SP_TRY(group->allReduceSum({&value, 1, ir::DType::kF64}));
    small.push_back(static_cast<double>(std::max<std::int64_t>(1, monotonicNs() - begin)));
    value = 1;
  }
  std::int64_t grown = 0;
  {
    const auto ranks = static_cast<std::size_t>(reporter.size());
    std::vector<float> send(ranks * kBlockBytes / sizeof(float), 1.0F), receive(send.size());
    const std::vector<std::int64_t> counts(ranks, kBlockBytes / static_cast<std::int64_t>(sizeof(float)));
    const std::int64_t before = memoryLine("RssAnon");
    for (int i = 0; i < kLarge; ++i) {
      SP_TRY(group->barrier());
      const std::int64_t begin = monotonicNs();
      SP_TRY(group->allToAll({send.data(), static_cast<std::int64_t>(send.size()), ir::DType::kF32}, counts,
                             {receive.data(), static_cast<std::int64_t>(receive.size()), ir::DType::kF32}, counts));
      large.push_back(static_cast<double>(std::max<std::int64_t>(1, monotonicNs() - begin)));
    }
    grown = std::max<std::int64_t>(0, memoryLine("RssAnon") - before);
  }
  const auto [small_low, small_high] = spread(small);
  const auto [large_low, large_high] = spread(large);
  reporter.send({"rates",
                 {{"small_low", formatDouble(small_low)},
                  {"small_high", formatDouble(small_high)},
                  {"large_low", formatDouble(large_low)},
                  {"large_high", formatDouble(large_high)},
                  {"own", std::to_string(own)},
                  {"resident", std::to_string(resident)},
                  {"group", std::to_string(grown)}}});
  return group->barrier();
}

}  // namespace spscope::session
