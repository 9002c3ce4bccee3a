// SPDX-License-Identifier: Apache-2.0
// Changes by hand of a graph at one place, under the name of a pass: nodes put in and rewired with all that the stages behind need
// (placement, local shape, phase, the mark of choose-saved, provenance).
#pragma once

#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace spscope::passes {

class GraphChange {
 public:
  GraphChange(ir::Graph& graph, Symbol pass) : graph_(graph), pass_(pass) {}
  ir::Graph& graph() { return graph_; }

  /// The node, noted as changed by the pass.
  ir::Node& change(ir::NodeId id);
  /// The node that stands before it in the order; kNone at the front.
  ir::NodeId before(ir::NodeId id) const;

  /// A node behind `after` (kNone: at the front) whose result is as `like` is; location and phase are those of `origin`.
  ir::ValueId insertAt(ir::NodeId after, ir::NodeId origin, Symbol op, std::vector<ir::Argument> args, ir::ValueId like, const std::string& name);
  /// The same, `after` being the origin.
  ir::ValueId insert(ir::NodeId after, Symbol op, std::vector<ir::Argument> args, ir::ValueId like, const std::string& name) {
    return insertAt(after, after, op, std::move(args), like, name);
  }
  /// A node without tensor operands, its result equal on every rank.
  ir::ValueId insertNew(ir::NodeId after, Symbol op, std::vector<ir::Argument> args, ir::DType dtype, ir::Dims shape, const std::string& name);
  /// A node behind the producer of `value` that all other readers and the outputs read instead of it.
  ir::ValueId behind(ir::ValueId value, Symbol op, std::vector<ir::Argument> args, const std::string& name);
  /// All readers of `from` but `except` read `to`.
  void readersOf(ir::ValueId from, ir::ValueId to, const std::vector<ir::NodeId>& except);

 private:
  ir::Graph& graph_;
  Symbol pass_;
};

}  // namespace spscope::passes
