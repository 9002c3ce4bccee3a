// SPDX-License-Identifier: Apache-2.0
#include "profiler/export/chrome.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <unordered_map>

#include "core/base/json_text.h"
#include "core/base/strings.h"
#include "profiler/export/busy.h"
#include "profiler/export/text_file.h"
#include "profiler/store/nsight_ids.h"
#include "profiler/trace/lanes.h"

namespace spscope::trace {
namespace {

constexpr std::size_t kProgressStep = 1 << 15;

std::string_view categoryName(Category category, std::string_view name) {
  switch (category) {
    case Category::kOperator: return "cpu_op";
    case Category::kRange: return "user_annotation";
    case Category::kDeviceRange: return "gpu_user_annotation";
    case Category::kPython: return "python_function";
    case Category::kRuntime: return isDriverCall(name) ? "cuda_driver" : "cuda_runtime";
    case Category::kSynchronize: return "cuda_sync";
    case Category::kKernel: return "kernel";
    case Category::kMemcpy: return "gpu_memcpy";
    case Category::kMemset: return "gpu_memset";
    case Category::kCollective: return "collective_comm";
    case Category::kWait: return "wait";
    case Category::kOverhead: return "overhead";
    case Category::kInstant: return "cpu_instant_event";
    case Category::kOther: return "Trace";  // what tools leave out of every sum
  }
  return "Trace";
}

class Writer {
 public:
  Writer(TextFile& out, const Trace& trace, const ChromeOptions& options) : out_(out), text_(out.buffer()), trace_(trace), options_(options), tids_(trace.tracks.size()) {}

  Result<Problems> write() {
    prepare();
    header();
    processes();
    SP_TRY(events());
    SP_TRY(memory());
    SP_TRY(counters());
    text_ += "\n]}\n";
    SP_TRY(out_.flush());
    return problems_;
  }

 private:
  bool shown(std::int32_t rank) const { return !options_.rank || *options_.rank == rank; }
  std::int32_t rankOf(std::size_t event) const { return trace_.tracks[static_cast<std::size_t>(trace_.events.track[event])].rank; }

  void prepare() {
    order_ = eventsByStart(trace_);
    std::erase_if(order_, [&](EventIndex e) { return !shown(rankOf(static_cast<std::size_t>(e))); });
    position_.resize(trace_.events.size());
    for (std::size_t i = 0; i < order_.size(); ++i) position_[static_cast<std::size_t>(order_[i])] = i;
    std::vector<EventIndex> slices;
    for (const EventIndex e : order_)
      if (trace_.events.category[static_cast<std::size_t>(e)] != Category::kInstant) slices.push_back(e);
    const std::vector<LanePlace> lanes = lanesOf(trace_, slices);
    lane_.resize(trace_.events.size());
    lanes_.resize(trace_.tracks.size(), 1);
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const auto event = static_cast<std::size_t>(slices[i]);
      lane_[event] = lanes[i].lane;
      if (lanes[i].split) problems_.count(Problem::kOverlapSplit, strf("event %zu", event));
      std::int32_t& most = lanes_[static_cast<std::size_t>(trace_.events.track[event])];
      most = std::max(most, lanes[i].lane + 1);
    }
    std::int64_t first = order_.empty() ? std::numeric_limits<std::int64_t>::max() : trace_.events.start[static_cast<std::size_t>(order_[0])];
    for (const MemoryEvent& m : trace_.memory) first = std::min(first, m.time);
    for (const CounterSample& c : trace_.counters) first = std::min(first, c.time);
    if (first == std::numeric_limits<std::int64_t>::max()) first = 0;
    // Decimals of a microsecond stay what they were in the file that the trace came from: some tools round them.
    const auto rank = static_cast<std::size_t>(options_.rank.value_or(0));
    const std::int64_t source = rank < trace_.ranks.size() ? trace_.ranks[rank].base_ns : 0;
    base_ = first - ((first - source % 1000) % 1000 + 1000) % 1000;

    names_.resize(trace_.strings.size());
    for (std::size_t i = 0; i < names_.size(); ++i) names_[i] = jsonQuoted(trace_.strings.text(static_cast<StringId>(i)));
    for (std::size_t i = 0; i < trace_.collectives.size(); ++i)
      for (const EventIndex e : {trace_.collectives[i].event, trace_.collectives[i].wait})
        if (e != kNoIndex) collective_.emplace(e, i);
    findArrows();
  }

