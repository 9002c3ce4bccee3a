// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/caching_allocator.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace spscope::passes {
namespace {

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr std::int64_t kUnit = 512;               // of every size, and the least that is split off
constexpr std::int64_t kSmall = kMiB;             // up to here a request is small
constexpr std::int64_t kSmallSegment = 2 * kMiB;
constexpr std::int64_t kMedium = 10 * kMiB;       // from here on a request has a segment of its own
constexpr std::int64_t kMediumSegment = 20 * kMiB;
constexpr std::int64_t kLargeUnit = 2 * kMiB;
/// Address space of an expandable segment. Torch takes 9/8 of the device and begins another where that ends; here it does not end.
constexpr std::int64_t kReach = kMediumSegment << 22;

std::int64_t up(std::int64_t bytes, std::int64_t unit) { return (bytes + unit - 1) / unit * unit; }

std::int64_t segmentBytes(std::int64_t bytes) {
  if (bytes <= kSmall) return kSmallSegment;
  return bytes < kMedium ? kMediumSegment : up(bytes, kLargeUnit);
}

}  // namespace

std::optional<CachingAllocator::Address> CachingAllocator::allocate(std::int64_t bytes, int stream) {
  const std::int64_t size = up(std::max(bytes, kUnit), kUnit);
  const bool small = size <= kSmall;
  Blocks::iterator block = findFree(size, stream, small);
  if (block == blocks_.end()) block = newBlock(size, stream, small);
  if (block == blocks_.end()) {
    ++retries_;
    // The device is waited for: whatever a stream still had to do with freed blocks is done.
    for (const Address address : std::exchange(waiting_, {})) setFree(blocks_.find(address));
    releaseCached();
    block = newBlock(size, stream, small);
    if (block == blocks_.end()) return std::nullopt;
  }
  const Segment& segment = segmentOf(block);
  freeOf(segment).erase(keyOf(block));
  const std::int64_t rest = block->second.bytes - size;
  if (small || segment.page > 0 ? rest >= kUnit : rest > kSmall) {
    cut(block, size);
    freeOf(segment).insert(keyOf(std::next(block)));
  }
  block->second.state = State::kUsed;
  block->second.requested = bytes;
  requested_ += bytes;
  allocated_ += block->second.bytes;
  return block->first;
}

void CachingAllocator::free(Address address, std::span<const int> used_on) {
  const Blocks::iterator block = blocks_.find(address);
  requested_ -= block->second.requested;
  allocated_ -= block->second.bytes;
  for (const int stream : used_on)
    if (stream != segmentOf(block).stream) block->second.waits_for.push_back(stream);
  if (block->second.waits_for.empty()) {
    setFree(block);
    return;
  }
  block->second.state = State::kWaiting;
  waiting_.push_back(address);
}

void CachingAllocator::reached(int stream) {
  for (std::size_t i = 0; i < waiting_.size();) {
    const Blocks::iterator block = blocks_.find(waiting_[i]);
    std::erase(block->second.waits_for, stream);
    if (!block->second.waits_for.empty()) {
      ++i;
      continue;
    }
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    setFree(block);
  }
}

CachingAllocator::Blocks::iterator CachingAllocator::findFree(std::int64_t bytes, int stream, bool small) {
  std::pmr::set<Key>& free = small ? free_small_ : free_large_;
  auto found = free.lower_bound({stream, bytes, 0});
  if (found == free.end() || std::get<0>(*found) != stream) return blocks_.end();
  if (options_.expandable) {
    // A block at the end of what is mapped is as large as it can become: a somewhat larger one is the better fit, and leaves
    // it to those that need to grow. As long as it is part of something; the first block of all is taken as it is.
    const auto reach = [&](Blocks::const_iterator b) {
      const auto next = std::next(b);
      const bool grows = next != blocks_.end() && neighbours(b, next) && next->second.state == State::kUnmapped;
      return b->second.bytes + (grows ? next->second.bytes : 0);
    };
    for (auto next = std::next(found); next != free.end() && std::get<0>(*next) == stream; ++next) {
      const auto here = blocks_.find(std::get<2>(*found)), there = blocks_.find(std::get<2>(*next));
      const bool part = (here != blocks_.begin() && neighbours(std::prev(here), here)) || (std::next(here) != blocks_.end() && neighbours(here, std::next(here)));
      if (!part || reach(there) >= reach(here)) break;
      found = next;
    }
  }
  return blocks_.find(std::get<2>(*found));
}

CachingAllocator::Blocks::iterator CachingAllocator::newBlock(std::int64_t bytes, int stream, bool small) {
  if (options_.expandable) return expand(bytes, stream, small);
  const std::int64_t size = segmentBytes(bytes);
  if (size > options_.capacity - reserved_) return blocks_.end();
  const Blocks::iterator block = newSegment(size, stream, small, 0);
  segmentOf(block).mapped = size;
  block->second.state = State::kFree;
  freeOf(segmentOf(block)).insert(keyOf(block));
  reserved_ += size;
  ++segments_;
  return block;
}

CachingAllocator::Blocks::iterator CachingAllocator::newSegment(std::int64_t bytes, int stream, bool small, std::int64_t page) {
  all_segments_.push_back({stream, small, page, 0});
  const Blocks::iterator block = blocks_.emplace(next_, Block{}).first;
  block->second.bytes = bytes;
  block->second.segment = static_cast<int>(all_segments_.size()) - 1;
  block->second.state = State::kUnmapped;
  next_ += bytes;
  return block;
}

