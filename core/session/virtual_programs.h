// SPDX-License-Identifier: Apache-2.0
// Virtual ranks from the graphs of a compilation.
#pragma once

#include <memory>
#include <vector>

#include "core/torch/virtual_ranks.h"

namespace spscope::session {

struct Request;
struct Sides;

/// One graph per rank; all ranks share `state`. Errors: those of Program::prepare, VirtualRanks::create and bind.
Result<exec::VirtualRanks> prepareRanks(const std::vector<std::shared_ptr<const ir::Graph>>& graphs, const exec::TensorBag& state);

/// The sides' ranks where their step begins, for one who goes through it node by node: nobody else observes it. Errors: also those of
/// VirtualRanks::begin.
Result<exec::VirtualRanks> beginRanks(const Sides& sides, const Request& request);

}  // namespace spscope::session
