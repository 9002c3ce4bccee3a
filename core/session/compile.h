// SPDX-License-Identifier: Apache-2.0
// The compile request: the pipeline over an opened model, and the figures that people and scripts read off it.
#pragma once

#include "core/session/model.h"
#include "passes/comm/comm_bytes.h"
#include "passes/memory/allocation_trace.h"
#include "passes/pipelines.h"

namespace spscope::session {

struct GatherNote {
  std::string node, source, reason;
};

/// Figures of one rank's program, the one with the highest predicted peak where ranks differ.
struct CompileFigures {
  std::vector<passes::CollectiveTotal> collectives;        ///< before fusion: each operand by itself
  std::vector<passes::CollectiveTotal> collectives_fused;  ///< as they are issued
  std::int64_t expected_all_to_all = 0, inserted_all_to_all = 0;
  std::vector<GatherNote> gathers;
  std::int64_t saved_tensors = 0, saved_bytes = 0;
  std::int64_t recomputed_nodes = 0;
  std::int64_t recomputed_views = 0;  ///< among them: SavingPoint::recompute_nodes counts the others
  std::int64_t recomputed_collectives = 0, recomputed_attention = 0, recomputed_matmul = 0;
  passes::MemoryCurve memory;  ///< with classes
  std::optional<passes::ReplayFigures> reserved;  ///< with CompileRequest::allocator: what PyTorch's would reserve; `least` is filled in
  int program = -1;            ///< index into Compiled::programs: the class that these figures are of; -1: none
  std::string peak_node, peak_source;
  std::vector<std::pair<std::string, std::int64_t>> largest_values;  ///< node, bytes on one rank; at most 10
};

struct CompileOutcome {
  passes::Compiled compiled;
  CompileFigures figures;
  std::int64_t ns = 0;       ///< pipeline only
  bool sharded = false;      ///< some value is sharded
  std::string scaling;       ///< how loss and gradients are scaled over the mesh, in one sentence
};

struct CompileRequest {
  passes::Settings settings;
  int only_rank = -1;          ///< compile the class of one rank only
  bool keep_graphs = true;     ///< keep every stage's graph
  std::optional<passes::CachingOptions> allocator;  ///< replay the program's requests through PyTorch's allocator of CUDA memory
  std::string reproducer_dir;  ///< where a failing pass leaves its file
  passes::Compiled* partial = nullptr;  ///< where a pipeline that fails leaves what it had: stages, the failed pass
};

/// The pipeline's failure is an error of this request. Errors of legality have outcome kRefused.
Result<CompileOutcome> compile(const Model& model, const CompileRequest& what, const Request& request);

/// Checks the settings against the model before any pass: dp, device, sizes. Errors: setting-*.
Status checkSettings(const Model& model, const passes::Settings& settings);

/// Refuses to use several ranks where each would compute everything. Errors: nothing-sharded.
Status checkSharded(const CompileOutcome& compiled, int sp, bool allow_replicated);

}  // namespace spscope::session
