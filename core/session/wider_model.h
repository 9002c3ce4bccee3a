// SPDX-License-Identifier: Apache-2.0
// The same model in a wider type, to see what the narrow one costs: the weights and inputs that it has there are those of the narrow
// one, rounded as it has them.
#pragma once

#include <memory>

#include "core/session/model.h"

namespace spscope::session {

/// Everything floating in `type`, autocast's and 16-bit choices included. Errors: those of ir::convertFloats.
Result<std::shared_ptr<const Model>> widerModel(const Model& model, ir::DType type);

}  // namespace spscope::session
