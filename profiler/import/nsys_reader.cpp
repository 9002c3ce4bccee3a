// SPDX-License-Identifier: Apache-2.0
#include "profiler/import/nsys_reader.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>

#include "profiler/analyze/work.h"
#include "profiler/import/collectives.h"
#include "profiler/import/copies.h"
#include "profiler/import/decimal.h"
#include "profiler/import/json_repair.h"
#include "profiler/import/nsys_tables.h"
#include "profiler/trace/bounds.h"

namespace spscope::trace {
namespace {

constexpr std::string_view kKernel = "CUPTI_ACTIVITY_KIND_KERNEL", kMemcpy = "CUPTI_ACTIVITY_KIND_MEMCPY", kMemset = "CUPTI_ACTIVITY_KIND_MEMSET",
                           kGraph = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", kRuntime = "CUPTI_ACTIVITY_KIND_RUNTIME",
                           kSync = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", kCudaEvent = "CUPTI_ACTIVITY_KIND_CUDA_EVENT", kNvtx = "NVTX_EVENTS",
                           kMemory = "CUDA_GPU_MEMORY_USAGE_EVENTS";
constexpr int kMark = 34, kNvtxtMark = 65, kPushPop = 59, kStartEnd = 60, kNvtxtPushPop = 70, kNvtxtStartEnd = 71, kDomain = 75;
/// Times and the base are below it, so that no sum overflows.
constexpr std::int64_t kLatest = std::int64_t{1} << 61;

std::int64_t pidOf(std::int64_t global) { return global == kUnknown ? kUnknown : global >> 24 & 0xffffff; }
std::int64_t tidOf(std::int64_t global) { return global == kUnknown ? kUnknown : global & 0xffffff; }
std::int64_t processOf(std::int64_t global) { return global == kUnknown ? kUnknown : global & ~std::int64_t{0xffffff}; }

std::int32_t small(std::int64_t v) { return v >= 0 && v <= INT32_MAX ? static_cast<std::int32_t>(v) : -1; }
std::uint8_t byte(std::int64_t v, std::uint8_t otherwise) { return v >= 0 && v <= 255 ? static_cast<std::uint8_t>(v) : otherwise; }

class Reader {
 public:
  Reader(NsysTables& tables, const std::string& name, const ImportOptions& options) : tables_(tables), name_(name), options_(options) {}

  Result<Trace> read() {
    tables_.on_rows = [&](std::int64_t rows) {
      if (options_.progress) options_.progress({"reading the trace", rows, 0});
    };
    if (!tables_.has(kKernel) && !tables_.has(kRuntime) && !tables_.has(kNvtx))
      return makeError("trace-unreadable", name_ + " is an SQLite database, but neither Nsight Systems' nor SPScope's");
    for (const std::string_view base : {kKernel, kRuntime, kNvtx, std::string_view("StringIds")})
      if (!tables_.has(base)) trace_.problems.count(Problem::kMissingTable, base);
    if (!tables_.has(kKernel)) trace_.properties[kNoKernelTable] = "the file has no table of kernels";
    SP_TRY(readVersion());
    SP_TRY(readStrings());
    SP_TRY(readSession());
    SP_TRY(findRanks());
    SP_TRY(readDeviceWork());
    SP_TRY(readCalls());
    SP_TRY(readRanges());
    SP_TRY(readMemory());
    SP_TRY(readNames());
    for (const std::string& table : tables_.unread()) trace_.problems.count(Problem::kLostMetadata, table);
    if (trace_.events.size() > static_cast<std::size_t>(std::numeric_limits<EventIndex>::max()))
      return makeError("trace-too-large", name_ + " holds " + std::to_string(trace_.events.size()) + " events");
    finish();
    keepInBounds(trace_);
    return std::move(trace_);
  }

