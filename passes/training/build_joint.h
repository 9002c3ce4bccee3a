// SPDX-License-Identifier: Apache-2.0
// build-joint: forward and backward as one graph. No derivative is written here: libtorch's autograd runs the forward
// once on meta tensors and what it calls is recorded (OpServices::captureJoint).
#pragma once

#include "passes/pass.h"

namespace spscope::passes {

Pass buildJointPass();

}  // namespace spscope::passes
