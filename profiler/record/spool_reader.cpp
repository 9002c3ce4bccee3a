// SPDX-License-Identifier: Apache-2.0
#include "profiler/record/spool_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "core/base/strings.h"
#include "profiler/record/host_recorder.h"
#include "profiler/trace/bounds.h"

namespace spscope::trace {
namespace {

using nlohmann::json;

constexpr std::uint32_t kLargestBlock = 256u << 20;

std::int64_t numberIn(const json& object, const char* key, std::int64_t fallback) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number_integer() ? it->get<std::int64_t>() : fallback;
}
std::string textIn(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

/// Reads one rank's file into the trace.
class RankReader {
 public:
  RankReader(Trace& trace, std::string path) : trace_(trace), path_(std::move(path)) {}
  std::string boot;

  Status read(const CancelToken& cancel) {
    std::ifstream file(path_, std::ios::binary);
    if (!file) return makeError("file-unreadable", path_ + ": " + std::strerror(errno));
    std::string magic(kSpoolMagic.size(), '\0');
    if (!file.read(magic.data(), static_cast<std::streamsize>(magic.size())) || magic != kSpoolMagic)
      return makeError("file-unreadable", path_ + " is not the recording of a rank");
    rank_ = static_cast<std::int32_t>(trace_.ranks.size());
    first_event_ = trace_.events.size();
    trace_.ranks.emplace_back().file = path_;
    std::vector<char> payload;
    SpoolBlockHead head;
    while (file.read(reinterpret_cast<char*>(&head), sizeof head)) {
      SP_TRY(cancel.check());
      if (head.bytes > kLargestBlock) break;
      payload.resize(head.bytes);
      if (!file.read(payload.data(), head.bytes)) break;
      if (!take(static_cast<SpoolBlock>(head.kind), payload)) break;
    }
    joinExternals();
    if (!seen_header_) return makeError("file-unreadable", path_ + ": the head of the recording is not readable");
    if (!ended_) trace_.problems.count(Problem::kTruncated, path_);
    return {};
  }

 private:
  Rank& rank() { return trace_.ranks[static_cast<std::size_t>(rank_)]; }

  bool take(SpoolBlock kind, const std::vector<char>& payload) {
    switch (kind) {
      case SpoolBlock::kHeader: return header(payload);
      case SpoolBlock::kNodes: return nodes(payload);
      case SpoolBlock::kStrings: return strings(payload);
      case SpoolBlock::kHost: return records<HostRecord>(payload, [this](const HostRecord& r) { host(r); });
      case SpoolBlock::kDevice: return records<DeviceRecord>(payload, [this](const DeviceRecord& r) { device(r); });
      case SpoolBlock::kTrailer: return trailer(payload);
      case SpoolBlock::kExternal:
        return records<ExternalRecord>(payload, [this](const ExternalRecord& r) { external_.emplace(r.correlation, r.external); });
    }
    return false;
  }

  template <typename Record, typename F>
  bool records(const std::vector<char>& payload, F&& f) {
    if (!seen_header_) return false;
    for (std::size_t at = 0; at + sizeof(Record) <= payload.size(); at += sizeof(Record)) {
      Record record;
      std::memcpy(&record, payload.data() + at, sizeof record);
      f(record);
    }
    return true;
  }

  bool header(const std::vector<char>& payload) {
    const json head = json::parse(payload, nullptr, false);
    if (!head.is_object() || seen_header_) return false;
    seen_header_ = true;
    Rank& r = rank();
    r.number = numberIn(head, "rank", kUnknown);
    r.world = numberIn(head, "world", kUnknown);
    r.pid = numberIn(head, "pid", kUnknown);
    r.host = textIn(head, "host");
    r.backend = textIn(head, "backend");
    r.base_ns = std::clamp<std::int64_t>(numberIn(head, "epoch_ns", 0), 0, std::int64_t{1} << 61);
    boot = textIn(head, "boot");
    if (const auto it = head.find("properties"); it != head.end() && it->is_object())
      for (const auto& [key, value] : it->items())
        if (value.is_string()) trace_.properties.emplace(key, value.get<std::string>());
    if (const auto it = head.find("groups"); it != head.end() && it->is_object())
      for (const auto& item : it->items())
        if (const std::int64_t size = numberIn(*it, item.key().c_str(), 0); size > 0) group_size_[trace_.strings.intern(item.key())] = size;
    thread_ = trace_.thread(rank_, r.pid, numberIn(head, "tid", r.pid));
    trace_.tracks[static_cast<std::size_t>(thread_)].name = trace_.strings.intern("main");
    return true;
  }

  bool nodes(const std::vector<char>& payload) {
    const json table = json::parse(payload, nullptr, false);
    if (!table.is_array()) return false;
    for (const json& row : table) {
      if (!row.is_object()) continue;
      GraphNode node;
      node.id = numberIn(row, "id", kUnknown);
      const auto text = [&](const char* key) { return trace_.strings.intern(textIn(row, key)); };
      node.name = text("name"), node.op = text("op"), node.module = text("module");
      node.source = text("source"), node.stage = text("stage");
      node.phase = static_cast<Phase>(std::clamp<std::int64_t>(numberIn(row, "phase", 0), 0, 4));
      node.flops = numberIn(row, "flops", kUnknown);
      node.predicted_ns = numberIn(row, "predicted_ns", kUnknown);
      memory_class_.emplace(node.id, text("memory"));
      node_index_.emplace(node.id, findOrAdd(node));
    }
    return true;
  }

  /// Ranks of one class run the same program: a node that is equal to another rank's is that node.
  NodeIndex findOrAdd(const GraphNode& node) {
    const auto position = node_index_.size();
    // Equal programs list their nodes in the same order, after one another.
    if (rank_ > 0 && position < trace_.nodes.size()) {
      const GraphNode& other = trace_.nodes[position];
      if (other.id == node.id && other.name == node.name && other.op == node.op && other.flops == node.flops)
        return static_cast<NodeIndex>(position);
    }
    trace_.nodes.push_back(node);
    return static_cast<NodeIndex>(trace_.nodes.size()) - 1;
  }

  bool strings(const std::vector<char>& payload) {
    for (std::size_t at = 0; at + 8 <= payload.size();) {
      std::uint32_t id = 0, length = 0;
      std::memcpy(&id, payload.data() + at, 4);
      std::memcpy(&length, payload.data() + at + 4, 4);
      at += 8;
      if (length > payload.size() - at) return false;
      strings_[id] = trace_.strings.intern({payload.data() + at, length});
      at += length;
    }
    return true;
  }

  StringId name(std::uint32_t id) const {
    const auto it = strings_.find(id);
    return it == strings_.end() ? 0 : it->second;
  }
  /// DeviceRecord::external: node id + 1.
  NodeIndex nodeOfExternal(std::int64_t external) const { return external > 0 ? nodeOf(external - 1) : kNoIndex; }
  NodeIndex nodeOf(std::int64_t id) const {
    const auto it = node_index_.find(id);
    return it == node_index_.end() ? kNoIndex : it->second;
  }

  /// Times so far from now come from damage; sums of them would overflow.
  bool possible(std::int64_t start, std::int64_t end) {
    constexpr std::int64_t kFar = std::int64_t{1} << 61;
    if (std::min(start, end) > -kFar && std::max(start, end) < kFar) return true;
    trace_.problems.count(Problem::kOutOfRange, path_);
    return false;
  }

  void host(const HostRecord& r) {
    if (!possible(r.start, r.end)) return;
    Event e{.start = r.start + rank().base_ns, .end = std::max(r.start, r.end) + rank().base_ns, .name = name(r.name), .track = thread_};
    if (r.end < r.start) trace_.problems.count(Problem::kNegativeDuration, path_);
    e.node = nodeOf(r.node);
    e.external = r.node >= 0 ? std::int64_t{r.node} + 1 : 0;
    switch (r.kind) {
      case HostKind::kNode:
        e.category = Category::kOperator;
        if (e.node != kNoIndex) e.name = trace_.nodes[static_cast<std::size_t>(e.node)].op;
        trace_.add(e);
        return;
      case HostKind::kCall: e.category = Category::kOperator; trace_.add(e); return;
      case HostKind::kRange: e.category = Category::kRange; trace_.add(e); return;
      case HostKind::kCollective: collective(r, e); return;
      case HostKind::kWait: wait(r, e); return;
      case HostKind::kAllocation: {
        MemoryEvent m{.time = e.start, .bytes = r.first, .live = r.second, .node = e.node, .rank = rank_};
        if (const auto it = memory_class_.find(r.node); it != memory_class_.end()) m.memory_class = it->second;
        if (e.name != 0) m.memory_class = e.name;
        trace_.memory.push_back(m);
        return;
      }
      case HostKind::kBarrier: rank().barrier_ns = e.start; return;
    }
    trace_.problems.count(Problem::kBadEvent, path_);
  }

  void collective(const HostRecord& r, Event e) {
    if (communication_ == kNoIndex) {  // beside the thread: a collective runs on while other nodes do
      communication_ = trace_.thread(rank_, rank().pid, -1);
      trace_.tracks[static_cast<std::size_t>(communication_)].name = trace_.strings.intern("communication");
    }
    const auto [group, kind] = groupAndKind(e.name);
    e.category = Category::kCollective;
    e.track = communication_;
    e.bytes = r.first;
    e.name = kind;
    Collective c{.kind = kind, .group = group, .sequence = r.second, .bytes = r.first, .rank = rank_};
    if (const auto it = group_size_.find(group); it != group_size_.end()) c.group_size = it->second;
    c.event = trace_.add(e);
    if (const auto it = waits_.find({group, r.second}); it != waits_.end()) c.wait = it->second, waits_.erase(it);
    open_[{group, r.second}] = static_cast<std::int32_t>(trace_.collectives.size());
    trace_.collectives.push_back(c);
  }

  /// "sp:all_to_all".
  std::pair<StringId, StringId> groupAndKind(StringId name) {
    const std::string text(trace_.strings.text(name));  // a copy: interning may move what it points into
    const auto colon = text.find(':');
    if (colon == std::string::npos) return {name, name};
    return {trace_.strings.intern(text.substr(0, colon)), trace_.strings.intern(text.substr(colon + 1))};
  }

  void wait(const HostRecord& r, Event e) {
    const auto [group, kind] = groupAndKind(e.name);
    const std::pair<StringId, std::int64_t> key{group, r.second};
    e.category = Category::kWait;
    e.name = kind;
    const EventIndex index = trace_.add(e);
    if (const auto it = open_.find(key); it != open_.end()) {
      trace_.collectives[static_cast<std::size_t>(it->second)].wait = index;
      open_.erase(it);
    } else {
      waits_[key] = index;
    }
  }

  void device(const DeviceRecord& r) {
    if (!possible(r.start, r.end)) return;
    const std::int64_t base = rank().base_ns;
    const auto category = static_cast<Category>(std::min<int>(r.category, kCategories - 1));
    if (category == Category::kOther) {
      memory_correlation_.emplace_back(trace_.memory.size(), r.correlation);
      trace_.memory.push_back({.time = r.start + base, .bytes = r.bytes, .address = r.address, .node = nodeOfExternal(r.external),
                               .rank = rank_, .device = r.device});
      return;
    }
    Event e{.start = r.start + base, .end = std::max(r.start, r.end) + base, .correlation = r.correlation, .external = r.external,
            .name = name(r.name), .node = nodeOfExternal(r.external), .category = category};
    e.track = isDeviceWork(category) || (category == Category::kSynchronize && r.stream >= 0)
                  ? trace_.stream(rank_, r.device, r.context, r.stream)
                  : trace_.thread(rank_, rank().pid, r.thread);
    if (category == Category::kKernel) {
      e.detail = static_cast<std::int32_t>(trace_.launches.size());
      Launch launch{.registers = r.registers, .static_shared = r.static_shared, .dynamic_shared = r.dynamic_shared, .graph_node = r.graph_node};
      std::copy(std::begin(r.grid), std::end(r.grid), launch.grid.begin());
      std::copy(std::begin(r.block), std::end(r.block), launch.block.begin());
      trace_.launches.push_back(launch);
    } else if (isDeviceWork(category)) {
      e.bytes = r.bytes;
      e.detail = static_cast<std::int32_t>(trace_.copies.size());
      trace_.copies.push_back({r.copy_kind, r.source_kind, r.target_kind, category == Category::kMemset ? r.value : kUnknown});
    }
    trace_.add(e);
  }

  /// Device work and calls of one correlation id belong to the node that was on top when the call was made; a graph launch has
  /// many kernels. The two kinds of record come in any order.
  void joinExternals() {
    if (external_.empty()) return;
    Events& events = trace_.events;
    for (std::size_t i = first_event_; i < events.size(); ++i) {
      if (events.correlation[i] == 0 || events.external[i] != 0) continue;
      const auto it = external_.find(events.correlation[i]);
      if (it == external_.end()) continue;
      events.external[i] = it->second;
      events.node[i] = nodeOfExternal(it->second);
    }
    for (const auto& [index, correlation] : memory_correlation_)
      if (const auto it = external_.find(correlation); it != external_.end()) trace_.memory[index].node = nodeOfExternal(it->second);
  }

  bool trailer(const std::vector<char>& payload) {
    const json tail = json::parse(payload, nullptr, false);
    if (!tail.is_object()) return false;
    ended_ = true;
    rank().dropped = numberIn(tail, "dropped", 0) + numberIn(tail, "device_dropped", 0);
    trace_.problems.count(Problem::kDroppedRecords, path_, rank().dropped);
    return true;
  }

  Trace& trace_;
  std::string path_;
  std::int32_t rank_ = 0;
  TrackIndex thread_ = kNoIndex, communication_ = kNoIndex;
  bool seen_header_ = false, ended_ = false;
  std::unordered_map<std::uint32_t, StringId> strings_;
  std::unordered_map<std::int64_t, NodeIndex> node_index_;
  std::unordered_map<std::int64_t, StringId> memory_class_;
  std::unordered_map<StringId, std::int64_t> group_size_;
  std::unordered_map<std::int64_t, std::int64_t> external_;                ///< correlation -> external
  std::vector<std::pair<std::size_t, std::int64_t>> memory_correlation_;
  std::size_t first_event_ = 0;
  std::map<std::pair<StringId, std::int64_t>, EventIndex> waits_;          ///< whose collective is not there yet
  std::map<std::pair<StringId, std::int64_t>, std::int32_t> open_;         ///< collectives without their wait
};

void shift(Trace& trace, std::int32_t rank, std::int64_t by) {
  if (by == 0) return;
  for (std::size_t i = 0; i < trace.events.size(); ++i)
    if (trace.tracks[static_cast<std::size_t>(trace.events.track[i])].rank == rank) trace.events.start[i] += by, trace.events.end[i] += by;
  for (MemoryEvent& m : trace.memory)
    if (m.rank == rank) m.time += by;
  Rank& r = trace.ranks[static_cast<std::size_t>(rank)];
  if (r.barrier_ns != kUnknown) r.barrier_ns += by;
  r.base_ns += by;
}

}  // namespace

Result<Trace> readSpools(const std::vector<std::string>& paths, const CancelToken& cancel) {
  Trace trace;
  trace.format = "spscope";
  std::vector<std::string> boots;
  for (const std::string& path : paths) {
    RankReader reader(trace, path);
    SP_TRY(reader.read(cancel));
    boots.push_back(reader.boot);
  }
  keepInBounds(trace);  // before times are shifted
  const bool one_clock = !boots.empty() && !boots.front().empty() &&
                         std::all_of(boots.begin(), boots.end(), [&](const std::string& b) { return b == boots.front(); });
  for (std::size_t i = 0; one_clock && i < trace.ranks.size(); ++i) {
    // The wall clock was read by each rank for itself; the monotonic one is the same for all.
    shift(trace, static_cast<std::int32_t>(i), trace.ranks.front().base_ns - trace.ranks[i].base_ns);
    trace.ranks[i].clock.method = "same-clock";
    trace.ranks[i].clock.residual_ns = 0;
  }
  keepInBounds(trace);
  return trace;
}

}  // namespace spscope::trace
