// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/allocation_trace.h"

#include <algorithm>

#include "passes/memory/resident.h"
#include "passes/memory/step_model.h"

namespace spscope::passes {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// In the order in which a rank makes them.
std::vector<std::int64_t> residents(const ir::Graph& graph, const StepModel& model, const LivenessOptions& options) {
  std::vector<std::int64_t> out;
  for (const StepStorage& storage : model.storages)
    if (storage.input) out.push_back(storage.bytes);
  for (const auto& more : {optimizerStates(graph, options), accumulators(graph, options.accumulate)}) out.insert(out.end(), more.begin(), more.end());
  return out;
}

}  // namespace

AllocationTrace allocationTrace(const ir::Graph& graph, const LivenessOptions& options) {
  return allocationTrace(StepModel(graph, options, nominalRates("cpu")), options);
}

AllocationTrace allocationTrace(const StepModel& model, const LivenessOptions& options) {
  AllocationTrace out;
  out.resident = residents(model.graph(), model, options);
  const auto end = static_cast<std::int32_t>(model.nodes.size());
  std::vector<std::int32_t> last(model.storages.size(), -1);
  for (std::int32_t i = 0; i < end; ++i) {
    const StepNode& node = model.nodes[at(i)];
    for (const ir::ValueId use : model.usesOf(node)) last[at(model.storageOf(use))] = i;
    for (const ir::ValueId made : model.outsOf(node)) last[at(model.storageOf(made))] = std::max(last[at(model.storageOf(made))], i);
  }
  // What goes after each place.
  std::vector<std::vector<std::int32_t>> leaving(at(end) + 1);
  for (std::size_t s = 0; s < model.storages.size(); ++s) {
    const StepStorage& storage = model.storages[s];
    if (storage.input || storage.bytes == 0) continue;
    leaving[at(storage.output ? end : last[s])].push_back(static_cast<std::int32_t>(s));
  }
  std::vector<std::int32_t> block_of(model.storages.size(), -1);
  for (std::int32_t i = 0; i < end; ++i) {
    const StepNode& node = model.nodes[at(i)];
    for (const ir::ValueId made : model.outsOf(node)) {
      const std::int64_t bytes = model.storageAt(made).bytes;
      if (!model.ownsStorage(made) || bytes == 0) continue;
      out.step.push_back({block_of[at(model.storageOf(made))] = out.blocks++, i, bytes});
    }
    for (const std::int64_t bytes : {node.packing, node.workspace}) {
      if (bytes == 0) continue;
      out.step.push_back({out.blocks++, i, bytes});
    }
    // Scratch memory goes first, as a kernel's own does.
    std::size_t scratch = out.step.size();
    for (int n = (node.packing > 0) + (node.workspace > 0); n > 0; --n) out.step.push_back({out.step[--scratch].block, i, 0});
    for (const std::int32_t s : leaving[at(i)])
      if (block_of[at(s)] >= 0) out.step.push_back({block_of[at(s)], i, 0});
  }
  for (const std::int32_t s : leaving[at(end)])
    if (block_of[at(s)] >= 0) out.step.push_back({block_of[at(s)], end, 0});
  return out;
}

namespace {

/// All of it, `steps` times; false: the device has no more. `watch(got)` hears of every request, `freed()` before a block goes.
template <typename Watch, typename Freed>
bool perform(const AllocationTrace& trace, CachingAllocator& allocator, int steps, const Watch& watch, const Freed& freed) {
  for (const std::int64_t bytes : trace.resident)
    if (bytes > 0 && !watch(allocator.allocate(bytes))) return false;
  std::vector<CachingAllocator::Address> address(at(trace.blocks), -1);
  for (int step = 0; step < steps; ++step)
    for (const AllocationEvent& event : trace.step) {
      if (event.bytes == 0) {
        freed();
        allocator.free(address[at(event.block)]);
        continue;
      }
      const auto got = watch(allocator.allocate(event.bytes));
      if (!got) return false;
      address[at(event.block)] = *got;
    }
  return true;
}

}  // namespace

ReplayFigures replay(const AllocationTrace& trace, const CachingOptions& options, int steps) {
  CachingAllocator allocator(options);
  ReplayFigures out;
  out.largest_free = 0;
  const auto watch = [&](std::optional<CachingAllocator::Address> got) {
    if (!got) return got;
    out.reserved = std::max(out.reserved, allocator.reserved());
    if (allocator.requested() <= out.requested) return got;
    out.requested = allocator.requested();
    out.allocated = allocator.allocated();
    out.reserved_there = allocator.reserved();
    out.largest_free = -1;
    return got;
  };
  // The largest free block is looked for once, when the peak is over: nothing has changed since.
  const auto settle = [&] {
    if (out.largest_free < 0) out.largest_free = allocator.largestFree();
  };
  out.possible = perform(trace, allocator, steps, watch, settle);
  settle();
  out.retries = allocator.retries();
  out.segments = allocator.segments();
  return out;
}

std::int64_t leastCapacity(const AllocationTrace& trace, const ReplayFigures& free, bool expandable) {
  const auto possible = [&](std::int64_t capacity) {
    CachingAllocator allocator({.capacity = capacity, .expandable = expandable});
    return perform(trace, allocator, 2, [](const auto& got) { return got; }, [] {});
  };
  std::int64_t no = free.requested - 1, yes = free.reserved;
  while (yes - no > std::max(free.requested / 64, std::int64_t{32} << 20)) {
    const std::int64_t middle = no + (yes - no) / 2;
    (possible(middle) ? yes : no) = middle;
  }
  return yes;
}

}  // namespace spscope::passes
