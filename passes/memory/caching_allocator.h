// SPDX-License-Identifier: Apache-2.0
// PyTorch's caching allocator of CUDA memory, in numbers: the same decisions about sizes, segments, splits and streams,
// with nothing allocated. It says what a device would have reserved for a sequence of requests, which is more than what was
// asked for: docs/planning.md, "What the allocator reserves".
//
// Rules (of torch 2.x with its defaults): sizes are multiples of 512 B. What is at most 1 MiB comes from segments of 2 MiB,
// what is under 10 MiB from segments of 20 MiB, anything else from a segment of its own of a multiple of 2 MiB. The smallest
// free block of the stream that is large enough is taken, the lowest address among equals, and split where more than 1 MiB
// (small ones: 512 B) remains. Free neighbours become one block. Where the device has no more, all segments that are free as
// a whole go back and it is tried once more. With expandable segments there is one segment for each stream and kind, whose
// pages (2 or 20 MiB) are mapped as they are needed; they are split at 512 B.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory_resource>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <vector>

namespace spscope::passes {

struct CachingOptions {
  std::int64_t capacity = std::numeric_limits<std::int64_t>::max();  ///< bytes that can be reserved
  bool expandable = false;  ///< PYTORCH_ALLOC_CONF=expandable_segments:True
};

/// Deterministic; one thread. Addresses are numbers; a new segment lies above all older ones.
class CachingAllocator {
 public:
  using Address = std::int64_t;

  explicit CachingAllocator(const CachingOptions& options) : options_(options) {}
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// Empty where `bytes` (> 0) cannot be had on this stream: out of memory. The block may be larger than asked for.
  std::optional<Address> allocate(std::int64_t bytes, int stream = 0);
  /// `address` was returned by allocate and not freed since. It can be had again on its own stream at once; where other
  /// streams have used it, when each of them has been `reached`.
  void free(Address address, std::span<const int> used_on = {});
  /// All that was issued on this stream so far has run.
  void reached(int stream);
  /// Gives back what is free as a whole, as torch.cuda.empty_cache does.
  void releaseCached();

  std::int64_t requested() const { return requested_; }  ///< bytes that were asked for and are in use
  std::int64_t allocated() const { return allocated_; }  ///< ... with what their blocks have beyond it
  std::int64_t reserved() const { return reserved_; }    ///< bytes that the device has given
  std::int64_t largestFree() const;                      ///< block of any stream that could be had at once; 0: none
  int retries() const { return retries_; }               ///< requests that had to wait until cached memory was given back
  std::int64_t segments() const { return segments_; }    ///< that the device has given (expandable ones: that have pages)

  struct Range {
    Address address = 0;
    std::int64_t bytes = 0;
    int stream = 0;
    bool used = false;
  };
  /// All reserved blocks by address, those that wait for a stream counted as used.
  std::vector<Range> ranges() const;

 private:
  enum class State : std::uint8_t { kFree, kUsed, kWaiting, kUnmapped };
  struct Block {
    std::int64_t bytes = 0, requested = 0;
    int segment = 0;
    State state = State::kFree;
    std::vector<int> waits_for;  ///< streams
  };
  struct Segment {
    int stream = 0;
    bool small = false;
    std::int64_t page = 0;       ///< 0: as a whole
    std::int64_t mapped = 0;     ///< bytes of pages
  };
  using Blocks = std::pmr::map<Address, Block>;
  using Key = std::tuple<int, std::int64_t, Address>;  ///< stream, bytes, address

  Blocks::iterator findFree(std::int64_t bytes, int stream, bool small);
  Blocks::iterator newBlock(std::int64_t bytes, int stream, bool small);  ///< blocks_.end(): the device has no more
  Blocks::iterator newSegment(std::int64_t bytes, int stream, bool small, std::int64_t page);
  Blocks::iterator expand(std::int64_t bytes, int stream, bool small);
  Blocks::iterator map(Blocks::iterator block, std::int64_t bytes);
  void cut(Blocks::iterator block, std::int64_t bytes);                   ///< its first bytes, and a block of the same state
  Blocks::iterator join(Blocks::iterator block);                          ///< with neighbours of the same state
  Blocks::iterator setFree(Blocks::iterator block);
  void unmapPages(Blocks::iterator block);
  bool neighbours(Blocks::const_iterator a, Blocks::const_iterator b) const { return a->second.segment == b->second.segment; }
  Segment& segmentOf(Blocks::const_iterator block) { return all_segments_[static_cast<std::size_t>(block->second.segment)]; }
  std::pmr::set<Key>& freeOf(const Segment& segment) { return segment.small ? free_small_ : free_large_; }
  Key keyOf(Blocks::const_iterator block) { return {segmentOf(block).stream, block->second.bytes, block->first}; }

  CachingOptions options_;
  std::pmr::unsynchronized_pool_resource pool_;  ///< of the nodes: they come and go by the ten thousand
  Blocks blocks_{&pool_};
  std::vector<Segment> all_segments_;
  std::pmr::set<Key> free_small_{&pool_}, free_large_{&pool_};
  std::vector<Address> waiting_;
  Address next_ = 0;
  std::int64_t requested_ = 0, allocated_ = 0, reserved_ = 0, segments_ = 0;
  int retries_ = 0;
};

}  // namespace spscope::passes
