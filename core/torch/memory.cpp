// SPDX-License-Identifier: Apache-2.0
// Each block carries 64 bytes in front of it: who counts it, in which generation, and its size. 64 keeps the alignment
// that libtorch promises, and makes frees exact on any thread without a table.
#include "core/torch/memory.h"

#include "core/torch/block_cache.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "core/base/clock.h"

namespace spscope::exec {

/// Never freed, only recycled: a block may outlive its meter, and then finds another generation here.
struct MemoryMeter::State {
  std::atomic<std::uint64_t> generation{0};
  std::atomic<std::int64_t> live{0};
  std::atomic<std::int64_t> peak{0};
  std::atomic<ir::NodeId> peak_node{ir::kNone};
  const ir::Node* node = nullptr;
  ExecutionObserver* observer = nullptr;
  int rank = 0;
};

struct MeterAccess {
  using State = MemoryMeter::State;
  static State* stateOf(MemoryMeter& meter) { return meter.state_; }
};

namespace {
using State = MeterAccess::State;

constexpr std::size_t kHeaderBytes = 64;
struct Header {
  State* state;
  std::uint64_t generation;
  std::int64_t bytes;
  std::size_t kept_bytes;  ///< of the block as the cache knows it; 0: not the cache's
  const ir::Node* node;  ///< that made it; of the program that runs as long as the generation is the meter's
};
static_assert(sizeof(Header) <= kHeaderBytes);

thread_local State* t_current = nullptr;
thread_local bool t_reporting = false;  // an observer that allocates tensors is not reported to itself
std::atomic<State*> g_others{nullptr};
std::atomic<std::uint64_t> g_generation{1};
std::atomic<BlockCache*> g_cache{nullptr};  // never freed

void report(State& state, const ir::Node* node, std::int64_t bytes, std::int64_t live) {
  if (state.observer == nullptr || t_reporting || t_current != &state) return;
  t_reporting = true;
  state.observer->allocation(state.rank, node, bytes, live, monotonicNs());
  t_reporting = false;
}

void count(State& state, std::int64_t bytes) {
  const std::int64_t live = state.live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t peak = state.peak.load(std::memory_order_relaxed);
  while (live > peak)
    if (state.peak.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
      state.peak_node.store(state.node != nullptr ? state.node->id : ir::kNone, std::memory_order_relaxed);
      break;
    }
  report(state, state.node, bytes, live);
}

void release(void* data) {
  if (data == nullptr) return;
  char* const base = static_cast<char*>(data) - kHeaderBytes;
  const Header header = *reinterpret_cast<const Header*>(base);
  if (header.kept_bytes > 0) g_cache.load(std::memory_order_acquire)->give({base, header.kept_bytes});
  else c10::free_cpu(base);
  State* const state = header.state;
  if (state == nullptr || state->generation.load(std::memory_order_relaxed) != header.generation) return;
  const std::int64_t live = state->live.fetch_sub(header.bytes, std::memory_order_relaxed) - header.bytes;
  report(*state, header.node, -header.bytes, live);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &release, cpu};
    BlockCache::Block block{nullptr, 0};
    BlockCache* const cache = bytes < BlockCache::kSmallest ? nullptr : g_cache.load(std::memory_order_acquire);
    if (cache != nullptr) block = cache->take(bytes + kHeaderBytes);
    char* const base = static_cast<char*>(block.data != nullptr ? block.data : c10::alloc_cpu(bytes + kHeaderBytes));
    State* state = t_current != nullptr ? t_current : g_others.load(std::memory_order_relaxed);
    const std::uint64_t generation = state != nullptr ? state->generation.load(std::memory_order_relaxed) : 0;
    *reinterpret_cast<Header*>(base) = Header{state, generation, static_cast<std::int64_t>(bytes), block.bytes, state != nullptr ? state->node : nullptr};
    if (state != nullptr) count(*state, static_cast<std::int64_t>(bytes));
    void* const data = base + kHeaderBytes;
    return {data, data, &release, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* dest, const void* src, std::size_t n) const override { default_copy_data(dest, src, n); }
};

std::mutex g_pool_mutex;
std::vector<State*>& pool() {
  static auto* const states = new std::vector<State*>();
  return *states;
}

}  // namespace

void installCountingAllocator() {
  static const bool once = [] {
    static auto* const allocator = new CountingAllocator();  // libtorch keeps the pointer for ever
    c10::SetCPUAllocator(allocator, /*priority=*/100);
    return true;
  }();
  (void)once;
}

void keepFreedBlocks() {
  static auto* const cache = new BlockCache([](void* data) { c10::free_cpu(data); });
  g_cache.store(cache, std::memory_order_release);
}

MemoryMeter::MemoryMeter() {
  const std::lock_guard lock(g_pool_mutex);
  if (pool().empty()) {
    state_ = new State();
  } else {
    state_ = pool().back();
    pool().pop_back();
  }
  reset();
  setNode(nullptr);
  setObserver(nullptr, 0);
}

MemoryMeter::~MemoryMeter() {
  State* self = state_;
  g_others.compare_exchange_strong(self, nullptr);
  setObserver(nullptr, 0);
  reset();
  const std::lock_guard lock(g_pool_mutex);
  pool().push_back(state_);
}

void MemoryMeter::reset() {
  state_->generation.store(g_generation.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
  state_->live.store(0, std::memory_order_relaxed);
  state_->peak.store(0, std::memory_order_relaxed);
  state_->peak_node.store(ir::kNone, std::memory_order_relaxed);
}

std::int64_t MemoryMeter::live() const { return state_->live.load(std::memory_order_relaxed); }
std::int64_t MemoryMeter::peak() const { return state_->peak.load(std::memory_order_relaxed); }
ir::NodeId MemoryMeter::peakNode() const { return state_->peak_node.load(std::memory_order_relaxed); }
void MemoryMeter::setNode(const ir::Node* node) { state_->node = node; }
void MemoryMeter::setObserver(ExecutionObserver* observer, int rank) {
  state_->observer = observer;
  state_->rank = rank;
}

MeterScope::MeterScope(MemoryMeter& meter) : previous_(t_current) { t_current = meter.state_; }
MeterScope::~MeterScope() { t_current = static_cast<State*>(previous_); }

void countOtherThreads(MemoryMeter* meter) {
  g_others.store(meter != nullptr ? MeterAccess::stateOf(*meter) : nullptr);
}

}  // namespace spscope::exec
