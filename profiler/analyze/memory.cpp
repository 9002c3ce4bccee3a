// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/memory.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <unordered_map>

namespace spscope::trace {
namespace {

std::int64_t predictedPeak(const Trace& trace, std::int32_t rank) {
  const std::int64_t number = trace.ranks[static_cast<std::size_t>(rank)].number;
  const auto it = trace.properties.find("predicted_peak." + std::to_string(number == kUnknown ? rank : number));
  if (it == trace.properties.end() || it->second.empty()) return kUnknown;
  char* end = nullptr;
  const std::int64_t bytes = std::strtoll(it->second.c_str(), &end, 10);
  return *end == '\0' ? bytes : kUnknown;
}

struct Live {
  std::int64_t bytes = 0;
  StringId memory_class = 0;
};

/// The classes that live at one event of the list: a walk up to it, with frees given to the class of what they free.
std::vector<ClassBytes> classesAt(const std::vector<const MemoryEvent*>& events, std::size_t last, const ClassOf& class_of) {
  std::unordered_map<std::int64_t, Live> by_address;
  std::map<StringId, std::int64_t> live;
  for (std::size_t i = 0; i <= last; ++i) {
    const MemoryEvent& m = *events[i];
    StringId of = class_of(m);
    if (m.address != kUnknown) {
      if (m.bytes > 0) {
        by_address[m.address] = {m.bytes, of};
      } else if (const auto it = by_address.find(m.address); it != by_address.end()) {
        of = it->second.memory_class;
        by_address.erase(it);
      } else {
        continue;  // freed what was there before the recording
      }
    }
    live[of] += m.bytes;
  }
  std::vector<ClassBytes> out;
  for (const auto& [memory_class, bytes] : live)
    if (bytes > 0) out.push_back({memory_class, bytes});
  std::stable_sort(out.begin(), out.end(), [](const ClassBytes& a, const ClassBytes& b) { return a.bytes > b.bytes; });
  return out;
}

void walk(const std::vector<const MemoryEvent*>& events, const ClassOf& class_of, MemoryUse& use) {
  // What the first event says was live before it; without that, frees of unknown allocations show how much it was at least.
  std::int64_t running = 0, lowest = 0;
  for (const MemoryEvent* m : events) running += m->bytes, lowest = std::min(lowest, running);
  const MemoryEvent& first = *events.front();
  if (first.live != kUnknown) use.before_recording = first.live - first.bytes;
  else if (lowest < 0) use.before_recording = -lowest;
  running = use.before_recording == kUnknown ? 0 : use.before_recording;
  std::size_t peak = 0;
  use.curve.reserve(events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    const MemoryEvent& m = *events[i];
    running = m.live != kUnknown ? m.live : running + m.bytes;
    use.curve.push_back({m.time, running});
    if (use.peak_bytes == kUnknown || running > use.peak_bytes) use.peak_bytes = running, peak = i;
    use.peak_reserved = std::max(use.peak_reserved, m.reserved);
    if (m.bytes >= 0) use.allocated += m.bytes, ++use.allocations;
    else use.freed -= m.bytes, ++use.frees;
  }
  use.peak_ns = events[peak]->time;
  if (events[peak]->bytes > 0) use.peak_node = events[peak]->node;
  use.at_peak = classesAt(events, peak, class_of);
}

}  // namespace

std::vector<MemoryUse> memoryUse(const Trace& trace, const ClassOf& class_of) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<const MemoryEvent*>> pools;
  for (const MemoryEvent& m : trace.memory) pools[{m.rank, m.device}].push_back(&m);
  std::vector<MemoryUse> out;
  for (auto& [key, events] : pools) {
    std::stable_sort(events.begin(), events.end(), [](const MemoryEvent* a, const MemoryEvent* b) { return a->time < b->time; });
    MemoryUse use;
    use.rank = key.first, use.device = key.second;
    use.predicted_peak = predictedPeak(trace, use.rank);
    walk(events, class_of ? class_of : [](const MemoryEvent& m) { return m.memory_class; }, use);
    out.push_back(std::move(use));
  }
  // A prediction is of the device that the plan runs on: the one that holds most.
  for (MemoryUse& use : out)
    for (const MemoryUse& other : out)
      if (other.rank == use.rank && other.peak_bytes > use.peak_bytes) use.predicted_peak = kUnknown;
  return out;
}

std::vector<NodeMemory> memoryByNode(const Trace& trace) {
  std::vector<NodeMemory> all(trace.nodes.size() + 1);
  for (const MemoryEvent& m : trace.memory) {
    NodeMemory& node = all[static_cast<std::size_t>(m.node + 1)];
    node.node = m.node;
    if (m.bytes >= 0) node.allocated += m.bytes, ++node.allocations;
    else node.freed -= m.bytes, ++node.frees;
  }
  std::erase_if(all, [](const NodeMemory& n) { return n.allocations + n.frees == 0; });
  std::stable_sort(all.begin(), all.end(), [](const NodeMemory& a, const NodeMemory& b) { return a.allocated > b.allocated; });
  return all;
}

}  // namespace spscope::trace