CachingAllocator::Blocks::iterator CachingAllocator::expand(std::int64_t bytes, int stream, bool small) {
  // The lowest address from which on blocks that are free or not mapped are long enough. None that is free alone is.
  const auto open = [](Blocks::const_iterator b) { return b->second.state == State::kUnmapped || b->second.state == State::kFree; };
  Blocks::iterator first = blocks_.end();
  for (auto b = blocks_.begin(); b != blocks_.end() && first == blocks_.end(); ++b) {
    const Segment& segment = segmentOf(b);
    if (b->second.state != State::kUnmapped || segment.stream != stream || segment.small != small || segment.page == 0) continue;
    auto start = b;
    if (b != blocks_.begin() && neighbours(std::prev(b), b) && open(std::prev(b))) start = std::prev(b);
    std::int64_t room = 0;
    for (auto c = start; c != blocks_.end() && room < bytes && neighbours(start, c) && open(c); ++c) room += c->second.bytes;
    if (room >= bytes) first = start;
  }
  if (first == blocks_.end()) first = newSegment(kReach, stream, small, small ? kSmallSegment : kMediumSegment);
  if (first->second.state == State::kUnmapped && (first = map(first, std::min(bytes, first->second.bytes))) == blocks_.end()) return first;
  while (first->second.bytes < bytes) {
    const auto next = std::next(first);
    if ((first = map(next, std::min(bytes - first->second.bytes, next->second.bytes))) == blocks_.end()) return first;
  }
  return first;
}

/// Maps pages at the beginning of an unmapped block; what it has become with its neighbours. end(): there are none.
CachingAllocator::Blocks::iterator CachingAllocator::map(Blocks::iterator block, std::int64_t bytes) {
  Segment& segment = segmentOf(block);
  const std::int64_t size = up(bytes, segment.page);
  if (size > options_.capacity - reserved_) return blocks_.end();
  if (size < block->second.bytes) cut(block, size);
  segments_ += segment.mapped == 0 ? 1 : 0;
  segment.mapped += size;
  reserved_ += size;
  return setFree(block);
}

void CachingAllocator::cut(Blocks::iterator block, std::int64_t bytes) {
  Block rest = block->second;
  rest.bytes -= bytes;
  block->second.bytes = bytes;
  blocks_.emplace_hint(std::next(block), block->first + bytes, std::move(rest));
}

CachingAllocator::Blocks::iterator CachingAllocator::join(Blocks::iterator block) {
  const bool free = block->second.state == State::kFree;
  const auto absorb = [&](Blocks::iterator a, Blocks::iterator b) {
    if (!neighbours(a, b) || a->second.state != b->second.state) return a;
    const Blocks::iterator other = a == block ? b : a;
    if (free) freeOf(segmentOf(other)).erase(keyOf(other));
    a->second.bytes += b->second.bytes;
    blocks_.erase(b);
    return a;
  };
  if (block != blocks_.begin()) {
    const Blocks::iterator before = std::prev(block);
    if (neighbours(before, block) && before->second.state == block->second.state) block = absorb(before, block);
  }
  if (std::next(block) != blocks_.end()) absorb(block, std::next(block));
  return block;
}

CachingAllocator::Blocks::iterator CachingAllocator::setFree(Blocks::iterator block) {
  block->second.state = State::kFree;
  block->second.requested = 0;
  block->second.waits_for.clear();
  block = join(block);
  freeOf(segmentOf(block)).insert(keyOf(block));
  return block;
}

void CachingAllocator::releaseCached() {
  std::vector<Address> free;
  for (const std::pmr::set<Key>* keys : {&free_large_, &free_small_})
    for (const Key& key : *keys) free.push_back(std::get<2>(key));
  for (const Address address : free) {
    const Blocks::iterator block = blocks_.find(address);
    Segment& segment = segmentOf(block);
    if (segment.page > 0) {
      unmapPages(block);
    } else if (block->second.bytes == segment.mapped) {
      freeOf(segment).erase(keyOf(block));
      reserved_ -= segment.mapped;
      --segments_;
      blocks_.erase(block);
    }
  }
}

/// Whole pages within a free block go back; what lies before and after them stays.
void CachingAllocator::unmapPages(Blocks::iterator block) {
  Segment& segment = segmentOf(block);
  // Pages are counted from the segment's beginning.
  Blocks::const_iterator start = block;
  while (start != blocks_.begin() && neighbours(std::prev(start), start)) --start;
  const std::int64_t begin = block->first - start->first, end = begin + block->second.bytes;
  const std::int64_t first = up(begin, segment.page), last = end / segment.page * segment.page;
  if (first >= last) return;
  freeOf(segment).erase(keyOf(block));
  if (last < end) {
    cut(block, last - begin);
    freeOf(segment).insert(keyOf(std::next(block)));
  }
  Blocks::iterator pages = block;
  if (begin < first) {
    cut(block, first - begin);
    freeOf(segment).insert(keyOf(block));
    pages = std::next(block);
  }
  pages->second.state = State::kUnmapped;
  segment.mapped -= last - first;
  segments_ -= segment.mapped == 0 ? 1 : 0;
  reserved_ -= last - first;
  join(pages);
}

std::int64_t CachingAllocator::largestFree() const {
  std::int64_t out = 0;
  for (const auto& [address, block] : blocks_)
    if (block.state == State::kFree) out = std::max(out, block.bytes);
  return out;
}

std::vector<CachingAllocator::Range> CachingAllocator::ranges() const {
  std::vector<Range> out;
  for (const auto& [address, block] : blocks_)
    if (block.state != State::kUnmapped) out.push_back({address, block.bytes, all_segments_[static_cast<std::size_t>(block.segment)].stream, block.state != State::kFree});
  return out;
}

}  // namespace spscope::passes
