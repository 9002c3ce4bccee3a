// SPDX-License-Identifier: Apache-2.0
#include "core/torch/kernel_rates.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <algorithm>
#include <exception>
#include <functional>

#include "core/base/clock.h"
#include "core/base/strings.h"
#include "core/torch/threads.h"

namespace spscope::exec {
namespace {

/// `kernel` again and again for `budget` ns, at least five times after one that warms up. Durations, the shortest first.
Result<std::vector<double>> timesOf(const std::function<void()>& kernel, double budget, const CancelToken& cancel) {
  std::vector<double> out;
  kernel();
  const std::int64_t begin = monotonicNs();
  while (out.size() < 5 || (static_cast<double>(monotonicNs() - begin) < budget && out.size() < 10'000)) {
    SP_TRY(cancel.check());
    const std::int64_t start = monotonicNs();
    kernel();
    out.push_back(static_cast<double>(std::max<std::int64_t>(1, monotonicNs() - start)));
  }
  std::sort(out.begin(), out.end());
  return out;
}

MeasuredRate rateOf(const std::vector<double>& times, double work, const std::string& what) {
  return {work / times[times.size() * 3 / 4], work / times.front(), what + strf(", %zu times", times.size())};
}

}  // namespace

Result<KernelRates> measureKernels(double seconds, const ProgressFn& progress, const CancelToken& cancel) {
  const double budget = seconds * 1e9 / 5;
  const auto next = [&](const char* what, std::int64_t done) {
    if (progress) progress({what, done, 5});
  };
  try {
    const at::AutoGradMode off(false);
    KernelRates out;
    setThreads(usableCores());
    out.threads = threads();
    const auto product = [&](at::ScalarType type, const char* name, MeasuredRate& rate) -> Status {
      constexpr std::int64_t kSize = 768;
      const at::Tensor a = at::randn({kSize, kSize}).to(type), b = at::randn({kSize, kSize}).to(type);
      SP_ASSIGN(const auto times, timesOf([&] { at::mm(a, b); }, budget, cancel));
      rate = rateOf(times, 2.0 * kSize * kSize * kSize, strf("products of %lld x %lld x %lld, %s", static_cast<long long>(kSize), static_cast<long long>(kSize), static_cast<long long>(kSize), name));
      return {};
    };
    next("matrix products, float32", 0);
    SP_TRY(product(at::kFloat, "float32", out.matmul));
    next("matrix products, bfloat16", 1);
    SP_TRY(product(at::kBFloat16, "bfloat16", out.matmul_bfloat16));
    next("memory", 2);
    {
      constexpr std::int64_t kElements = std::int64_t{16} << 20;  // 64 MiB: more than caches hold
      at::Tensor a = at::ones({kElements}), b = at::ones({kElements});
      SP_ASSIGN(const auto times, timesOf([&] { a.add_(b); }, budget, cancel));
      out.memory = rateOf(times, 3.0 * 4 * kElements, "sums of 64 MiB, read twice and written once");
    }
    next("attention", 3);
    {
      constexpr std::int64_t kHeads = 8, kTokens = 1024, kDim = 64;
      const at::Tensor q = at::randn({1, kHeads, kTokens, kDim}), k = at::randn({1, kHeads, kTokens, kDim}), v = at::randn({1, kHeads, kTokens, kDim});
      SP_ASSIGN(const auto times, timesOf([&] { at::scaled_dot_product_attention(q, k, v); }, budget, cancel));
      out.attention = rateOf(times, 4.0 * kHeads * kTokens * kTokens * kDim, "forward, 8 heads of 64, 1024 tokens, not causal, float32");
    }
    next("small kernels", 4);
    {
      const at::Tensor a = at::ones({16}), b = at::ones({16});
      SP_ASSIGN(const auto times, timesOf([&] { at::add(a, b); }, budget / 4, cancel));
      out.launch = {times.front(), times[times.size() * 3 / 4], strf("sums of 16 elements, %zu times", times.size())};
    }
    return out;
  } catch (const std::exception& e) {
    return makeError("op-failed", "a kernel could not be measured: " + split(e.what(), '\n').front(), Outcome::kRunFailed);
  }
}

}  // namespace spscope::exec
