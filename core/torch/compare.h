// SPDX-License-Identifier: Apache-2.0
// Are two sets of gradients the same? Per parameter: the norm of the difference over the norm of the reference. All
// sums are made in float64, in blocks, whatever the tensors' types. No libtorch in this header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/torch/tensor_bag.h"

namespace spscope::exec {

/// What "equal" means for a type: relative error of the loss and of each gradient, and the share of the total norm that
/// a gradient's norm counts as at least (some gradients are zero but for rounding: key biases).
struct Tolerance {
  double loss = 1e-10;
  double gradient = 1e-8;
  double floor = 1e-6;
  /// float64: 1e-10, 1e-8, 1e-6; float32: 2e-5, 2e-4, 1e-3; half types: 2e-2, 5e-2, 1e-2.
  static Tolerance of(ir::DType type);
};

struct ParameterDifference {
  std::string name;
  double rel = 0.0;             ///< |a-b| / max(|b|, floor * total norm of b); infinity where a value is not finite
  double norm = 0.0;            ///< |b|
  double error = 0.0;           ///< |a-b|
  std::int64_t worst_index = 0; ///< flat index of the largest |a-b|
  double got = 0.0, wanted = 0.0;  ///< the values there
};

struct GradientComparison {
  std::vector<ParameterDifference> parameters;  ///< in the order of the reference
  double total_norm = 0.0;                      ///< of the reference
  double rel_max = 0.0;
  std::string worst;                            ///< name of the parameter with rel_max
  bool within(const Tolerance& tolerance) const { return rel_max <= tolerance.gradient; }
};

/// A gradient that only one side has counts as zero on the other. Errors: gradient-shape where shapes differ.
Result<GradientComparison> compareGradients(const TensorBag& got, const TensorBag& reference, double floor);

/// |a-b| / |b|; 0 where both are equal (also NaN and NaN are not), infinity where b is 0 or one is not finite.
double relativeError(double got, double reference);

/// Fingerprint of a tensor, as the reference files have it.
struct TensorStatistics {
  double norm = 0.0;
  double sum = 0.0;
  double absmax = 0.0;
  double dot_sin = 0.0;  ///< sum over i of x[i] * sin(i + 1), i the flat index
  std::int64_t not_finite = 0;
};
Result<TensorStatistics> statistics(const TensorBag& bag, std::string_view name);
/// Single elements by flat row-major index. Error tensor-shape where one is out of range.
Result<std::vector<double>> elements(const TensorBag& bag, std::string_view name, const std::vector<std::int64_t>& indices);

}  // namespace spscope::exec
