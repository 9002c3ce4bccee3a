// SPDX-License-Identifier: Apache-2.0
#include "passes/registry.h"

#include <iterator>

#include "passes/pipelines.h"

namespace spscope::passes {

const std::vector<Pass>& allPasses() {
  static const std::vector<Pass> passes = [] {
    std::vector<Pass> all = planningPasses();
    std::vector<Pass> batch = batchPasses();
    all.insert(all.end() - 1, std::make_move_iterator(batch.begin()), std::make_move_iterator(batch.end()));
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
