// SPDX-License-Identifier: Apache-2.0
#include "profiler/export/csv.h"

#include <charconv>
#include <filesystem>
#include <map>
#include <vector>

#include "core/base/strings.h"
#include "profiler/analyze/memory.h"
#include "profiler/analyze/nodes.h"
#include "profiler/export/text_file.h"

namespace spscope::trace {
namespace {

constexpr std::size_t kProgressStep = 1 << 15;

/// One table.
class Table {
 public:
  static Result<Table> create(const std::string& folder, const char* name, std::initializer_list<const char*> header) {
    SP_ASSIGN(TextFile file, TextFile::create(folder + "/" + name));
    Table out(std::move(file));
    for (const char* column : header) out.text(column);
    SP_TRY(out.endRow());
    return out;
  }
  /// Nothing for kUnknown.
  Table& number(std::int64_t value) {
    separate();
    if (value == kUnknown) return *this;
    char digits[24];
    file_.buffer().append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
    return *this;
  }
  Table& text(std::string_view value) {
    separate();
    if (value.find_first_of(",\"\r\n") == std::string_view::npos) {
      file_.buffer() += value;
      return *this;
    }
    std::string& out = file_.buffer();
    out += '"';
    for (const char c : value) {
      if (c == '"') out += '"';
      out += c;
    }
    out += '"';
    return *this;
  }
  Status endRow() {
    file_.buffer() += '\n';
    first_ = true;
    return file_.flush();
  }
  Result<NewFile> finish() { return file_.finish(); }

 private:
  explicit Table(TextFile file) : file_(std::move(file)) {}
  void separate() {
    if (!first_) file_.buffer() += ',';
    first_ = false;
  }
  TextFile file_;
  bool first_ = true;
};

class Writer {
 public:
  Writer(const Trace& trace, const std::string& folder, const ProgressFn& progress, const CancelToken& cancel) : trace_(trace), folder_(folder), progress_(progress), cancel_(cancel) {}

  Status write() {
    SP_TRY(ranks());
    SP_TRY(events());
    SP_TRY(collectives());
    SP_TRY(memory());
    SP_TRY(nodes());
    SP_TRY(properties());
    SP_TRY(problems());
    // All of them or none: a disk that was full leaves no half of an export.
    for (NewFile& file : written_) SP_TRY(file.commit());
    return {};
  }

 private:
  Status done(Table table) {
    SP_ASSIGN(NewFile file, table.finish());
    written_.push_back(std::move(file));
    return {};
  }
  std::string_view text(StringId id) const { return trace_.strings.text(id); }
  /// The rank's number; its place among the files where they do not say.
  std::int64_t rank(std::int32_t index) const {
    const auto i = static_cast<std::size_t>(index);
    return i >= trace_.ranks.size() || trace_.ranks[i].number == kUnknown ? index : trace_.ranks[i].number;
  }
  std::int64_t nodeId(NodeIndex index) const { return index == kNoIndex ? kUnknown : trace_.nodes[static_cast<std::size_t>(index)].id; }
  std::string_view nodeName(NodeIndex index) const { return index == kNoIndex ? std::string_view() : text(trace_.nodes[static_cast<std::size_t>(index)].name); }

  Status ranks() {
    SP_ASSIGN(Table t, Table::create(folder_, "ranks.csv", {"rank", "world", "file", "host", "backend", "pid", "first_ns", "last_ns", "dropped", "clock", "clock_offset_ns", "clock_drift_ppb", "clock_residual_ns"}));
    for (std::size_t i = 0; i < trace_.ranks.size(); ++i) {
      const Rank& r = trace_.ranks[i];
      t.number(rank(static_cast<std::int32_t>(i))).number(r.world).text(r.file).text(r.host).text(r.backend).number(r.pid).number(r.first_ns).number(r.last_ns);
      t.number(r.dropped).text(r.clock.method).number(r.clock.offset_ns).text(formatDouble(r.clock.drift_ppb)).number(r.clock.residual_ns);
      SP_TRY(t.endRow());
    }
    return done(std::move(t));
  }

  Status events() {
    SP_ASSIGN(Table t, Table::create(folder_, "events.csv", {"event", "rank", "category", "name", "start_ns", "end_ns", "duration_ns", "pid", "tid", "device", "context", "stream", "correlation", "external",
                                                            "bytes", "node", "node_name", "registers", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "repaired", "open_ended", "impossible"}));
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      if (i % kProgressStep == 0) {
        SP_TRY(cancel_.check());
        if (progress_) progress_({"writing the tables", static_cast<std::int64_t>(i), static_cast<std::int64_t>(trace_.events.size())});
      }
      const Event e = trace_.event(static_cast<EventIndex>(i));
      const Track& track = trace_.tracks[static_cast<std::size_t>(e.track)];
      t.number(static_cast<std::int64_t>(i)).number(rank(track.rank)).text(nameOf(e.category)).text(text(e.name)).number(e.start).number(e.end).number(e.end - e.start);
      t.number(track.pid).number(track.tid).number(track.device).number(track.context).number(track.stream);
      t.number(e.correlation == 0 ? kUnknown : e.correlation).number(e.external == 0 ? kUnknown : e.external).number(e.bytes).number(nodeId(e.node)).text(nodeName(e.node));
      const bool launched = e.category == Category::kKernel && e.detail != kNoIndex;
      const Launch launch = launched ? trace_.launches[static_cast<std::size_t>(e.detail)] : Launch();
      t.number(launch.registers < 0 ? kUnknown : launch.registers);
      for (const auto& size : {launch.grid, launch.block})
        for (const std::int32_t v : size) t.number(launched ? v : kUnknown);
      for (const std::uint8_t flag : {kRepaired, kOpenEnded, kImpossible}) t.number((e.flags & flag) != 0);
      SP_TRY(t.endRow());
    }
    return done(std::move(t));
  }

