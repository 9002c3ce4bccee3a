// SPDX-License-Identifier: Apache-2.0
// Gloo groups for every axis of a mesh. No libtorch in this header.
#pragma once

#include "core/dist/c10d/gloo.h"
#include "core/dist/mesh_collectives.h"

namespace spscope::dist {

/// As connectGloo for all ranks; where both axes of the mesh have several ranks also for this rank's row and column, in the
/// same store. A mesh with one long axis is one group. Errors as those of connectGloo.
Result<std::unique_ptr<Collectives>> connectMesh(const Rendezvous& at, const ir::Mesh& mesh);

}  // namespace spscope::dist