 private:
  using Columns = std::vector<std::string_view>;
  template <typename Row>
  Status each(std::string_view base, const Columns& columns, Row row) {
    SP_ASSIGN(const bool found, tables_.each(base, columns, trace_.problems, options_.cancel, row));
    (void)found;
    return {};
  }
  static std::string where(std::string_view table, std::int64_t row) { return std::string(table) + " row " + std::to_string(row); }

  // --- texts --------------------------------------------------------------------------------------------------------
  StringId intern(std::string_view text, std::string_view table, std::int64_t row) { return trace_.strings.intern(repairedText(text, where(table, row), trace_.problems)); }
  Status readStrings() {
    return each("StringIds", {"id", "value"}, [&](Statement& s, std::int64_t row) {
      texts_.emplace(s.known(0), repairedText(s.text(1), where("StringIds", row), trace_.problems));
    });
  }
  std::string_view textOf(std::int64_t id) const {
    const auto it = texts_.find(id);
    return it == texts_.end() ? std::string_view() : std::string_view(it->second);
  }
  /// The text of a column that holds an id of StringIds, or (older versions) the text itself.
  StringId nameIn(Statement& s, int column, std::string_view table, std::int64_t row) {
    const std::int64_t id = s.known(column);
    if (id == kUnknown) return s.isNull(column) ? 0 : intern(s.text(column), table, row);
    const auto [it, fresh] = names_.try_emplace(id, 0);
    if (fresh) {
      const auto text = texts_.find(id);
      if (text == texts_.end()) trace_.problems.count(Problem::kMissingTable, "StringIds " + std::to_string(id));
      else it->second = trace_.strings.intern(text->second);
    }
    return it->second;
  }

  // --- the capture --------------------------------------------------------------------------------------------------
  Status readVersion() {
    std::string version;
    SP_TRY(each("META_DATA_EXPORT", {"name", "value"}, [&](Statement& s, std::int64_t row) {
      if (s.text(0) == "EXPORT_SCHEMA_VERSION") version = repairedText(s.text(1), where("META_DATA_EXPORT", row), trace_.problems);
      if (s.text(0) == "EXPORT_PRODUCT_VERSION") trace_.properties["nsys.version"] = repairedText(s.text(1), where("META_DATA_EXPORT", row), trace_.problems);
    }));
    trace_.format = version.empty() ? "nsys" : "nsys " + version;
    const auto known = [&](std::string_view prefix) { return version.compare(0, prefix.size(), prefix) == 0; };
    if (!known("3.7.") && !known("3.24.") && !known("3.25.")) trace_.problems.count(Problem::kUnknownSchema, version.empty() ? "no version" : version);
    return {};
  }
  Status readSession() {
    SP_TRY(each("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs", "?systemClockNs"}, [&](Statement& s, std::int64_t) {
      const std::int64_t utc = s.known(0), clock = s.known(1) == kUnknown ? 0 : s.known(1);
      if (utc >= 0 && utc < kLatest && clock >= 0 && clock < kLatest) base_ = utc - clock;
      else trace_.problems.count(Problem::kBadNumber, "TARGET_INFO_SESSION_START_TIME");
    }));
    SP_TRY(each("ANALYSIS_DETAILS", {"startTime", "stopTime"}, [&](Statement& s, std::int64_t) { first_ = timeOf(s.known(0)), last_ = timeOf(s.known(1)); }));
    return each("DIAGNOSTIC_EVENT", {"text"}, [&](Statement& s, std::int64_t row) {
      const std::string text = repairedText(s.text(0), where("DIAGNOSTIC_EVENT", row), trace_.problems);
      if (text.find("dropped") == std::string::npos && text.find("lost") == std::string::npos) return;
      const auto digit = text.find_first_of("0123456789");
      const auto end = text.find_first_not_of("0123456789", digit);
      std::int64_t count = 1;
      if (digit != std::string::npos) parseScaled(std::string_view(text).substr(digit, end - digit), 0, &count);
      trace_.problems.count(Problem::kDroppedRecords, text, std::clamp<std::int64_t>(count, 1, std::int64_t{1} << 40));
    });
  }
  /// On the common axis; kUnknown where it is none.
  std::int64_t timeOf(std::int64_t own) const { return own == kUnknown || own <= -kLatest || own >= kLatest ? kUnknown : own + base_; }

