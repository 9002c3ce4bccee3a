// SPDX-License-Identifier: Apache-2.0
#include "profiler/import/chrome_builder.h"

#include <cstring>

#include "profiler/analyze/work.h"
#include "profiler/import/copies.h"
#include "profiler/import/decimal.h"
#include "profiler/import/json_repair.h"

namespace spscope::trace {
namespace {

constexpr std::size_t kNames = 1 << 13, kTracks = 1 << 8;
/// Numbers no process or thread has, for those that are texts.
constexpr std::int64_t kFirstText = kUnknown + 1;

/// Of Kineto, of its first releases, and of our own export.
constexpr std::pair<std::string_view, Category> kCategoryNames[] = {
    {"cpu_op", Category::kOperator},        {"Operator", Category::kOperator},
    {"user_annotation", Category::kRange},  {"gpu_user_annotation", Category::kDeviceRange},
    {"python_function", Category::kPython}, {"cuda_runtime", Category::kRuntime},
    {"cuda_driver", Category::kRuntime},    {"Runtime", Category::kRuntime},
    {"kernel", Category::kKernel},          {"Kernel", Category::kKernel},
    {"gpu_memcpy", Category::kMemcpy},      {"Memcpy", Category::kMemcpy},
    {"gpu_memset", Category::kMemset},      {"Memset", Category::kMemset},
    {"cuda_sync", Category::kSynchronize},  {"overhead", Category::kOverhead},
    {"Overhead", Category::kOverhead},      {"collective_comm", Category::kCollective},
    {"cpu_instant_event", Category::kInstant},
};

bool endsWith(std::string_view text, std::string_view end) { return text.size() >= end.size() && text.substr(text.size() - end.size()) == end; }

std::uint64_t word(const char* p) {
  std::uint64_t out;
  std::memcpy(&out, p, sizeof out);
  return out;
}

}  // namespace

ChromeBuilder::ChromeBuilder(Trace& trace, const std::string& name) : trace_(trace), names_(kNames), tracks_(kTracks) {
  trace_.format = "kineto";
  trace_.ranks.emplace_back();
  trace_.ranks[0].file = name;
}

StringId ChromeBuilder::intern(std::string_view raw, bool escapes) {
  if (escapes && raw.find('\\') != std::string_view::npos) {
    unescape(raw, &scratch_);  // the parser has tried it
    return trace_.strings.intern(scratch_);
  }
  if (raw.empty()) return 0;
  // A million events have a few thousand names: most are found by comparing them with the last of the same hash. Reading
  // 8 bytes from anywhere in the name is fine: the text has a margin.
  std::uint64_t hash = raw.size() * 0x9e3779b97f4a7c15u;
  if (raw.size() < 8) hash ^= word(raw.data()) << (8 * (8 - raw.size()));
  else hash ^= word(raw.data()) ^ word(raw.data() + raw.size() - 8) * 0xff51afd7ed558ccdu ^ word(raw.data() + (raw.size() - 8) / 2) * 0xc4ceb9fe1a85ec53u;
  hash *= 0x9e3779b97f4a7c15u;
  CachedName& cached = names_[hash >> (64 - 13)];
  if (cached.size == raw.size() && std::memcmp(cached.data, raw.data(), raw.size()) == 0) return cached.id;
  const StringId id = trace_.strings.intern(raw);
  if (raw.size() <= UINT32_MAX) cached = {trace_.strings.text(id).data(), static_cast<std::uint32_t>(raw.size()), id};
  return id;
}

Category ChromeBuilder::categoryOf(StringId category) {
  if (category >= categories_.size()) categories_.resize(category + 64, -1);
  std::int8_t& known = categories_[category];
  if (known >= 0) return static_cast<Category>(known);
  const std::string_view name = trace_.strings.text(category);
  Category found = Category::kOther;
  if (endsWith(name, "_runtime") || endsWith(name, "_driver")) found = Category::kRuntime;  // of other devices
  for (int c = 0; c < kCategories; ++c)
    if (nameOf(static_cast<Category>(c)) == name) found = static_cast<Category>(c);
  for (const auto& [text, value] : kCategoryNames)
    if (text == name) found = value;
  known = static_cast<std::int8_t>(found);
  return found;
}

std::int64_t ChromeBuilder::numberOf(std::int64_t number, std::string_view text) {
  if (number != kUnknown || text.data() == nullptr) return number;
  const std::int64_t stands_for = kFirstText + trace_.strings.intern(text);
  texts_.emplace(stands_for, text);
  return stands_for;
}

TrackIndex ChromeBuilder::threadOf(const ChromeEvent& event) {
  const std::int64_t pid = numberOf(event.pid, event.pid_text), tid = numberOf(event.tid, event.tid_text);
  CachedTrack& cached = tracks_[(static_cast<std::uint64_t>(pid) * 31 + static_cast<std::uint64_t>(tid)) % kTracks];
  if (!cached.known || cached.stream || cached.a != pid || cached.b != tid)
    cached = {.a = pid, .b = tid, .stream = false, .known = true, .track = trace_.thread(rankOf(event), pid, tid)};
  return cached.track;
}

/// Of an own export the process says it; any other file is one rank's.
std::int32_t ChromeBuilder::rankOf(const ChromeEvent& event) const {
  if (!own_) return 0;
  const auto it = rank_of_process_.find(event.pid);
  return it == rank_of_process_.end() ? 0 : it->second;
}

/// "rank 3 on host", "process 0": as the export names them, in front of all events.
void ChromeBuilder::addRank(std::int64_t pid, const std::string& name) {
  if (name == "all ranks") {
    not_a_rank_ = pid;
    return;
  }
  const auto [it, fresh] = rank_of_process_.try_emplace(pid, static_cast<std::int32_t>(rank_of_process_.size()));
  if (!fresh) return;
  if (static_cast<std::size_t>(it->second) == trace_.ranks.size()) {
    trace_.ranks.emplace_back();
    trace_.ranks.back().file = trace_.ranks[0].file;
  }
  Rank& rank = trace_.ranks[static_cast<std::size_t>(it->second)];
  if (const auto on = name.find(" on "); on != std::string::npos) rank.host = name.substr(on + 4);
  std::int64_t number = 0;
  const std::string digits = name.substr(0, name.find(" on "));
  if (name.starts_with("rank ") && parseScaled(std::string_view(digits).substr(5), 0, &number) == Parsed::kOk) rank.number = number;
}

TrackIndex ChromeBuilder::streamOf(std::int32_t rank, std::int64_t device, std::int64_t context, std::int64_t stream) {
  CachedTrack& cached = tracks_[(static_cast<std::uint64_t>(device) * 31 + static_cast<std::uint64_t>(stream) * 7 + static_cast<std::uint64_t>(context) + static_cast<std::uint64_t>(rank) * 61 + 128) % kTracks];
  if (!cached.known || !cached.stream || cached.a != device || cached.b != context || cached.c != stream || cached.rank != rank)
    cached = {.a = device, .b = context, .c = stream, .rank = rank, .stream = true, .known = true, .track = trace_.stream(rank, device, context, stream)};
  return cached.track;
}

void ChromeBuilder::add(const ChromeEvent& event) {
  if (event.bad_numbers != 0 && event.phase != 'C') trace_.problems.count(Problem::kBadNumber, where(event), event.bad_numbers);
  if (event.phase == 'M') return addMetadata(event);
  if (event.ts_state == Parsed::kOutOfRange || event.dur_state == Parsed::kOutOfRange || event.ts <= -(std::int64_t{1} << 62) ||
      event.ts >= std::int64_t{1} << 62 || event.dur >= std::int64_t{1} << 61 || event.dur <= -(std::int64_t{1} << 61)) {
    // Half of what 64 bits hold: the base is added later.
    return trace_.problems.count(Problem::kOutOfRange, where(event));
  }
  if (event.phase == 0 || event.ts_state != Parsed::kOk) return trace_.problems.count(Problem::kBadEvent, where(event));
  if (event.out_of_range != 0) trace_.problems.count(Problem::kBadNumber, where(event), event.out_of_range);
  switch (event.phase) {
    case 'X': return addComplete(event);
    case 'i': case 'I': case 'R': case 'n': return addInstant(event);
    case 's': case 't': case 'f': return addFlow(event);
    case 'B': case 'E': case 'b': case 'e': return addOpen(event);
    case 'C': return addCounters(event);
    default: return trace_.problems.count(Problem::kLostMetadata, where(event));  // snapshots, clock syncs ...
  }
}

Event ChromeBuilder::common(const ChromeEvent& event, Category category) {
  Event out;
  out.start = out.end = event.ts;
  out.correlation = event.correlation, out.external = event.external;
  out.name = intern(event.name, event.escapes);
  out.category = category;
  if (event.bytes >= 0) out.bytes = event.bytes;
  if (event.node >= 0) out.node = nodeOf(event);
  if (repaired_ || event.bad_numbers != 0) out.flags |= kRepaired;
  return out;
}

NodeIndex ChromeBuilder::nodeOf(const ChromeEvent& event) {
  const auto [it, fresh] = nodes_.try_emplace(event.node, static_cast<NodeIndex>(trace_.nodes.size()));
  if (fresh) {
    trace_.nodes.push_back(graphNode(event.text, trace_.strings));
    trace_.nodes.back().id = event.node;
  }
  return it->second;
}

void ChromeBuilder::addComplete(const ChromeEvent& event) {
  const StringId category_name = intern(event.category, event.escapes);
  const Category category = categoryOf(category_name);
  Event out = common(event, category);
  if (event.dur_state != Parsed::kOk) {  // how long is not known
    if (!counted_) trace_.problems.count(Problem::kBadNumber, where(event));
    out.flags |= kRepaired;
  } else if (event.dur < 0) {
    trace_.problems.count(Problem::kNegativeDuration, where(event));
    out.flags |= kRepaired;
  } else {
    out.end = event.ts + event.dur;
  }
  const std::int32_t number = rankOf(event);
  Rank& rank = trace_.ranks[static_cast<std::size_t>(number)];
  rank.fractional_us = rank.fractional_us || event.fractional;
  if (isDeviceWork(category)) {
    out.track = streamOf(number, event.device != kUnknown ? event.device : numberOf(event.pid, event.pid_text), event.context,
                         event.stream != kUnknown ? event.stream : numberOf(event.tid, event.tid_text));
  } else if (event.stream >= 0) {
    out.track = streamOf(number, event.device != kUnknown ? event.device : numberOf(event.pid, event.pid_text), event.context, event.stream);
  } else if (category != Category::kDeviceRange) {
    out.track = threadOf(event);
  }
  if (category == Category::kKernel) {
    const auto limited = [](std::int64_t value) { return value >= 0 && value <= INT32_MAX ? static_cast<std::int32_t>(value) : -1; };
    const Launch launch{.grid = event.grid, .block = event.block, .registers = limited(event.registers),
                        .graph_node = std::max(0, limited(event.graph_node)), .shared = limited(event.shared)};
    // Kernels are launched the same way again and again.
    if (trace_.launches.empty() || !(trace_.launches.back() == launch)) trace_.launches.push_back(launch);
    out.detail = static_cast<std::int32_t>(trace_.launches.size()) - 1;
  } else if (category == Category::kMemcpy || category == Category::kMemset) {
    const Copy copy = copyOfName(trace_.strings.text(out.name));
    if (trace_.copies.empty() || !(trace_.copies.back() == copy)) trace_.copies.push_back(copy);
    out.detail = static_cast<std::int32_t>(trace_.copies.size()) - 1;
  } else if (category == Category::kOperator || category == Category::kRuntime) {
    if (rank.pid == kUnknown) rank.pid = event.pid;
  } else if (event.category == "Trace" && event.pid_text == "Spans") {  // the profiler's own window
    if (rank.first_ns == kUnknown || out.start < rank.first_ns) rank.first_ns = out.start;
    rank.last_ns = rank.last_ns == kUnknown ? out.end : std::max(rank.last_ns, out.end);
  }
  const EventIndex index = trace_.add(out);
  if (category == Category::kDeviceRange && event.stream < 0)
    device_ranges_.push_back({index, {event.device != kUnknown ? event.device : event.pid, event.tid, number}});
  if (event.sequence != kUnknown) {
    if (sequenced_.size() <= static_cast<std::size_t>(index)) sequenced_.resize(static_cast<std::size_t>(index) + index / 2 + 1024);
    sequenced_[static_cast<std::size_t>(index)] = true;
  }
  noteCollective(event, category, out.name, index);
}

void ChromeBuilder::noteCollective(const ChromeEvent& event, Category category, StringId name, EventIndex index) {
  if (category != Category::kKernel && category != Category::kRange && category != Category::kOperator && category != Category::kCollective) return;
  if (name >= communication_.size()) communication_.resize(name + 1024, Communication::kUnasked);
  Communication& known = communication_[name];
  std::string_view backend;
  std::string kind;
  const std::string_view text = trace_.strings.text(name);
  if (known == Communication::kUnasked) {
    const bool is = category == Category::kKernel       ? isCommunicationName(text)
                    : category == Category::kCollective ? true
                                                        : text == "record_param_comms" || collectiveOfRange(text, &backend, &kind);
    known = is ? Communication::kYes : Communication::kNo;
  }
  if (known != Communication::kYes) return;
  FoundCollective found{index, collectiveFacts(event.text, where(event), trace_.problems)};
  CollectiveFacts& facts = found.facts;
  if (category == Category::kKernel) {
    if (facts.kind.empty()) facts.kind = collectiveOfKernel(text);
    return collectives_.push_back(std::move(found));
  }
  const bool range = collectiveOfRange(text, &backend, &kind);
  if (facts.kind.empty()) facts.kind = kind;
  // Gloo, MPI and UCC run where the range is; NCCL's range only launches a kernel.
  if (category == Category::kCollective || (range && backend != "nccl" && backend != "xccl" && backend != "hccl")) {
    trace_.events.category[static_cast<std::size_t>(index)] = Category::kCollective;
    collectives_.push_back(std::move(found));
  } else {
    ranges_.push_back(std::move(found));
  }
}

void ChromeBuilder::addInstant(const ChromeEvent& event) {
  if (event.name == "[memory]") return addMemory(event);
  Event out = common(event, Category::kInstant);
  out.track = threadOf(event);
  trace_.add(out);
  Rank& rank = trace_.ranks[static_cast<std::size_t>(rankOf(event))];
  if (event.name == "Record Window End") rank.last_ns = std::max(rank.last_ns, event.ts);
}

void ChromeBuilder::addMemory(const ChromeEvent& event) {
  if (event.bytes == kUnknown) return trace_.problems.count(Problem::kBadEvent, where(event));
  const bool device = event.device_type != 0 && event.device_id >= 0 && event.device_id <= INT32_MAX;
  trace_.memory.push_back({.time = event.ts, .bytes = event.bytes, .address = event.address, .live = event.allocated,
                           .reserved = event.reserved, .node = event.node >= 0 ? nodeOf(event) : kNoIndex, .rank = rankOf(event), .device = device ? static_cast<std::int32_t>(event.device_id) : -1});
}

void ChromeBuilder::addOpen(const ChromeEvent& event) {
  const bool async = event.phase == 'b' || event.phase == 'e';
  const StringId category_name = intern(event.category, event.escapes);
  std::vector<EventIndex>& stack = async ? open_async_[{category_name, numberOf(event.id, event.id_text)}] : open_[threadOf(event)];
  if (event.phase == 'B' || event.phase == 'b') {
    Event out = common(event, categoryOf(category_name));
    out.track = threadOf(event);
    if (isDeviceWork(out.category)) out.track = streamOf(rankOf(event), event.device != kUnknown ? event.device : event.pid, event.context, event.stream != kUnknown ? event.stream : event.tid);
    stack.push_back(trace_.add(out));
    return;
  }
  if (stack.empty()) return trace_.problems.count(Problem::kBadEvent, where(event));
  const auto begun = static_cast<std::size_t>(stack.back());
  stack.pop_back();
  if (event.ts < trace_.events.start[begun]) {
    trace_.problems.count(Problem::kNegativeDuration, where(event));
    trace_.events.flags[begun] |= kRepaired;
  } else {
    trace_.events.end[begun] = event.ts;
  }
}

void ChromeBuilder::addFlow(const ChromeEvent& event) {
  // Launch and work are linked by their correlation ids; these arrows say the same once more, and not always.
  if (event.category == "ac2g" || event.category == "async_cpu_to_gpu" || event.category == "async_gpu" || event.name == "ac2g") return;
  const std::int64_t id = numberOf(event.id, event.id_text);
  if (id == kUnknown) return trace_.problems.count(Problem::kBadEvent, where(event));
  // Sorted by the name of the kind: arrows of one kind bear one category.
  flows_.push_back({.id = id, .time = event.ts, .track = threadOf(event), .kind = intern(event.category.empty() ? event.name : event.category, event.escapes), .phase = event.phase});
}

void ChromeBuilder::addMetadata(const ChromeEvent& event) {
  const std::int64_t pid = numberOf(event.pid, event.pid_text), tid = numberOf(event.tid, event.tid_text);
  if (own_ && event.name == "process_name") addRank(pid, metadataArgument(event.text));
  else if (event.name == "thread_name") thread_names_[{pid, tid}] = metadataArgument(event.text);
  else if (event.name == "process_name") process_names_[pid] = metadataArgument(event.text);
  else if (event.name == "process_labels") process_labels_[pid] = metadataArgument(event.text);
}

void ChromeBuilder::addCounters(const ChromeEvent& event) {
  if (own_ && event.pid == not_a_rank_) return;  // counted anew from the ranks
  std::string name;
  if (!unescape(event.name, &name)) name = event.name;
  for (const auto& [series, value] : counterValues(event.text, where(event), trace_.problems))
    trace_.counters.push_back({.time = event.ts, .value = value, .name = trace_.strings.intern(series == name || series == "value" ? name : name + " " + series), .rank = rankOf(event)});
}

}  // namespace spscope::trace
