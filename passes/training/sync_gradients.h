// SPDX-License-Identifier: Apache-2.0
// sync-gradients: every parameter's gradient is complete, once, on every rank, before anything uses it.
//
// Over both axes of the mesh the sums are already there: the gradient of sp.vary is an all-reduce. This pass proves it by
// data flow (a value is rank-varying when it stems from this rank's block and from no sum or gather since) and refuses
// a graph in which a gradient still varies. It never sums again: a parameter that is also used in replicated work
// (learned positions, prompts, regularisers) would come out wrong by the number of ranks less one.
#pragma once

#include "core/ir/mesh_axis.h"
#include "passes/pass.h"

namespace spscope::passes {

/// For each value of a kLocal or kJoint graph: does it differ between the ranks along that axis of the mesh?
std::vector<bool> rankVarying(const ir::Graph& graph, ir::MeshAxis axis = ir::MeshAxis::kSequence);

Pass syncGradientsPass();

}  // namespace spscope::passes