  // --- ranks --------------------------------------------------------------------------------------------------------
  Status findRanks() {
    std::map<std::pair<std::int64_t, std::int64_t>, std::int32_t> found;  // device, process: in the order of ranks
    for (const std::string_view table : {kKernel, kMemcpy, kMemset, kGraph})
      SP_TRY(each(table, {"?deviceId", "?globalPid"}, [&](Statement& s, std::int64_t) { found.try_emplace({s.known(0), s.known(1)}, 0); }));
    for (auto& [key, rank] : found) {
      rank = newRank(key.second);
      device_ranks_[{key.second, key.first}] = rank;
    }
    if (!found.empty()) return {};
    std::map<std::int64_t, bool> processes;
    for (const std::string_view table : {kRuntime, kNvtx})
      SP_TRY(each(table, {"globalTid"}, [&](Statement& s, std::int64_t) { processes.try_emplace(processOf(s.known(0)), true); }));
    for (const auto& [process, there] : processes) newRank(process);
    return {};
  }
  std::int32_t newRank(std::int64_t process) {
    const auto rank = static_cast<std::int32_t>(trace_.ranks.size());
    trace_.ranks.emplace_back();
    trace_.ranks.back().file = name_;
    trace_.ranks.back().pid = pidOf(process);
    process_ranks_[process].push_back(rank);
    return rank;
  }
  std::int32_t rankOfDevice(std::int64_t process, std::int64_t device) {
    const auto it = device_ranks_.find({process, device});
    return it != device_ranks_.end() ? it->second : rankOfProcess(process, 0);
  }
  /// The rank that a host event belongs to: that of the work it launched, where its process has several.
  std::int32_t rankOfProcess(std::int64_t process, std::int64_t correlation) {
    const auto it = process_ranks_.find(process);
    if (it != process_ranks_.end() && it->second.size() == 1) return it->second.front();
    if (correlation != 0) {
      const auto launched = correlation_ranks_.find({process, correlation});
      if (launched != correlation_ranks_.end()) return launched->second;
      const auto nameless = correlation_ranks_.find({kUnknown, correlation});  // files without globalPid
      if (nameless != correlation_ranks_.end()) return nameless->second;
    }
    if (trace_.ranks.empty()) newRank(process);
    return it == process_ranks_.end() ? 0 : it->second.front();
  }
  bool foreign(std::int64_t process) const { return process_ranks_.count(process) == 0 && process_ranks_.count(kUnknown) == 0; }
  TrackIndex threadOf(std::int32_t rank, std::int64_t global) { return trace_.thread(rank, pidOf(global), tidOf(global)); }

  // --- events -------------------------------------------------------------------------------------------------------
  /// Start and end, checked and counted. False: the event cannot be placed in time.
  bool times(std::int64_t start, std::int64_t end, std::string_view table, std::int64_t row, Event* event) {
    if (start == kUnknown) return trace_.problems.count(Problem::kBadEvent, where(table, row)), false;
    event->start = timeOf(start), event->end = end == kUnknown ? event->start : timeOf(end);
    if (event->start == kUnknown || event->end == kUnknown) return trace_.problems.count(Problem::kOutOfRange, where(table, row)), false;
    if (end == kUnknown) event->flags |= kOpenEnded;
    if (event->end < event->start) {
      trace_.problems.count(Problem::kNegativeDuration, where(table, row));
      event->end = event->start, event->flags |= kRepaired;
    }
    return true;
  }
  EventIndex add(const Event& event) {
    const EventIndex index = trace_.add(event);
    if ((event.flags & kOpenEnded) != 0) open_.push_back(index);
    return index;
  }

