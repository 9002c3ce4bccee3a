// SPDX-License-Identifier: Apache-2.0
// A single walk over a graph's program that keeps, replaces and inserts nodes: what most passes are made of.
//
//   Rewriter rw(graph, "my-pass");
//   for (NodeId id : rw.program()) {
//     rw.visit(id);                       // operands now read replaced values
//     if (!mine(id)) { rw.keep(id); continue; }
//     rw.replace(out, rw.emit("aten.x.default", {...}, dtype, factors, placement, id));
//   }
//   rw.finish();                          // installs the new order; dead nodes are gone
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "core/ir/graph.h"

namespace spscope::passes {

class Rewriter {
 public:
  Rewriter(ir::Graph& graph, Symbol pass);

  const std::vector<ir::NodeId>& program() const { return program_; }
  /// Makes the node's operands read what replaced them.
  void visit(ir::NodeId id);
  /// The node stands in the new program.
  void keep(ir::NodeId id) { order_.push_back(id); }
  /// As keep(), and notes that this pass changed the node.
  void keepChanged(ir::NodeId id);
  /// Later nodes and the outputs read `to` instead of `from`.
  void replace(ir::ValueId from, ir::ValueId to);
  /// A new node with one output before whatever is kept next; location and phase of `origin`, provenance of this pass.
  /// Its local shape is that of the graph's rank (global shape in graphs that are not local yet).
  ir::ValueId emit(Symbol op, std::vector<ir::Argument> args, ir::DType dtype, ir::Factors factors,
                   ir::Placement placement, ir::NodeId origin, std::string name = {});
  /// As emit(), for a value that has no factors (joint graphs): global and local shape are given.
  ir::ValueId emitPlain(Symbol op, std::vector<ir::Argument> args, ir::DType dtype, ir::Dims shape,
                        ir::NodeId origin, std::string name = {});
  /// Installs the new order, rewires the outputs, drops dead nodes. True when anything changed.
  bool finish();

 private:
  ir::ValueId current(ir::ValueId v) const;
  ir::ValueId add(Symbol op, std::vector<ir::Argument> args, ir::DType dtype, ir::Dims shape, ir::NodeId origin,
                  std::string name);

  ir::Graph& graph_;
  Symbol pass_;
  std::vector<ir::NodeId> program_, order_;
  std::unordered_map<ir::ValueId, ir::ValueId> replaced_;
  bool changed_ = false;
};

}  // namespace spscope::passes
