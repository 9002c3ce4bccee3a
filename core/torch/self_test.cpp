// SPDX-License-Identifier: Apache-2.0
#include "core/torch/self_test.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>

#include <exception>

#include "core/base/strings.h"

namespace spscope::exec {

Result<TorchFacts> torchSelfTest() {
  try {
    // Small integers: exact in float32 whatever the order of additions.
    at::Tensor a = at::full({24, 16}, 2.0F).requires_grad_(true);
    const at::Tensor b = at::full({16, 8}, 3.0F);
    const at::Tensor sum = at::mm(a, b).sum();
    sum.backward();
    const double value = sum.item<double>(), gradient = a.grad().sum().item<double>();
    if (value != 24 * 8 * 16 * 6.0 || gradient != 24 * 16 * 8 * 3.0)
      return makeError("op-failed", strf("a matrix product of known numbers gives %g with gradient %g", value, gradient), Outcome::kRunFailed);
  } catch (const std::exception& e) {
    return makeError("op-failed", "libtorch does not run a matrix product: " + split(e.what(), '\n').front(), Outcome::kRunFailed);
  }
  return TorchFacts{at::get_cpu_capability(), at::get_num_threads()};
}

}  // namespace spscope::exec