  /// Columns 0-6 of all device tables.
  static Columns deviceColumns(std::initializer_list<std::string_view> more) {
    Columns out{"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"};
    out.insert(out.end(), more);
    return out;
  }
  bool deviceEvent(Statement& s, std::string_view table, std::int64_t row, Event* event) {
    if (!times(s.known(0), s.known(1), table, row, event)) return false;
    const std::int64_t process = s.known(6), correlation = s.known(5);
    const std::int32_t rank = rankOfDevice(process, s.known(2));
    event->track = trace_.stream(rank, s.known(2), s.known(3), s.known(4));
    event->correlation = correlation == kUnknown ? 0 : correlation;
    const auto ranks = process_ranks_.find(process);
    if (event->correlation != 0 && (ranks == process_ranks_.end() || ranks->second.size() > 1 || process == kUnknown))
      correlation_ranks_[{process, event->correlation}] = rank;
    return true;
  }

  Status readDeviceWork() {
    SP_TRY(each(kKernel,
                deviceColumns({"demangledName|shortName|mangledName|name", "?gridX", "?gridY", "?gridZ", "?blockX", "?blockY", "?blockZ",
                               "?registersPerThread", "?staticSharedMemory", "?dynamicSharedMemory", "?graphNodeId"}),
                [&](Statement& s, std::int64_t row) {
                  Event e{.category = Category::kKernel};
                  if (!deviceEvent(s, kKernel, row, &e)) return;
                  e.name = nameIn(s, 7, kKernel, row);
                  Launch l{.registers = small(s.known(14)), .static_shared = small(s.known(15)), .dynamic_shared = small(s.known(16))};
                  for (std::size_t i = 0; i < 3; ++i)
                    l.grid[i] = std::max(0, small(s.known(8 + static_cast<int>(i)))), l.block[i] = std::max(0, small(s.known(11 + static_cast<int>(i))));
                  // 64 bits, of which the lower ones number the node and the upper ones the graph.
                  if (const std::int64_t node = s.known(17); node != kUnknown && node != 0) l.graph_node = std::max<std::int32_t>(1, static_cast<std::int32_t>(node & 0x7fffffff));
                  if (trace_.launches.empty() || !(trace_.launches.back() == l)) trace_.launches.push_back(l);
                  e.detail = static_cast<std::int32_t>(trace_.launches.size()) - 1;
                  const EventIndex index = add(e);
                  const std::string_view name = trace_.strings.text(e.name);
                  if (isCommunicationName(name)) collectives_.push_back({index, {.kind = collectiveOfKernel(name)}});
                }));
    SP_TRY(each(kGraph, deviceColumns({"?graphId"}), [&](Statement& s, std::int64_t row) {
      Event e{.category = Category::kKernel};
      if (!deviceEvent(s, kGraph, row, &e)) return;
      e.name = trace_.strings.intern(s.known(7) == kUnknown ? "CUDA graph" : "CUDA graph " + std::to_string(s.known(7)));
      add(e);
    }));
    SP_TRY(each(kMemcpy, deviceColumns({"bytes", "copyKind", "?srcKind", "?dstKind"}), [&](Statement& s, std::int64_t row) {
      Event e{.category = Category::kMemcpy};
      if (!deviceEvent(s, kMemcpy, row, &e)) return;
      addCopy(e, {.copy_kind = byte(s.known(8), 0), .source_kind = byte(s.known(9), 7), .target_kind = byte(s.known(10), 7)}, s.known(7));
    }));
    return each(kMemset, deviceColumns({"bytes", "?value", "?memKind"}), [&](Statement& s, std::int64_t row) {
      Event e{.category = Category::kMemset};
      if (!deviceEvent(s, kMemset, row, &e)) return;
      addCopy(e, {.target_kind = byte(s.known(9), 7), .value = s.known(8)}, s.known(7));
    });
  }
  void addCopy(Event e, const Copy& copy, std::int64_t bytes) {
    e.name = trace_.strings.intern(e.category == Category::kMemcpy ? memcpyName(copy) : memsetName(copy));
    e.bytes = bytes >= 0 ? bytes : kUnknown;
    if (trace_.copies.empty() || !(trace_.copies.back() == copy)) trace_.copies.push_back(copy);
    e.detail = static_cast<std::int32_t>(trace_.copies.size()) - 1;
    add(e);
  }

