// SPDX-License-Identifier: Apache-2.0
// What runs, told to a tool that listens to NVTX (nsys profile): steps, phases, modules, nodes, collectives. With or
// without a profile of our own.
#pragma once

#include <memory>

#include "core/torch/observer.h"

namespace spscope::session {

/// Null where no tool listens in this process. Used on the rank's thread.
std::unique_ptr<exec::ExecutionObserver> nvtxObserver();

}  // namespace spscope::session