  /// Launch to device work by correlation id, never by time; and the trace's own arrows. An arrow cannot point back in
  /// time: where clocks disagree, it ends later within its target, or is left out. Viewers bind its ends to what is open at
  /// their times, so marks and events of no length have none.
  void findArrows() {
    std::map<std::pair<std::int32_t, std::int64_t>, EventIndex> launches;
    for (const EventIndex e : order_) {
      const auto i = static_cast<std::size_t>(e);
      if (trace_.events.category[i] == Category::kRuntime && trace_.events.correlation[i] != 0) launches.emplace(std::pair(rankOf(i), trace_.events.correlation[i]), e);
    }
    for (const EventIndex e : order_) {
      const auto i = static_cast<std::size_t>(e);
      if (!isDeviceWork(trace_.events.category[i]) || trace_.events.correlation[i] == 0) continue;
      const auto launch = launches.find({rankOf(i), trace_.events.correlation[i]});
      if (launch != launches.end()) arrow(launch->second, e, "\"ac2g\"");
    }
    for (const Flow& f : trace_.flows) {
      if (f.from == kNoIndex || f.to == kNoIndex || f.from == f.to || !shown(rankOf(static_cast<std::size_t>(f.from))) || !shown(rankOf(static_cast<std::size_t>(f.to)))) continue;
      arrow(f.from, f.to, f.kind == 0 ? std::string_view("\"flow\"") : names_[f.kind]);
    }
  }

  struct Arrow {
    std::int64_t id;  // counted from 1: ids of the source may be beyond what readers keep
    std::int64_t time;
    EventIndex event;  // whose track it is on
    bool begins;
    std::string_view kind;
  };
  void arrow(EventIndex from, EventIndex to, std::string_view kind) {
    const auto f = static_cast<std::size_t>(from), t = static_cast<std::size_t>(to);
    const std::int64_t start = trace_.events.start[f], end = std::max(trace_.events.start[t], start);
    if (trace_.events.category[f] == Category::kInstant || trace_.events.category[t] == Category::kInstant || start == trace_.events.end[f] ||
        end >= trace_.events.end[t])
      return problems_.count(Problem::kLostMetadata, strf("arrow to event %zu", t));
    const std::int64_t id = ++arrow_count_;
    arrows_[from].push_back({id, start, from, true, kind});
    // Readers sort by time and keep the order of the file where times are equal: the end never stands before the beginning.
    arrows_[position_[t] > position_[f] ? to : from].push_back({id, end, to, false, kind});
  }

  void header() {
    text_ += "{\n\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":" + std::to_string(base_);
    const std::size_t shown_ranks = options_.rank ? 1 : trace_.ranks.size();
    const auto rank = static_cast<std::size_t>(options_.rank.value_or(0));
    if (shown_ranks == 1 && rank < trace_.ranks.size()) {
      const Rank& r = trace_.ranks[rank];
      if (r.number != kUnknown) {
        text_ += ",\n\"distributedInfo\":{\"backend\":" + jsonQuoted(r.backend) + ",\"rank\":" + std::to_string(r.number);
        if (r.world != kUnknown) text_ += ",\"world_size\":" + std::to_string(r.world);
        text_ += "}";
      }
      if (!r.host.empty()) text_ += ",\n\"host_name\":" + jsonQuoted(r.host);
    }
    std::map<std::int64_t, std::string> devices;
    for (const Track& t : trace_.tracks)
      if (shown(t.rank) && t.device != kUnknown) {
        const auto name = trace_.properties.find(strf("device.%lld.name", static_cast<long long>(t.device)));
        devices[t.device] = name == trace_.properties.end() ? "" : name->second;
      }
    text_ += ",\n\"deviceProperties\":[";
    const char* between = "";
    for (const auto& [id, name] : devices) {
      text_ += std::exchange(between, ",") + strf("{\"id\":%lld", static_cast<long long>(id)) + (name.empty() ? std::string() : ",\"name\":" + jsonQuoted(name)) + "}";
    }
    text_ += "],\n\"spscope\":{";
    between = "";
    for (const auto& [name, value] : trace_.properties) text_ += std::exchange(between, ",") + jsonQuoted(name) + ":" + jsonQuoted(value);
    text_ += "},\n\"traceEvents\":[\n";
  }