  Status readCalls() {
    SP_TRY(each(kRuntime, {"start", "end", "globalTid", "correlationId", "nameId|name"}, [&](Statement& s, std::int64_t row) {
      Event e{.category = Category::kRuntime};
      if (!times(s.known(0), s.known(1), kRuntime, row, &e)) return;
      const std::int64_t process = processOf(s.known(2));
      // Ids of a process without device work of its own would meet those of the rank that it is shown with.
      e.correlation = s.known(3) == kUnknown || foreign(process) ? 0 : s.known(3);
      e.track = threadOf(rankOfProcess(process, e.correlation), s.known(2));
      e.name = nameIn(s, 4, kRuntime, row);
      add(e);
    }));
    SP_TRY(each(kSync, deviceColumns({"?syncType"}), [&](Statement& s, std::int64_t row) {
      Event e{.category = Category::kSynchronize};
      if (!times(s.known(0), s.known(1), kSync, row, &e)) return;
      const std::int64_t stream = s.known(4) == 0xffffffff ? kUnknown : s.known(4);
      e.track = trace_.stream(rankOfDevice(s.known(6), s.known(2)), s.known(2), s.known(3), stream);
      e.correlation = s.known(5) == kUnknown || foreign(s.known(6)) ? 0 : s.known(5);
      e.name = trace_.strings.intern(syncName(s.known(7)));
      add(e);
    }));
    SP_TRY(each(kCudaEvent, {"timestamp", "timestamp", "deviceId", "contextId", "streamId", "correlationId", "globalPid"}, [&](Statement& s, std::int64_t row) {
      Event e{.category = Category::kInstant};
      if (!times(s.known(0), s.known(1), kCudaEvent, row, &e)) return;
      e.track = trace_.stream(rankOfDevice(s.known(6), s.known(2)), s.known(2), s.known(3), s.known(4));
      e.name = trace_.strings.intern("cudaEvent");
      add(e);
    }));
    for (const std::string_view table : {std::string_view("CUPTI_ACTIVITY_KIND_OVERHEAD"), std::string_view("PROFILER_OVERHEAD")})
      SP_TRY(each(table, {"start", "end", "globalTid", "nameId"}, [&](Statement& s, std::int64_t row) {
        Event e{.category = Category::kOverhead};
        if (!times(s.known(0), s.known(1), table, row, &e)) return;
        e.track = threadOf(rankOfProcess(processOf(s.known(2)), 0), s.known(2));
        e.name = nameIn(s, 3, table, row);
        add(e);
      }));
    return {};
  }

