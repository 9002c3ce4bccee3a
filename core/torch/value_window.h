// SPDX-License-Identifier: Apache-2.0
// A closer look at a tensor than its summary: what is no number and where, a window of its elements, a picture of it in few
// cells; and a copy of it as a file that NumPy reads. No libtorch in this header.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/torch/tensor_bag.h"

namespace spscope::exec {

struct ValueScan {
  std::int64_t count = 0, nan = 0, inf = 0, zeros = 0;
  double abs_max = 0.0;           ///< of the finite elements
  std::vector<ir::Dims> strange;  ///< indices of the first elements that are not finite
};

/// One pass. The bag holds one tensor. Errors: tensor-missing, tensor-dtype (complex).
Result<ValueScan> scanValue(const TensorBag& value, std::size_t places = 8);

/// Index of the element that is largest in magnitude, the first of several; one that is not finite before all. Empty where there are no
/// elements. Errors: as above.
Result<ir::Dims> largestAt(const TensorBag& value);

/// Elements [begin, end) of one dimension; negative ones count from its end.
struct Range {
  std::int64_t begin = 0;
  std::optional<std::int64_t> end;  ///< empty: to the end of the dimension
};
struct ValueWindow {
  ir::Dims shape;              ///< of the window
  std::vector<double> values;  ///< row-major
};
/// Dimensions that `ranges` does not name are whole. Errors: as above; tensor-shape: a range outside of its dimension, too many of
/// them, more than `limit` elements.
Result<ValueWindow> windowOf(const TensorBag& value, const std::vector<Range>& ranges, std::int64_t limit = 4096);

/// The tensor as a matrix (the last dimension is that of its columns) in at most rows x columns cells: the largest |x| in each, NaN
/// where one is not finite.
Result<ValueWindow> heatMap(const TensorBag& value, std::int64_t rows = 16, std::int64_t columns = 48);

/// Writes the tensor as .npy (format 1.0), whole or not at all. bfloat16, which NumPy has not, as float32. Errors: tensor-missing,
/// tensor-dtype (complex), file-unwritable.
Status saveNpy(const TensorBag& value, const std::string& path);

}  // namespace spscope::exec
