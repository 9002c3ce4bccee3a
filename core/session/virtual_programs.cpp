// SPDX-License-Identifier: Apache-2.0
#include "core/session/virtual_programs.h"

#include "core/session/first_difference.h"

namespace spscope::session {

Result<exec::VirtualRanks> prepareRanks(const std::vector<std::shared_ptr<const ir::Graph>>& graphs, const exec::TensorBag& state) {
  std::vector<std::shared_ptr<const exec::Program>> programs;
  for (std::size_t r = 0; r < graphs.size(); ++r) {
    exec::ProgramOptions options;
    options.rank = static_cast<int>(r);
    options.ranks = static_cast<int>(graphs.size());
    SP_ASSIGN(auto program, exec::Program::prepare(graphs[r], options));
    programs.push_back(std::move(program));
  }
  SP_ASSIGN(exec::VirtualRanks ranks, exec::VirtualRanks::create(std::move(programs)));
  SP_TRY(ranks.bind(state));
  return ranks;
}

Result<exec::VirtualRanks> beginRanks(const Sides& sides, const Request& request) {
  SP_ASSIGN(exec::VirtualRanks ranks, prepareRanks(sides.programs, sides.state));
  exec::StepOptions options = sides.step;
  options.observer = nullptr;
  options.cancel = request.cancel;
  SP_TRY(ranks.begin(sides.inputs, options));
  return ranks;
}

}  // namespace spscope::session
