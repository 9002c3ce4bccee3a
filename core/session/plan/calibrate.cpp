// SPDX-License-Identifier: Apache-2.0
#include "core/session/plan/calibrate.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "core/base/strings.h"
#include "core/dist/nccl_loader.h"
#include "core/session/link_rates.h"
#include "core/torch/kernel_rates.h"

namespace spscope::session {
namespace {

/// "MemTotal:   24 kB" in bytes; 0 where it is not there.
double memoryInfo(const std::string& name) {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind(name + ":", 0) == 0) return 1024 * std::strtod(line.c_str() + name.size() + 1, nullptr);
  return 0;
}

/// What the container may have; 0 where nothing says so.
double containerLimit() {
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream in(path);
    double bytes = 0;
    if (in >> bytes && bytes > 0) return bytes;
  }
  return 0;
}

Result<Figure> capacity() {
  const double total = memoryInfo("MemTotal"), available = memoryInfo("MemAvailable"), limit = containerLimit();
  if (total <= 0) return makeError("file-unreadable", "/proc/meminfo says no MemTotal", Outcome::kNo);
  const bool limited = limit > 0 && limit < total;
  Figure out;
  out.high = limited ? limit : total;
  out.low = std::min(out.high, available > 0 ? available : total);
  out.source = std::string("high: ") + (limited ? "the container's limit" : "MemTotal") + "; low: what was available when this was measured";
  return out;
}

Figure figureOf(const exec::MeasuredRate& rate, const std::string& more = {}) {
  return {rate.low, rate.high, "measured: " + rate.how + more + "; low: a quarter was slower, high: the fastest"};
}

}  // namespace

Result<DeviceProfile> calibrate(const CalibrateRequest& what, const Request& request) {
  if (what.device != "cpu") {
    const auto devices = dist::cudaDevices();
    Error e = makeError("calibrate-no-device", devices ? strf("%d GPUs are here, but kernels and links of GPUs are not measured yet", *devices) : "no GPU to measure: " + devices.error().message, Outcome::kRefused);
    e.legal = "--device cpu";
    return e;
  }
  DeviceProfile out;
  out.name = what.name;
  out.device = "cpu";
  out.shared = true;
  SP_ASSIGN(out.capacity, capacity());
  SP_ASSIGN(const exec::KernelRates kernels, exec::measureKernels(what.seconds, request.progress, request.cancel));
  const std::string threads = strf(", %d threads", kernels.threads);
  out.summary = strf("this machine: %d cores, %s", kernels.threads, formatBytes(static_cast<std::int64_t>(out.capacity.high)).c_str());
  // Models of this machine compute in float32 or bfloat16: what is bought for is the faster of the two.
  const bool narrow = kernels.matmul_bfloat16.high > kernels.matmul.high;
  out.matmul = figureOf(narrow ? kernels.matmul_bfloat16 : kernels.matmul, threads);
  out.matmul_float32 = figureOf(kernels.matmul, threads);
  out.memory = figureOf(kernels.memory, threads);
  out.launch = {kernels.launch.low, kernels.launch.high, "measured: " + kernels.launch.how + "; low: the fastest, high: a quarter was slower"};
  out.attention.emplace_back("cpu", figureOf(kernels.attention, threads));
  request.report("links between ranks", 0, 1);
  SP_ASSIGN(const LinkRates links, measureLinks(what.ranks, std::chrono::seconds(60), request.cancel));
  const std::string blocks = strf("measured: all-to-all of %s to each of %d ranks over Gloo, %d times, one thread a rank", formatBytes(links.block_bytes).c_str(), links.ranks, links.times);
  out.node_link = {links.bytes_per_ns_low, links.bytes_per_ns_high, blocks + "; low: a quarter was slower, high: the fastest"};
  out.node_latency = {links.latency_low, links.latency_high, strf("measured: all-reduce of one number over %d ranks of Gloo; low: the fastest, high: a quarter was slower", links.ranks)};
  out.outside = {static_cast<double>(links.outside_low), static_cast<double>(std::max(links.outside_low, links.outside_high)),
                 "measured: a rank that has computed once, before it has tensors; low: memory of its own, high: with code, which ranks share"};
  out.per_group = {0, static_cast<double>(links.group_bytes), strf("high: what %d exchanges of %s added to a rank; low: none of it", links.times, formatBytes(links.block_bytes).c_str())};
  return out;
}

}  // namespace spscope::session
