// SPDX-License-Identifier: Apache-2.0
// The ranks of a mesh: one group of all of them and one per axis, as one object.
//
// A collective goes to the group of its axis (CollectivePart::axis); whatever has none goes to all ranks. Every rank issues
// the collectives of all axes in the same order, and they are done in that order, one at a time: so two groups cannot wait
// for each other, and one number says where a rank is.
#pragma once

#include <functional>
#include <memory>

#include "core/dist/collectives.h"

namespace spscope::dist {

struct MeshGroups {
  std::unique_ptr<Collectives> all;
  std::unique_ptr<Collectives> sequence, data;  ///< null where the axis has one rank, or all
  ir::Mesh mesh;
  /// As Rendezvous::on_collective, for all groups with one count. The groups themselves tell nobody.
  std::function<void(std::string_view op, std::int64_t sequence, bool inside)> on_collective;
};

std::unique_ptr<Collectives> makeMesh(MeshGroups groups);

}  // namespace spscope::dist
