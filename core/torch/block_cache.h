// SPDX-License-Identifier: Apache-2.0
// Large blocks that were freed, for the next request of about their size. glibc gives them back to the system, and a new
// one is made of fresh pages, each of which costs a fault and is zeroed: around an exchange of 32 MiB that took longer than
// the exchange. A rank asks for the same sizes in every step. What is held, in use or kept, is never more than what was in
// use at most: the process does not grow by it. No libtorch in this header.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

namespace spscope::exec {

/// Any thread.
class BlockCache {
 public:
  struct Block {
    void* data = nullptr;
    std::size_t bytes = 0;
  };
  static constexpr std::size_t kSmallest = std::size_t{1} << 20;  ///< smaller ones the allocator keeps by itself

  /// `release` frees a block that is kept no longer.
  explicit BlockCache(void (*release)(void*)) : release_(release) {}
  /// A kept block of at least `bytes` and at most a quarter more. Without data where there is none: the caller makes one of
  /// `bytes`, which counts as in use from here on.
  Block take(std::size_t bytes);
  /// A block that take() gave or asked for is free.
  void give(Block block);
  std::size_t kept() const;  ///< bytes

 private:
  void (*release_)(void*);
  mutable std::mutex mutex_;
  std::vector<Block> blocks_;  ///< kept; the one that was freed first is the first
  std::size_t in_use_ = 0, most_in_use_ = 0, kept_ = 0;
};

/// From now on the counting allocator (memory.h) keeps what is freed. For processes that do one rank's steps and nothing
/// else: what is kept goes back when the process ends.
void keepFreedBlocks();

}  // namespace spscope::exec
