// SPDX-License-Identifier: Apache-2.0
// Runs a program in another precision: every float32 becomes `to`, in values, in casts and in dtype arguments. What
// the file stores keeps its type (StorageRef::dtype); whoever loads it converts.
#pragma once

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace spscope::ir {

struct ConvertOptions {
  /// Also converts float16 and bfloat16. Programs with autocast are converted so in any case: their low precision is
  /// autocast's choice, not the model's.
  bool low_precision = false;
};

/// Casts made by autocast (provenance "autocast") that become no-ops are removed. Complex types follow (c64 <-> c128).
/// Errors: dtype-unsupported (`to` is no floating type of at least 16 bits), and the same for complex values where the
/// target has no complex type.
Status convertFloats(Graph& graph, DType to, const ConvertOptions& options = {});
/// convertFloats(graph, DType::kF64).
Status convertFloat32To64(Graph& graph);

}  // namespace spscope::ir
