// SPDX-License-Identifier: Apache-2.0
#include "passes/registry.h"

#include "passes/pipelines.h"

namespace spscope::passes {

const std::vector<Pass>& allPasses() {
  static const std::vector<Pass> passes = [] {
    std::vector<Pass> all = planningPasses();
    for (Pass& pass : programPasses()) all.push_back(std::move(pass));
    return all;
  }();
  return passes;
}

const Pass* findPass(std::string_view name) {
  for (const Pass& pass : allPasses())
    if (pass.info.name == name) return &pass;
  return nullptr;
}

}  // namespace spscope::passes
