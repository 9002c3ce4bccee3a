// SPDX-License-Identifier: Apache-2.0
#include "core/torch/block_cache.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>

namespace spscope::exec {
namespace {

std::set<void*> g_alive;

void release(void* data) {
  EXPECT_EQ(g_alive.erase(data), 1u) << "freed twice, or never made";
  std::free(data);
}

BlockCache::Block make(BlockCache& cache, std::size_t bytes) {
  BlockCache::Block block = cache.take(bytes);
  if (block.data == nullptr) {
    EXPECT_EQ(block.bytes, bytes);
    block.data = std::malloc(16);
    g_alive.insert(block.data);
  }
  EXPECT_GE(block.bytes, bytes);
  return block;
}

TEST(BlockCache, GivesBackWhatFits) {
  g_alive.clear();
  BlockCache cache(release);
  const auto a = make(cache, 1000), b = make(cache, 1200), c = make(cache, 5000);
  cache.give(a), cache.give(b), cache.give(c);
  EXPECT_EQ(cache.kept(), 7200u);
  EXPECT_EQ(make(cache, 1000).data, a.data) << "the tightest";
  EXPECT_EQ(make(cache, 1000).data, b.data) << "at most a quarter more";
  EXPECT_NE(make(cache, 1000).data, c.data) << "a large block is not used up by a small request";
}

TEST(BlockCache, HoldsNoMoreThanWasInUseAtMost) {
  g_alive.clear();
  BlockCache cache(release);
  std::mt19937 random(3);
  std::vector<BlockCache::Block> used;
  std::size_t in_use = 0, most = 0;
  for (int i = 0; i < 20000; ++i) {
    if (!used.empty() && random() % 2 == 0) {
      const std::size_t at = random() % used.size();
      in_use -= used[at].bytes;
      cache.give(used[at]);
      used.erase(used.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      used.push_back(make(cache, 1 + random() % 10000));
      for (std::size_t k = 0; k + 1 < used.size(); ++k) ASSERT_NE(used[k].data, used.back().data) << "given twice";
      in_use += used.back().bytes;
      most = std::max(most, in_use);
    }
    ASSERT_LE(in_use + cache.kept(), most);
  }
}

}  // namespace
}  // namespace spscope::exec
