// SPDX-License-Identifier: Apache-2.0
#include "core/torch/threads.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace spscope::exec {
namespace {
constexpr const char* kMark = "SPSCOPE_PASSIVE_WAITING";  // set by the re-exec, so that it happens once
}

int usableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

int threadsPerRank(int ranks_on_host, int wanted) {
  if (wanted > 0) return wanted;
  return std::max(1, usableCores() / std::max(1, ranks_on_host));
}

std::vector<std::pair<std::string, std::string>> threadEnvironment(int threads) {
  return {{"OMP_NUM_THREADS", std::to_string(std::max(1, threads))},
          {"OMP_WAIT_POLICY", "passive"},
          {"GOMP_SPINCOUNT", "0"},
          {"MKL_NUM_THREADS", std::to_string(std::max(1, threads))}};
}

void setThreads(int threads) {
  at::set_num_threads(std::max(1, threads));
  // May be called once per process only, and throws afterwards; the executor never uses inter-op threads, so that a
  // second call changes nothing of worth.
  static const bool once = [] {
    try {
      at::set_num_interop_threads(1);
    } catch (...) {
    }
    return true;
  }();
  (void)once;
}

int threads() { return at::get_num_threads(); }

void useDeterministicKernels() {
  at::Context& context = at::globalContext();
  // Only a warning where an op has no such kernel: refusing to run would help nobody.
  context.setDeterministicAlgorithms(true, /*warn_only=*/true);
  context.setDeterministicFillUninitializedMemory(false);  // debugging aid that writes every new tensor
}

void ensurePassiveWaiting(char** argv, int threads) {
  if (threads <= 1 || std::getenv(kMark) != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr ||
      std::getenv("OMP_WAIT_POLICY") != nullptr)
    return;
  for (const auto& [name, value] : threadEnvironment(threads)) ::setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
  ::setenv(kMark, "1", 1);
  ::execv("/proc/self/exe", argv);
  // Not possible (no /proc): go on with spinning waits, which is slow but right.
}

}  // namespace spscope::exec
