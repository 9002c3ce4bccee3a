// SPDX-License-Identifier: Apache-2.0
#include "core/ir/mesh_axis.h"

#include <algorithm>

namespace spscope::ir {
namespace {

const Symbol kAxis("axis");

const std::string* axisText(const Node& node) {
  const Attribute* a = node.find(kAxis);
  return a ? std::get_if<std::string>(a) : nullptr;
}

}  // namespace

std::string_view axisName(MeshAxis axis) {
  static constexpr std::string_view kNames[] = {"sp", "dp", "all"};
  return kNames[static_cast<std::size_t>(axis)];
}

MeshAxis axisOf(const Node& node) {
  const std::string* text = axisText(node);
  if (text && *text == "dp") return MeshAxis::kData;
  return text && *text == "all" ? MeshAxis::kAll : MeshAxis::kSequence;
}

bool hasKnownAxis(const Node& node) {
  const Attribute* a = node.find(kAxis);
  if (!a) return true;
  const std::string* text = axisText(node);
  return text && (*text == "sp" || *text == "dp" || *text == "all");
}

void setAxis(Node& node, MeshAxis axis) {
  if (axis == MeshAxis::kSequence) node.erase(kAxis);
  else node.set(kAxis, std::string(axisName(axis)));
}

int axisSize(const Mesh& mesh, MeshAxis axis) {
  const int sp = mesh.sizeOf("sp"), dp = mesh.sizeOf("dp");
  return axis == MeshAxis::kSequence ? sp : axis == MeshAxis::kData ? dp : sp * dp;
}

int axisRank(const Mesh& mesh, int rank, MeshAxis axis) {
  const int sp = mesh.sizeOf("sp");
  return axis == MeshAxis::kSequence ? rank % sp : axis == MeshAxis::kData ? rank / sp : rank;
}

std::vector<int> axisGroup(const Mesh& mesh, int rank, MeshAxis axis) {
  const int sp = mesh.sizeOf("sp");
  const int first = axis == MeshAxis::kSequence ? rank - rank % sp : axis == MeshAxis::kData ? rank % sp : 0;
  std::vector<int> out;
  for (int i = 0; i < axisSize(mesh, axis); ++i) out.push_back(first + i * (axis == MeshAxis::kData ? sp : 1));
  return out;
}

std::string groupName(const Mesh& mesh, int rank, MeshAxis axis) {
  std::string name(axisName(axis));
  if (axisSize(mesh, axis) != axisSize(mesh, MeshAxis::kAll)) name += "@" + std::to_string(axisGroup(mesh, rank, axis).front());
  return name;
}

Dims shardBlocks(std::int64_t n, int ranks) {
  const std::int64_t each = (n + ranks - 1) / ranks;
  Dims out;
  for (std::int64_t left = n; static_cast<int>(out.size()) < ranks; left -= out.back()) out.push_back(std::min(each, left));
  return out;
}

}  // namespace spscope::ir