  void begin(const char* phase, std::int32_t rank, std::int64_t tid) {
    if (!first_) text_ += ",\n";
    first_ = false;
    text_ += "{\"ph\":\"";
    text_ += phase;
    text_ += "\",\"pid\":";
    number(rank + 1);
    text_ += ",\"tid\":";
    number(tid);
  }
  void number(std::int64_t value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    text_.append(digits, end);
  }
  /// Nanoseconds as microseconds: 12, 12.345.
  void microseconds(std::int64_t ns) {
    if (ns < 0) text_ += '-';
    const auto value = ns < 0 ? ~static_cast<std::uint64_t>(ns) + 1 : static_cast<std::uint64_t>(ns);
    number(static_cast<std::int64_t>(value / 1000));
    if (const auto rest = static_cast<unsigned>(value % 1000)) {
      const char decimals[] = {'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10), static_cast<char>('0' + rest % 10)};
      text_.append(decimals, sizeof decimals);
    }
  }
  void time(std::int64_t ns) {
    text_ += ",\"ts\":";
    microseconds(ns - base_);
  }
  void named(const char* what, std::int32_t rank, std::int64_t tid, const std::string& name) {
    begin("M", rank, tid);
    text_ += std::string(",\"name\":\"") + what + "\",\"args\":{\"name\":" + jsonQuoted(name) + "}}";
  }
  void sorted(const char* what, std::int32_t rank, std::int64_t tid, std::int64_t index) {
    begin("M", rank, tid);
    text_ += std::string(",\"name\":\"") + what + "\",\"args\":{\"sort_index\":" + std::to_string(index) + "}}";
  }

  /// Thread numbers are given out anew, from behind the ranks' numbers: no two tracks share one, and none is its
  /// process's number (which viewers would call the main thread).
  void processes() {
    next_tid_ = static_cast<std::int64_t>(trace_.ranks.size()) + 2;
    for (std::size_t r = 0; r < trace_.ranks.size(); ++r) {
      const auto rank = static_cast<std::int32_t>(r);
      if (!shown(rank)) continue;
      const Rank& info = trace_.ranks[r];
      const std::string name = info.number == kUnknown ? strf("process %zu", r) : "rank " + std::to_string(info.number);
      named("process_name", rank, 0, name + (info.host.empty() ? "" : " on " + info.host));
      sorted("process_sort_index", rank, 0, info.number == kUnknown ? static_cast<std::int64_t>(r) : info.number);
      std::int64_t index = 0;
      for (const TrackKind kind : {TrackKind::kThread, TrackKind::kStream, TrackKind::kOther})
        for (std::size_t i = 0; i < trace_.tracks.size(); ++i)
          if (trace_.tracks[i].rank == rank && trace_.tracks[i].kind == kind) {
            tids_[i] = next_tid_;
            for (std::int32_t lane = 0; lane < lanes_[i]; ++lane) {
              named("thread_name", rank, next_tid_, trackName(trace_.tracks[i]) + (lane == 0 ? "" : strf(" (lane %d)", lane + 1)));
              sorted("thread_sort_index", rank, next_tid_++, index++);
            }
          }
    }
  }

  std::string trackName(const Track& t) const {
    const std::string name(trace_.strings.text(t.name));
    if (t.kind == TrackKind::kStream) {
      std::string out = t.device == kUnknown ? "GPU" : "GPU " + std::to_string(t.device);
      if (t.stream != kUnknown) out += " stream " + std::to_string(t.stream);
      return name.empty() ? out : out + " " + name;
    }
    if (!name.empty()) return name;
    return t.tid == kUnknown ? "track" : "thread " + std::to_string(t.tid);
  }

  Status events() {
    for (std::size_t n = 0; n < order_.size(); ++n) {
      if (n % kProgressStep == 0) {
        SP_TRY(options_.cancel.check());
        if (options_.progress) options_.progress({"writing the events", static_cast<std::int64_t>(n), static_cast<std::int64_t>(order_.size())});
      }
      event(order_[n]);
      SP_TRY(out_.flush());
    }
    return {};
  }

  void event(EventIndex index) {
    const auto i = static_cast<std::size_t>(index);
    const Event e = trace_.event(index);
    const Track& track = trace_.tracks[static_cast<std::size_t>(e.track)];
    const std::int64_t tid = tids_[static_cast<std::size_t>(e.track)] + lane_[i];
    const bool instant = e.category == Category::kInstant;
    begin(instant ? "i" : "X", track.rank, tid);
    text_ += ",\"cat\":\"";
    text_ += categoryName(e.category, trace_.strings.text(e.name));
    text_ += "\",\"name\":";
    text_ += names_[e.name];
    time(e.start);
    if (instant) text_ += ",\"s\":\"t\"";
    else text_ += ",\"dur\":", microseconds(e.end - e.start);
    text_ += ",\"args\":{";
    between_ = "";
    if (e.external != 0) field("External id", e.external);
    if (e.correlation != 0) field("correlation", e.correlation);
    if (isDeviceWork(e.category) || e.category == Category::kDeviceRange || e.category == Category::kSynchronize) {
      if (track.device != kUnknown) field("device", track.device);
      if (track.context != kUnknown) field("context", track.context);
      if (track.stream != kUnknown) field("stream", track.stream);
    }
    if (e.bytes != kUnknown) field("bytes", e.bytes);
    if (e.category == Category::kKernel && e.detail >= 0) launch(trace_.launches[static_cast<std::size_t>(e.detail)]);
    if (e.node != kNoIndex) node(trace_.nodes[static_cast<std::size_t>(e.node)]);
    if (const auto c = collective_.find(index); c != collective_.end()) collective(trace_.collectives[c->second]);
    if (e.flags & kImpossible) text("remark", "\"impossible duration\"");
    text_ += "}}";
    if (const auto found = arrows_.find(index); found != arrows_.end())
      for (const Arrow& a : found->second) {
        const auto on = static_cast<std::size_t>(a.event), its_track = static_cast<std::size_t>(trace_.events.track[on]);
        begin(a.begins ? "s" : "f", trace_.tracks[its_track].rank, tids_[its_track] + lane_[on]);
        text_ += ",\"id\":";
        number(a.id);
        text_ += ",\"cat\":";
        text_ += a.kind;
        text_ += ",\"name\":";
        text_ += a.kind;
        time(a.time);
        text_ += a.begins ? "}" : ",\"bp\":\"e\"}";
      }
  }

  void key(std::string_view name) {
    text_ += std::exchange(between_, ",");
    text_ += '"';
    text_ += name;
    text_ += "\":";
  }
  void field(std::string_view name, std::int64_t value) {
    key(name);
    number(value);
  }
  void text(std::string_view name, std::string_view quoted) {
    key(name);
    text_ += quoted;
  }

  void launch(const Launch& l) {
    if (l.registers >= 0) field("registers per thread", l.registers);
    const std::int64_t shared = l.shared >= 0 ? l.shared : l.static_shared >= 0 && l.dynamic_shared >= 0 ? std::int64_t{l.static_shared} + l.dynamic_shared : -1;
    if (shared >= 0) field("shared memory", shared);
    for (const auto& [name, size] : {std::pair("grid", &l.grid), std::pair("block", &l.block)}) {
      key(name);
      text_ += strf("[%d,%d,%d]", (*size)[0], (*size)[1], (*size)[2]);
    }
    if (l.graph_node != 0) field("graph node id", l.graph_node);
  }

  void node(const GraphNode& n) {
    if (n.id != kUnknown) field("node", n.id);
    for (const auto& [name, id] : {std::pair("node name", n.name), std::pair("op", n.op), std::pair("module", n.module), std::pair("source", n.source), std::pair("stage", n.stage)})
      if (id != 0) text(name, names_[id]);
    if (n.phase != Phase::kUnknownPhase) text("phase", jsonQuoted(nameOf(n.phase)));
  }

  void collective(const Collective& c) {
    if (c.kind != 0) text("Collective name", names_[c.kind]);
    if (c.group != 0) text("Process Group Name", names_[c.group]);
    if (c.sequence != kUnknown) field("Seq", c.sequence);
    if (c.group_size != kUnknown) field(c.group_size_at_least ? "Group size at least" : "Group size", c.group_size);
    if (c.bytes == kUnknown) return;
    field("In msg nelems", c.bytes);  // Kineto counts elements
    text("dtype", "\"Byte\"");
  }

  /// Kineto's "[memory]" marks on a track of their own, and curves for viewers.
  Status memory() {
    std::vector<std::int32_t> order(trace_.memory.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return trace_.memory[static_cast<std::size_t>(a)].time < trace_.memory[static_cast<std::size_t>(b)].time; });
    std::map<std::int32_t, std::int64_t> tids;
    std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> live;
    for (const std::int32_t n : order) {
      const MemoryEvent& m = trace_.memory[static_cast<std::size_t>(n)];
      if (!shown(m.rank)) continue;
      const auto [track, fresh] = tids.try_emplace(m.rank, next_tid_);
      if (fresh) named("thread_name", m.rank, next_tid_++, "memory");
      std::int64_t& now = live[{m.rank, m.device}];
      now = m.live != kUnknown ? m.live : m.bytes != kUnknown ? now + m.bytes : now;
      begin("i", m.rank, track->second);
      text_ += ",\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":\"[memory]\"";
      time(m.time);
      text_ += ",\"args\":{";
      between_ = "";
      if (m.address != kUnknown) field("Addr", m.address);
      if (m.bytes != kUnknown) field("Bytes", m.bytes);
      if (m.live != kUnknown) field("Total Allocated", m.live);
      if (m.reserved != kUnknown) field("Total Reserved", m.reserved);
      field("Device Type", m.device >= 0);
      field("Device Id", m.device);
      if (m.memory_class != 0) text("class", names_[m.memory_class]);
      if (m.node != kNoIndex) node(trace_.nodes[static_cast<std::size_t>(m.node)]);
      text_ += "}}";
      begin("C", m.rank, 0);
      text_ += m.device < 0 ? ",\"name\":\"memory, host\"" : strf(",\"name\":\"memory, GPU %d\"", m.device);
      time(m.time);
      text_ += ",\"args\":{\"bytes\":";
      number(now);
      text_ += "}}";
      SP_TRY(out_.flush());
    }
    return {};
  }

