// SPDX-License-Identifier: Apache-2.0
// The pipeline from an imported graph to the training step of each rank.
#pragma once

#include <memory>
#include <vector>

#include "passes/manager.h"
#include "passes/memory/report.h"

namespace spscope::passes {

/// functionalize, index-random-ops, recognise-masks, plan-sequence: the same for all ranks.
std::vector<Pass> planningPasses();
/// plan-batch, shard-batch: between those two, where there are data parallel replicas.
std::vector<Pass> batchPasses();
/// From shard-sequence to overlap-collectives: once per class of local shapes.
std::vector<Pass> programPasses();

/// The compiled training step of a whole mesh.
struct Compiled {
  std::vector<StageRecord> stages;         ///< of the class of `report_rank`, planning passes first
  std::vector<std::shared_ptr<const ir::Graph>> programs;  ///< one scheduled kJoint graph per class
  std::vector<int> class_of_rank;          ///< rank of the mesh -> index into `programs`; kNone for ranks that were not asked for
  std::vector<MemoryReport> memory;        ///< per class
  std::shared_ptr<const ir::Graph> planned;  ///< of the first replica
  std::string plan_hash;                   ///< of the planned graph and the settings: equal on all ranks of a run
  std::optional<Error> failure;
  std::string failed_pass;
  std::string reproducer;
};

/// Compiles for all ranks (`only_rank` < 0) or for the class of one. Never throws; `failure` says why it stopped.
/// All classes must issue the same collectives in the same order (code collectives-differ).
Compiled compile(std::shared_ptr<const ir::Graph> imported, const Settings& settings, ir::OpServices& services,
                 int only_rank, const ManagerOptions& options, const CancelToken& cancel);

}  // namespace spscope::passes
