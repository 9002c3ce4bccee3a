// SPDX-License-Identifier: Apache-2.0
#include "core/session/plan/optimizer_offload.h"

#include <algorithm>
#include <bit>

#include "passes/memory/liveness.h"
#include "passes/memory/resident.h"

namespace spscope::session {

void HostBytes::add(std::int64_t bytes) {
  if (bytes <= 0) return;
  low += bytes;
  high += static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes)));
  blocks.push_back(bytes);
}

void HostBytes::add(const HostBytes& more) {
  for (const std::int64_t bytes : more.blocks) add(bytes);
}

OptimizerOnHost optimizerOnHost(const ir::Graph& program, const passes::Settings& settings, int shares) {
  OptimizerOnHost out;
  const std::vector<std::int64_t> states = passes::optimizerStates(program, passes::livenessOptions(settings, nullptr));
  std::int64_t largest = 0;
  for (const std::int64_t whole : states) {
    const std::int64_t mine = (whole + shares - 1) / shares;
    out.states += mine;
    out.host.add(mine);
    largest = std::max(largest, mine);
  }
  // A parameter has at most a master and two moments, all of one size. One block is computed with while another one travels.
  constexpr std::int64_t kStatesOfOne = 3, kBlocks = 2;
  out.passing = std::min(out.states, kBlocks * kStatesOfOne * largest);
  return out;
}

}  // namespace spscope::session
