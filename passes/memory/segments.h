// SPDX-License-Identifier: Apache-2.0
// The layers of a joint graph's forward, which bound recomputation: no re-run chain crosses from one into another.
//
// Layers as findLayers tells them (layers.h). What stands outside of them belongs to the prelude (before the first layer) or to
// the last layer (the head and the loss: their values are used at once by the backward). Nodes that depend on no trainable parameter (positions, masks, rotary tables, labels) belong to the
// prelude wherever they stand: all layers share them, and their chains cannot be long.
#pragma once

#include <vector>

#include "passes/memory/step_model.h"

namespace spscope::passes {

struct Segments {
  int count = 1;                   ///< prelude + layers; 0 is the prelude
  std::vector<std::int32_t> of;    ///< by place in order; -1 for nodes that are not forward
};

Segments findSegments(const StepModel& model);

}  // namespace spscope::passes
