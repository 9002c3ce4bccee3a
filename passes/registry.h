// SPDX-License-Identifier: Apache-2.0
// Every pass, by name: one explicit list, no static registration.
#pragma once

#include <string_view>
#include <vector>

#include "passes/pass.h"

namespace spscope::passes {

/// In the order of the pipeline.
const std::vector<Pass>& allPasses();
/// nullptr where there is none of that name.
const Pass* findPass(std::string_view name);

}  // namespace spscope::passes
