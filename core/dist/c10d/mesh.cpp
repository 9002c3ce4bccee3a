// SPDX-License-Identifier: Apache-2.0
#include "core/dist/c10d/mesh.h"

namespace spscope::dist {

Result<std::unique_ptr<Collectives>> connectMesh(const Rendezvous& at, const ir::Mesh& mesh) {
  if (ir::axisSize(mesh, ir::MeshAxis::kSequence) == 1 || ir::axisSize(mesh, ir::MeshAxis::kData) == 1) return connectGloo(at);
  MeshGroups groups;
  groups.mesh = mesh;
  groups.on_collective = at.on_collective;
  Rendezvous all = at;
  if (at.on_collective)  // the meeting itself is told of; what follows is counted by the mesh
    all.on_collective = [tell = at.on_collective](std::string_view op, std::int64_t sequence, bool inside) {
      if (sequence == 0) tell(op, sequence, inside);
    };
  SP_ASSIGN(groups.all, connectGloo(all));
  const auto along = [&](ir::MeshAxis axis) {
    Rendezvous part = all;
    part.known_as = ir::axisGroup(mesh, at.rank, axis);
    part.rank = ir::axisRank(mesh, at.rank, axis);
    part.size = ir::axisSize(mesh, axis);
    const std::string name = ir::groupName(mesh, at.rank, axis);
    if (!part.file.empty()) part.file += "." + name;
    part.prefix += "/" + name;
    part.group = name;
    part.store_exists = true;  // a served one is served by rank 0 of all
    return connectGloo(part);
  };
  SP_ASSIGN(groups.sequence, along(ir::MeshAxis::kSequence));
  SP_ASSIGN(groups.data, along(ir::MeshAxis::kData));
  return makeMesh(std::move(groups));
}

}  // namespace spscope::dist
