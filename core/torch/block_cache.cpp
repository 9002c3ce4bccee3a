// SPDX-License-Identifier: Apache-2.0
#include "core/torch/block_cache.h"

#include <algorithm>

namespace spscope::exec {

BlockCache::Block BlockCache::take(std::size_t bytes) {
  std::vector<Block> too_much;
  Block out{nullptr, bytes};
  {
    const std::lock_guard lock(mutex_);
    auto best = blocks_.end();
    for (auto at = blocks_.begin(); at != blocks_.end(); ++at)
      if (at->bytes >= bytes && at->bytes - bytes <= bytes / 4 && (best == blocks_.end() || at->bytes <= best->bytes)) best = at;
    if (best != blocks_.end()) {
      out = *best;
      blocks_.erase(best);
      kept_ -= out.bytes;
    }
    in_use_ += out.bytes;
    most_in_use_ = std::max(most_in_use_, in_use_);
    auto gone = blocks_.begin();
    for (; gone != blocks_.end() && in_use_ + kept_ > most_in_use_; ++gone) kept_ -= gone->bytes;
    too_much.assign(blocks_.begin(), gone);
    blocks_.erase(blocks_.begin(), gone);
  }
  for (const Block& block : too_much) release_(block.data);
  return out;
}

void BlockCache::give(Block block) {
  const std::lock_guard lock(mutex_);
  in_use_ -= block.bytes;
  kept_ += block.bytes;
  blocks_.push_back(block);
}

std::size_t BlockCache::kept() const {
  const std::lock_guard lock(mutex_);
  return kept_;
}

}  // namespace spscope::exec
