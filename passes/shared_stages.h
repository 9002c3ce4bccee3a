// SPDX-License-Identifier: Apache-2.0
// Compiling one model in many settings: what they have in common is computed once.
#pragma once

#include <map>
#include <string>

#include "passes/pipelines.h"

namespace spscope::passes {

/// What calls of compile() left for later ones: up to sync-gradients nothing depends on save, zero, optimizer, accumulate,
/// communication, bucket_bytes, threads or the rates. For calls with one model, one at a time; entries are kept by the settings
/// that matter (lengths among them) and by rank. The result is what it would be without.
struct SharedStages {
  std::map<std::string, PipelineResult> done;
};

/// As passes::compile (pipelines.h) for all ranks; `shared` may be null.
Compiled compileShared(std::shared_ptr<const ir::Graph> imported, const Settings& settings, ir::OpServices& services,
                       int only_rank, const ManagerOptions& options, const CancelToken& cancel, SharedStages* shared);

}  // namespace spscope::passes
