// SPDX-License-Identifier: Apache-2.0
// One tensor as a .npy file (format 1.0), which numpy.load reads.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/base/result.h"
#include "core/ir/dtype.h"
#include "core/ir/placement.h"

namespace spscope::io {

/// "<f4" and the like; "" for the types that NumPy has not (bfloat16, float8).
std::string npyType(ir::DType type);
/// `bytes`: row-major elements. Errors: tensor-mismatch (a type that NumPy has not, or bytes that are not the shape's),
/// file-unwritable.
Status writeNpy(const std::string& path, ir::DType type, const ir::Dims& shape, std::span<const std::byte> bytes);

}  // namespace spscope::io
