// SPDX-License-Identifier: Apache-2.0
// Virtual ranks from the graphs of a compilation.
#pragma once

#include <memory>
#include <vector>

#include "core/torch/virtual_ranks.h"

namespace spscope::session {

/// One graph per rank; all ranks share `state`. Errors: those of Program::prepare, VirtualRanks::create and bind.
Result<exec::VirtualRanks> prepareRanks(const std::vector<std::shared_ptr<const ir::Graph>>& graphs, const exec::TensorBag& state);

}  // namespace spscope::session
