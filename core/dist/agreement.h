// SPDX-License-Identifier: Apache-2.0
// Before the first step the ranks compare what they are about to run: a difference is named now instead of hanging, or
// computing nonsense, later.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/dist/collectives.h"
#include "core/ir/graph.h"

namespace spscope::dist {

/// Something in which all ranks must agree. `detail`, where given, is text of many lines; only its hash is exchanged, and
/// on a difference the lines themselves, to name the first that differs.
struct Fact {
  std::string name;   ///< "plan hash", "collectives", "spscope version"
  std::string value;
  std::string detail;
};

/// Collective: every rank calls it with the same facts in the same order. Error ranks-disagree, the same on all ranks,
/// names the ranks that differ from most of the others, and in what.
Status agree(Collectives& group, const std::vector<Fact>& facts);

/// One line per collective of a rank's program in its order: op, element type, and what must be equal on all ranks (which
/// dimensions, the blocks; the size, where it is not split into blocks). For Fact::detail.
std::string collectiveList(const ir::Graph& graph);

}  // namespace spscope::dist