  // --- NVTX ---------------------------------------------------------------------------------------------------------
  Status readRanges() {
    // Domains are rows of the same table, and need not come before what is in them.
    SP_TRY(each(kNvtx, {"eventType", "?domainId", "text", "?textId", "globalTid"}, [&](Statement& s, std::int64_t row) {
      if (s.known(0) != kDomain) return;
      const std::string name = s.isNull(2) ? std::string(textOf(s.known(3))) : repairedText(s.text(2), where(kNvtx, row), trace_.problems);
      domains_[{processOf(s.known(4)), s.known(1)}] = name;
    }));
    SP_TRY(each(kNvtx, {"start", "end", "eventType", "text", "?textId", "globalTid", "?domainId", "?uint64Value"}, [&](Statement& s, std::int64_t row) {
      const std::int64_t type = s.known(2);
      const bool mark = type == kMark || type == kNvtxtMark;
      if (!mark && type != kPushPop && type != kStartEnd && type != kNvtxtPushPop && type != kNvtxtStartEnd) return;
      Event e{.category = mark ? Category::kInstant : Category::kRange};
      if (!times(s.known(0), mark ? s.known(0) : s.known(1), kNvtx, row, &e)) return;
      const std::int64_t process = processOf(s.known(5));
      e.track = threadOf(rankOfProcess(process, 0), s.known(5));
      e.name = s.isNull(3) ? nameIn(s, 4, kNvtx, row) : intern(s.text(3), kNvtx, row);
      const std::string_view name = trace_.strings.text(e.name);
      // PyTorch's emit_nvtx puts its ops like this.
      if (!mark && (name.find(", op_id = ") != std::string_view::npos || name.find(", seq = ") != std::string_view::npos)) e.category = Category::kOperator;
      if (const auto domain = domains_.find({process, s.known(6)}); domain != domains_.end() && domain->second == "spscope") {
        if (s.known(7) >= 0) e.node = nodeOf(s.known(7), e.name);
        own_ranges_ += !mark;
      }
      const EventIndex index = add(e);
      if (!mark) noteCollective(name, index);
    }));
    if (own_ranges_ > 0) trace_.properties["nvtx.spscope.ranges"] = std::to_string(own_ranges_);
    return {};
  }
  void noteCollective(std::string_view name, EventIndex index) {
    std::string_view backend;
    std::string kind;
    if (collectiveOfRange(name, &backend, &kind)) return ranges_.push_back({index, {.kind = kind}});
    for (const std::string_view call : {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast", "ncclAllToAll", "ncclReduce"})
      if (name == call) return ranges_.push_back({index, {.kind = collectiveKind(call.substr(4))}});
  }
  NodeIndex nodeOf(std::int64_t id, StringId name) {
    const auto [it, fresh] = nodes_.try_emplace(id, static_cast<NodeIndex>(trace_.nodes.size()));
    if (fresh) trace_.nodes.push_back({.id = id, .name = name});
    return it->second;
  }

  // --- the rest -----------------------------------------------------------------------------------------------------
  Status readMemory() {
    return each(kMemory, {"start", "globalPid", "deviceId", "?address", "bytes", "?memKind", "memoryOperationType"}, [&](Statement& s, std::int64_t row) {
      const std::int64_t time = timeOf(s.known(0)), bytes = s.known(4), operation = s.known(6);
      if (time == kUnknown || bytes < 0 || (operation != 0 && operation != 1)) return trace_.problems.count(Problem::kBadEvent, where(kMemory, row));
      const bool host = s.known(5) == 0 || s.known(5) == 1;  // pageable, pinned
      trace_.memory.push_back({.time = time, .bytes = operation == 0 ? bytes : -bytes, .address = s.known(3),
                               .rank = rankOfDevice(s.known(1), s.known(2)), .device = host ? -1 : small(s.known(2))});
    });
  }

  Status readNames() {
    SP_TRY(each("ThreadNames", {"nameId", "globalTid"}, [&](Statement& s, std::int64_t row) {
      const auto& threads = threadsByNumber();
      const auto it = threads.find({pidOf(s.known(1)), tidOf(s.known(1))});
      if (it == threads.end()) return;
      for (const TrackIndex track : it->second) trace_.tracks[static_cast<std::size_t>(track)].name = nameIn(s, 0, "ThreadNames", row);
    }));
    SP_TRY(each("PROCESSES", {"pid", "name"}, [&](Statement& s, std::int64_t row) {
      for (const Rank& rank : trace_.ranks)
        if (rank.pid == s.known(0) && rank.pid != kUnknown)
          trace_.properties["process." + std::to_string(rank.pid) + ".name"] = repairedText(s.text(1), where("PROCESSES", row), trace_.problems);
    }));
    std::map<std::int64_t, std::int64_t> cuda_ids;  // NVML's number -> CUDA's
    SP_TRY(each("TARGET_INFO_CUDA_DEVICE", {"gpuId", "cudaId"}, [&](Statement& s, std::int64_t) { cuda_ids.emplace(s.known(0), s.known(1)); }));
    const std::vector<std::string> columns = tables_.columnsOf("TARGET_INFO_GPU");
    Columns asked{"id"};
    asked.insert(asked.end(), columns.begin(), columns.end());
    return each("TARGET_INFO_GPU", asked, [&](Statement& s, std::int64_t row) {
      const auto id = cuda_ids.find(s.known(0));
      const std::string prefix = "device." + std::to_string(id == cuda_ids.end() ? s.known(0) : id->second) + ".";
      for (std::size_t c = 0; c < columns.size(); ++c)
        if (const int column = static_cast<int>(c) + 1; columns[c] != "id" && !s.isNull(column))
          trace_.properties[prefix + columns[c]] = repairedText(s.text(column), where("TARGET_INFO_GPU", row), trace_.problems);
    });
  }
  const std::map<std::pair<std::int64_t, std::int64_t>, std::vector<TrackIndex>>& threadsByNumber() {
    if (threads_.empty())
      for (std::size_t i = 0; i < trace_.tracks.size(); ++i)
        if (const Track& t = trace_.tracks[i]; t.kind == TrackKind::kThread) threads_[{t.pid, t.tid}].push_back(static_cast<TrackIndex>(i));
    return threads_;
  }

  void finish() {
    std::int64_t last = last_;
    if (!open_.empty() && !trace_.events.end.empty()) last = std::max(last, *std::max_element(trace_.events.end.begin(), trace_.events.end.end()));
    for (const EventIndex i : open_) trace_.events.end[static_cast<std::size_t>(i)] = std::max(last, trace_.events.start[static_cast<std::size_t>(i)]);
    addCollectives(trace_, std::move(collectives_), std::move(ranges_));
    for (Rank& rank : trace_.ranks) rank.base_ns = base_, rank.first_ns = first_, rank.last_ns = last_;
    for (std::size_t i = 0; first_ != kUnknown && i < trace_.events.size(); ++i) {
      if (trace_.events.start[i] >= first_ || !isDeviceWork(trace_.events.category[i])) continue;
      trace_.events.flags[i] |= kEarly;
      trace_.problems.count(Problem::kBeforeCapture, trace_.strings.text(trace_.events.name[i]));
    }
  }

  NsysTables& tables_;
  const std::string& name_;
  const ImportOptions& options_;
  Trace trace_;
  std::int64_t base_ = 0, first_ = kUnknown, last_ = kUnknown;
  std::unordered_map<std::int64_t, std::string> texts_;
  std::unordered_map<std::int64_t, StringId> names_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int32_t> device_ranks_;       ///< process, device
  std::map<std::int64_t, std::vector<std::int32_t>> process_ranks_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int32_t> correlation_ranks_;  ///< process, correlation
  std::int64_t own_ranges_ = 0;  ///< of our NVTX domain
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> domains_;             ///< process, domain
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<TrackIndex>> threads_;
  std::unordered_map<std::int64_t, NodeIndex> nodes_;
  std::vector<EventIndex> open_;
  std::vector<FoundCollective> collectives_, ranges_;
};

Result<Trace> readDatabase(Database& database, const std::string& name, const ImportOptions& options) {
  SP_TRY(options.cancel.check());
  SP_ASSIGN(NsysTables tables, NsysTables::open(database));
  return Reader(tables, name, options).read();
}

}  // namespace

Result<Trace> readNsys(const std::string& path, const ImportOptions& options) {
  SP_ASSIGN(Database database, Database::openToRead(path));
  SP_ASSIGN(Trace trace, readDatabase(database, path, options));
  // Opened immutable, a database does not show what was not yet moved out of its journal.
  std::error_code absent;
  if (const auto size = std::filesystem::file_size(path + "-wal", absent); !absent && size > 0) trace.problems.count(Problem::kTruncated, path + "-wal");
  return trace;
}

Result<Trace> readNsysBytes(std::span<const std::byte> bytes, const std::string& name, const ImportOptions& options) {
  SP_ASSIGN(Database database, Database::ofBytes(bytes, name));
  return readDatabase(database, name, options);
}

}  // namespace spscope::trace
