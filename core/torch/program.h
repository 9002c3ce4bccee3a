// SPDX-License-Identifier: Apache-2.0
// One rank's training step, ready to run: the nodes of a scheduled graph with their ops resolved, their constant
// arguments converted, and the values that die after each node. Made once, run many times. No libtorch in this header.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace spscope::exec {

struct ProgramOptions {
  int rank = 0;               ///< whose shapes and blocks are meant
  int ranks = 1;              ///< of the whole mesh
  bool keep_values = false;   ///< never free a value (a debugger that looks back)
};

/// Immutable; may be shared by executors of one process.
class Program {
 public:
  /// Prepares the nodes of `graph.order`. Takes kJoint graphs, and kGlobal or kLocal ones as forward-only programs.
  /// Errors: op-unknown, op-argument, sp-op, program-invalid (an operand that no earlier node or input defines; a planned
  /// graph whose redistributions are not lowered).
  static Result<std::shared_ptr<const Program>> prepare(std::shared_ptr<const ir::Graph> graph,
                                                        const ProgramOptions& options = {});
  ~Program();

  const ir::Graph& graph() const { return *graph_; }
  const std::shared_ptr<const ir::Graph>& graphPtr() const { return graph_; }
  const ProgramOptions& options() const { return options_; }
  std::size_t nodeCount() const;
  /// The node at a position of the program.
  const ir::Node& node(std::size_t position) const;
  bool isCollective(std::size_t position) const;
  bool hasRandomNodes() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  Program() = default;
  std::shared_ptr<const ir::Graph> graph_;
  ProgramOptions options_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spscope::exec
