// SPDX-License-Identifier: Apache-2.0
// The whole of a value out of the ranks' parts of it. No libtorch in this header.
#pragma once

#include <vector>

#include "core/torch/value_compare.h"

namespace spscope::exec {

/// `parts[r]` holds one tensor: rank 0's where each has the whole, the sum (in the parts' type) of partial ones. The bag's tensor is named
/// as the parts' are. Errors: tensor-missing, tensor-shape (they are not such parts).
Result<TensorBag> joinParts(const std::vector<TensorBag>& parts, const Assembly& how);

}  // namespace spscope::exec
