// SPDX-License-Identifier: Apache-2.0
// Which nodes of a program a person means: by name, op, module, source line, phase, stage, or as collectives.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/session/debug/answers.h"

namespace spscope::session::debug {

struct NodeQuery {
  enum class By : std::uint8_t { kAny, kName, kOp, kModule, kSource, kPhase, kCollective, kStage, kLine };
  By by = By::kAny;
  std::string pattern;  ///< with * and ?; empty: all
  std::string text() const;  ///< as it is typed: "op aten.mm*"
};

/// Takes the words of a query off the front of `words`: "%name" | "op GLOB" | "module GLOB" | "source FILE[:LINE]" |
/// "phase forward|backward|recompute" | "collective [KIND]" | "line FILE:LINE" | "stage NAME" | "any". Errors: usage.
Result<NodeQuery> takeQuery(std::vector<std::string>& words);

/// Whether `text` is of the form `pattern` (* any characters, ? any one).
bool like(std::string_view text, std::string_view pattern);

/// A name matches that of a node or of one of its values; a module also whatever stands inside of it; a stage what it made or changed
/// last; a line every node under it, also in functions that it calls.
bool matches(const ir::Graph& graph, const ir::Node& node, const NodeQuery& query);

/// By place in Graph::order; of a line where it is entered only: once a layer and phase. `also`: further nodes that are meant, by id
/// (nodesOfStages). Error: debug-no-node, with the nearest names, where there is none at all.
Result<std::vector<bool>> placesOf(const ir::Graph& graph, const NodeQuery& query, const std::set<ir::NodeId>& also = {});

/// "forward", "backward", "recompute".
std::string_view phaseWord(ir::Phase phase);
/// `place`: in the program of its rank.
NodeName nameOf(const ir::Node& node, std::int64_t place);

}  // namespace spscope::session::debug
