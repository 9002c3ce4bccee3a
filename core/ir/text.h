// SPDX-License-Identifier: Apache-2.0
// The text form of a graph: readable, one node a line, and exact. docs/ir.md holds its grammar.
//
// parseGraph(printGraph(g)) is structurally equal to g (see equal.h), and printing what was parsed from canonical text
// gives that text. Weights are never in it, only where the file keeps them. Dead nodes are not in it; their ids stay taken.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace spscope::ir {

/// The "// key: value" lines between the version line and the graph: which file a stage came from, how to run it again.
struct TextHeader {
  std::vector<std::pair<std::string, std::string>> entries;  ///< keys [a-z0-9_-]+, values any text

  const std::string* find(std::string_view key) const;  ///< nullptr where absent
  void set(std::string_view key, std::string value);     ///< replaces or appends
};

struct GraphText {
  TextHeader header;
  Graph graph;
};

std::string printGraph(const Graph& graph);
std::string printGraph(const Graph& graph, const TextHeader& header);

/// `file` only names the text in errors. Error: text-syntax, with "file:line:col: message", the line and a caret.
/// The graph is what the text says, not verified (see verifier.h). Any bytes may be given.
Result<Graph> parseGraph(std::string_view text, std::string_view file);
Result<GraphText> parseGraphText(std::string_view text, std::string_view file);
/// Whether the text starts as printGraph's does (any version).
bool isGraphText(std::string_view text);

// --- parts of it, for diffs, diagnostics and inspectors -----------------------------------------------------------
std::string attributeText(const Graph& graph, const Attribute& attribute);  ///< "[1, 2]", "%x", "f32"
std::string typeText(const Graph& graph, const Value& value);               ///< "f32{2b, 8s} S1[4, 4] local[2, 4]"
std::string nodeText(const Graph& graph, const Node& node);                 ///< the node's line, without indentation
std::string valueRef(const Graph& graph, ValueId value);                    ///< "%x", "none" for kNone

}  // namespace spscope::ir