  Status collectives() {
    SP_ASSIGN(Table t, Table::create(folder_, "collectives.csv", {"kind", "group", "sequence", "rank", "group_size", "group_size_at_least", "bytes", "event", "start_ns", "end_ns", "wait_event", "wait_ns"}));
    for (const Collective& c : trace_.collectives) {
      t.text(text(c.kind)).text(text(c.group)).number(c.sequence).number(rank(c.rank)).number(c.group_size).number(c.group_size_at_least).number(c.bytes);
      const auto event = static_cast<std::size_t>(c.event), wait = static_cast<std::size_t>(c.wait);
      const bool has_event = c.event != kNoIndex, has_wait = c.wait != kNoIndex;
      t.number(has_event ? c.event : kUnknown).number(has_event ? trace_.events.start[event] : kUnknown).number(has_event ? trace_.events.end[event] : kUnknown);
      t.number(has_wait ? c.wait : kUnknown).number(has_wait ? trace_.events.end[wait] - trace_.events.start[wait] : kUnknown);
      SP_TRY(t.endRow());
    }
    return done(std::move(t));
  }

  Status memory() {
    SP_ASSIGN(Table t, Table::create(folder_, "memory.csv", {"time_ns", "rank", "device", "allocated_bytes", "freed_bytes", "address", "live_bytes", "reserved_bytes", "class", "node", "node_name"}));
    for (const MemoryEvent& m : trace_.memory) {
      t.number(m.time).number(rank(m.rank)).number(m.device < 0 ? kUnknown : m.device).number(m.bytes > 0 ? m.bytes : kUnknown).number(m.bytes == kUnknown || m.bytes > 0 ? kUnknown : -m.bytes);
      t.number(m.address).number(m.live).number(m.reserved).text(text(m.memory_class)).number(nodeId(m.node)).text(nodeName(m.node));
      SP_TRY(t.endRow());
    }
    return done(std::move(t));
  }

  /// Allocated, freed and net stand apart: nobody should read frees as negative use.
  Status nodes() {
    SP_ASSIGN(Table t, Table::create(folder_, "nodes.csv", {"node", "name", "op", "module", "source", "stage", "phase", "flops", "predicted_ns", "count", "total_ns", "device_ns", "host_ns", "communication_ns", "wait_ns",
                                                           "moved_bytes", "allocated_bytes", "freed_bytes", "net_bytes"}));
    std::map<NodeIndex, NodeTime> times;
    for (const NodeTime& n : timeByNode(trace_, classifyWork(trace_)))
      if (n.node != kNoIndex) times[n.node] = n;
    std::map<NodeIndex, NodeMemory> bytes;
    for (const NodeMemory& n : memoryByNode(trace_)) bytes[n.node] = n;
    for (std::size_t i = 0; i < trace_.nodes.size(); ++i) {
      const GraphNode& n = trace_.nodes[i];
      t.number(n.id).text(text(n.name)).text(text(n.op)).text(text(n.module)).text(text(n.source)).text(text(n.stage)).text(nameOf(n.phase)).number(n.flops).number(n.predicted_ns);
      const auto time = times.find(static_cast<NodeIndex>(i));
      const NodeTime spent = time == times.end() ? NodeTime() : time->second;
      t.number(spent.count).number(spent.total_ns).number(spent.device_ns).number(spent.host_ns).number(spent.communication_ns).number(spent.wait_ns).number(spent.bytes);
      const auto held = bytes.find(static_cast<NodeIndex>(i));
      const bool has = held != bytes.end();
      t.number(has ? held->second.allocated : kUnknown).number(has ? held->second.freed : kUnknown).number(has ? held->second.net() : kUnknown);
      SP_TRY(t.endRow());
    }
    return done(std::move(t));
  }

  Status properties() {
    SP_ASSIGN(Table t, Table::create(folder_, "properties.csv", {"name", "value"}));
    for (const auto& [name, value] : trace_.properties) {
      t.text(name).text(value);
      SP_TRY(t.endRow());
    }
    return done(std::move(t));
  }

  Status problems() {
    SP_ASSIGN(Table t, Table::create(folder_, "problems.csv", {"problem", "count", "first", "loses_data", "meaning"}));
    for (const auto& [problem, seen] : trace_.problems.all()) {
      const ProblemInfo& info = problemInfo(problem);
      t.text(info.name).number(seen.count).text(seen.first).number(info.loses_data).text(info.meaning);
      SP_TRY(t.endRow());
    }
    return done(std::move(t));
  }

  const Trace& trace_;
  const std::string& folder_;
  const ProgressFn& progress_;
  const CancelToken& cancel_;
  std::vector<NewFile> written_;  ///< whole, but not in their places yet
};

}  // namespace

Status writeCsv(const Trace& trace, const std::string& folder, const ProgressFn& progress, const CancelToken& cancel) {
  std::error_code failed;
  const bool made = std::filesystem::create_directories(folder, failed);
  if (!std::filesystem::is_directory(folder)) return makeError("file-unwritable", folder + ": " + (failed ? failed.message() : "is no folder"), Outcome::kNo);
  Status written = Writer(trace, folder, progress, cancel).write();
  if (!written && made) std::filesystem::remove(folder, failed);  // it is empty
  return written;
}

}  // namespace spscope::trace
