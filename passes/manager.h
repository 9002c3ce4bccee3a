// SPDX-License-Identifier: Apache-2.0
// Runs a list of passes over a graph: legality, run, honesty of "changed", verifier, record. A failing pass leaves the
// graph of the stage before, and a file that reproduces the failure.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "passes/pass.h"

namespace spscope::passes {

/// What a stage was and cost. `graph` is the graph after it.
struct StageRecord {
  std::string name;
  std::int64_t ns = 0;
  bool changed = false;
  std::int64_t changed_nodes = 0;  ///< added + removed + changed, by node identity
  std::int64_t nodes = 0;
  std::int64_t comm_bytes = 0;     ///< bytes that one rank sends per step (see passes/comm/comm_bytes.h)
  std::int64_t peak_bytes = 0;     ///< predicted peak of one rank's step; 0 before it is known
  std::map<std::string, std::int64_t> statistics;
  std::vector<Diagnostic> diagnostics;
  std::shared_ptr<const ir::Graph> graph;
};

/// Hooks of whoever watches a pipeline; all may be empty.
struct ManagerOptions {
  ProgressFn progress;
  std::string reproducer_dir;  ///< where a failing pass's input is written ("" : nowhere)
  bool verify = true;          ///< verifier, honesty and counts of what changed; without: a pass's word is taken
  bool keep_graphs = true;     ///< keep each stage's graph in its record
};

struct PipelineResult {
  std::vector<StageRecord> stages;  ///< those that succeeded, in order
  std::shared_ptr<const ir::Graph> graph;  ///< after the last of them
  std::optional<Error> failure;     ///< why the pipeline stopped early
  std::string failed_pass;
  std::string reproducer;           ///< path of the reproducer, "" if none was written
};

/// Never throws. `context.diagnostics` and `.statistics` are replaced per pass; each record keeps its own.
PipelineResult runPipeline(std::shared_ptr<const ir::Graph> graph, const std::vector<Pass>& passes,
                           const PassContext& context, const ManagerOptions& options);

}  // namespace spscope::passes
