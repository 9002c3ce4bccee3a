// SPDX-License-Identifier: Apache-2.0
// What a snapshot of virtual ranks holds, and how it is taken and put back. Only for core/torch (it includes ATen).
//
// Values are shared, not copied: a program writes into the memory of a value in one place only, where a collective receives in
// place. Buffers that are still to be received into are therefore copied, when it is taken and each time it is put back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/torch/rank_state.h"
#include "core/torch/redistribution_impl.h"
#include "core/torch/virtual_ranks.h"

namespace spscope::exec {

/// A started collective of all ranks, by exchange. Nothing moves before the first rank waits for it: so a program that
/// touches a buffer too early is wrong here as it would be with real ranks.
struct StartedExchange {
  std::vector<std::vector<Transfer>> parts;  ///< by part, then by rank
  bool moved = false;
  std::int64_t sequence = 0;
  CollectiveSpan span;
};

struct VirtualSnapshot {
  std::vector<std::vector<at::Tensor>> values;  ///< by rank, then by ValueId
  std::vector<std::size_t> positions;
  std::vector<at::Tensor> generators;
  std::vector<StartedExchange> started;
  std::int64_t sequence = 0;
  std::int64_t bytes = 0;
};

using RankStates = std::vector<std::unique_ptr<RankState>>;

std::shared_ptr<const VirtualSnapshot> takeSnapshot(const RankStates& states, const std::vector<std::size_t>& positions, const std::vector<at::Tensor>& generators,
                                                    const std::vector<StartedExchange>& started, std::int64_t sequence);
void putBack(const VirtualSnapshot& snapshot, RankStates& states, std::vector<std::size_t>& positions, std::vector<at::Tensor>& generators,
             std::vector<StartedExchange>& started, std::int64_t& sequence);

}  // namespace spscope::exec