  Status counters() {
    for (const CounterSample& c : trace_.counters) {
      if (!shown(c.rank)) continue;
      if (!std::isfinite(c.value)) {
        problems_.count(Problem::kBadNumber, "counter " + std::string(trace_.strings.text(c.name)));
        continue;
      }
      begin("C", c.rank, 0);
      text_ += ",\"name\":" + names_[c.name];
      time(c.time);
      text_ += ",\"args\":{\"value\":" + formatDouble(c.value) + "}}";
      SP_TRY(out_.flush());
    }
    const std::vector<BusyStep> steps = options_.rank ? std::vector<BusyStep>() : busyRanks(trace_);
    if (steps.empty()) return {};
    const auto all = static_cast<std::int32_t>(trace_.ranks.size());
    named("process_name", all, 0, "all ranks");
    sorted("process_sort_index", all, 0, -1);
    for (const BusyStep& s : steps) {
      begin("C", all, 0);
      text_ += ",\"name\":\"busy ranks\"";
      time(s.time);
      text_ += ",\"args\":{\"ranks\":";
      number(s.ranks);
      text_ += "}}";
      SP_TRY(out_.flush());
    }
    return {};
  }

  TextFile& out_;
  std::string& text_;
  const Trace& trace_;
  const ChromeOptions& options_;
  Problems problems_;
  std::vector<EventIndex> order_;
  std::vector<std::size_t> position_;       // of each event in order_
  std::vector<std::int32_t> lane_, lanes_;  // of each event; how many each track has
  std::vector<std::int64_t> tids_;          // of each track's first lane
  std::vector<std::string> names_;          // quoted
  std::unordered_map<EventIndex, std::size_t> collective_;
  std::unordered_map<EventIndex, std::vector<Arrow>> arrows_;
  std::int64_t base_ = 0, next_tid_ = 0, arrow_count_ = 0;
  const char* between_ = "";
  bool first_ = true;
};

}  // namespace

Result<Problems> writeChrome(const Trace& trace, const std::string& path, const ChromeOptions& options) {
  SP_ASSIGN(TextFile out, TextFile::create(path));
  SP_ASSIGN(Problems problems, Writer(out, trace, options).write());
  SP_TRY(out.close());
  return problems;
}

}  // namespace spscope::trace
