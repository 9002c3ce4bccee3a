// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>

#include "profiler/store/schema.h"
#include "profiler/store/sqlite.h"
#include "profiler/store/store.h"
#include "profiler/trace/bounds.h"

namespace spscope::trace {
namespace {

constexpr std::int64_t kProgressStep = 1 << 15;

/// Wraps, as the differences of the writer do.
std::int64_t plus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

/// Reads row by row and checks every index, so that no file makes an analysis reach beyond a column.
class Reader {
 public:
  Reader(Database& in, const ProgressFn& progress, const CancelToken& cancel) : in_(in), progress_(progress), cancel_(cancel) {}

  Result<Trace> read() {
    if (!in_.hasTable("SPSCOPE_META")) {  // readHead counts it; the rest stands without it
      counted_ = false, strings_ = std::numeric_limits<std::int64_t>::max();
      trace_.format = "spscope";
    }
    SP_TRY(readHead());
    SP_TRY(readStrings());
    SP_TRY(readSides());
    SP_TRY(readMachines());
    SP_TRY(readEvents());
    checkEvents();
    SP_TRY(readLinks());
    keepInBounds(trace_);
    return std::move(trace_);
  }

 private:
  /// Calls `row` for each row of the table. A missing table or column is counted, a damaged page ends the table and is
  /// counted; only cancelling is an error.
  template <typename Row>
  Status each(std::string_view table, std::string_view columns, Row row) {
    auto statement = in_.prepare("SELECT " + std::string(columns) + " FROM " + std::string(table));
    if (!statement) {
      trace_.problems.count(Problem::kMissingTable, table);
      return {};
    }
    for (std::int64_t n = 0;; ++n) {
      if (n % kProgressStep == 0) {
        SP_TRY(cancel_.check());
        if (progress_) progress_({"reading the trace", done_, total_});
      }
      const auto more = statement->next();
      if (!more) trace_.problems.count(Problem::kTruncated, std::string(table) + " row " + std::to_string(n + 1));
      if (!more || !*more) return {};
      row(*statement);
    }
  }

  Status readHead() {
    SP_TRY(each("SPSCOPE_META", "name, value", [&](Statement& s) {
      if (s.text(0) == "version" && s.integer(1) > kStoreVersion)
        trace_.problems.count(Problem::kUnknownSchema, "store version " + std::string(s.text(1)));
      if (s.text(0) == "format") trace_.format = s.text(1);
      if (s.text(0) == "events") events_ = std::max<std::int64_t>(0, s.integer(1));
      if (s.text(0) == "strings") strings_ = s.integer(1);
    }));
    SP_TRY(each("TARGET_INFO_SESSION_START_TIME", "utcEpochNs", [&](Statement& s) { base_ = s.integer(0); }));
    SP_TRY(each("SPSCOPE_PROPERTIES", "name, value", [&](Statement& s) { trace_.properties[std::string(s.text(0))] = s.text(1); }));
    return each("SPSCOPE_PROBLEMS", "name, count, first", [&](Statement& s) {
      for (int i = 0; i < kProblems; ++i)
        if (problemInfo(static_cast<Problem>(i)).name == s.text(0)) return trace_.problems.count(static_cast<Problem>(i), s.text(2), s.integer(1));
      trace_.problems.count(Problem::kLostMetadata, s.text(0), s.integer(1));  // a kind of a newer version
    });
  }

  Status readStrings() {
    return each("StringIds", "id, value", [&](Statement& s) {
      if (s.integer(0) < strings_) ids_[s.integer(0)] = trace_.strings.intern(s.text(1));
    });
  }
  StringId name(std::int64_t id) {
    const auto it = ids_.find(id);
    if (it != ids_.end()) return it->second;
    if (id != 0 && id != kUnknown) trace_.problems.count(Problem::kBadNumber, "text " + std::to_string(id));
    return 0;
  }
  template <typename T>
  std::int32_t index(std::int64_t value, const std::vector<T>& of) {
    if (value == kUnknown) return kNoIndex;
    if (value >= 0 && value < static_cast<std::int64_t>(of.size())) return static_cast<std::int32_t>(value);
    trace_.problems.count(Problem::kBadNumber, "index " + std::to_string(value));
    return kNoIndex;
  }
  std::int32_t rank(std::int64_t value) {
    const std::int32_t r = index(value, trace_.ranks);
    if (r != kNoIndex) return r;
    if (trace_.ranks.empty()) trace_.ranks.emplace_back();
    return 0;
  }
  static std::int32_t small(std::int64_t v) { return static_cast<std::int32_t>(std::clamp<std::int64_t>(v, INT32_MIN, INT32_MAX)); }
  static std::uint8_t byte(std::int64_t v) { return static_cast<std::uint8_t>(std::clamp<std::int64_t>(v, 0, 255)); }

  Status readSides() {
    SP_TRY(each("SPSCOPE_LAUNCHES", "gridX, gridY, gridZ, blockX, blockY, blockZ, registers, staticShared, dynamicShared, graphNode, shared", [&](Statement& s) {
      Launch l;
      for (std::size_t i = 0; i < 3; ++i) l.grid[i] = small(s.integer(static_cast<int>(i))), l.block[i] = small(s.integer(static_cast<int>(i) + 3));
      l.registers = small(s.integer(6)), l.static_shared = small(s.integer(7)), l.dynamic_shared = small(s.integer(8)), l.graph_node = small(s.integer(9)), l.shared = small(s.integer(10));
      trace_.launches.push_back(l);
    }));
    SP_TRY(each("SPSCOPE_COPIES", "copyKind, srcKind, dstKind, value", [&](Statement& s) {
      trace_.copies.push_back({.copy_kind = byte(s.integer(0)), .source_kind = byte(s.integer(1)), .target_kind = byte(s.integer(2)), .value = s.known(3)});
    }));
    return each("SPSCOPE_NODES", "node, nameId, opId, moduleId, sourceId, stageId, phase, flops, predicted", [&](Statement& s) {
      const std::int64_t phase = s.integer(6);
      trace_.nodes.push_back({.id = s.known(0), .name = name(s.integer(1)), .op = name(s.integer(2)), .module = name(s.integer(3)), .source = name(s.integer(4)),
                              .stage = name(s.integer(5)), .phase = phase >= 0 && phase <= static_cast<int>(Phase::kOptimizer) ? static_cast<Phase>(phase) : Phase::kUnknownPhase,
                              .flops = s.known(7), .predicted_ns = s.known(8)});
    });
  }

  Status readMachines() {
    SP_TRY(each("SPSCOPE_RANKS",
                "number, world, file, host, backend, pid, base, fractionalUs, first, last, barrier, dropped, clockMethod, clockOffset, "
                "clockReference, clockDriftPpb, clockResidual",
                [&](Statement& s) {
                  Rank r;
                  r.number = s.known(0), r.world = s.known(1), r.file = s.text(2), r.host = s.text(3), r.backend = s.text(4), r.pid = s.known(5);
                  r.base_ns = s.integer(6), r.fractional_us = s.integer(7) != 0, r.first_ns = s.known(8), r.last_ns = s.known(9), r.barrier_ns = s.known(10);
                  r.dropped = s.integer(11);
                  r.clock = {.method = std::string(s.text(12)), .offset_ns = s.integer(13), .reference_ns = s.integer(14), .drift_ppb = s.real(15), .residual_ns = s.known(16)};
                  trace_.ranks.push_back(std::move(r));
                }));
    return each("SPSCOPE_TRACKS", "rank, kind, nameId, pid, tid, deviceId, contextId, streamId", [&](Statement& s) {
      const std::int64_t kind = s.integer(1);
      Track t{.rank = rank(s.known(0)), .kind = kind >= 0 && kind <= static_cast<int>(TrackKind::kOther) ? static_cast<TrackKind>(kind) : TrackKind::kOther,
              .name = name(s.integer(2)), .pid = s.known(3), .tid = s.known(4), .device = s.known(5), .context = s.known(6), .stream = s.known(7)};
      // By way of the trace, which then finds the track again; a second one with the same numbers is only kept.
      const std::size_t before = trace_.tracks.size();
      if (t.kind == TrackKind::kThread) trace_.thread(t.rank, t.pid, t.tid);
      if (t.kind == TrackKind::kStream) trace_.stream(t.rank, t.device, t.context, t.stream);
      if (trace_.tracks.size() == before) trace_.tracks.emplace_back();
      trace_.tracks.back() = t;
    });
  }

  /// Every event has a row in SPSCOPE_EVENTS and one in the table of its category, under one id.
  Status readEvents() {
    std::int64_t rows = 0;
    SP_TRY(each("SPSCOPE_EVENTS", "count(*)", [&](Statement& s) { rows = s.integer(0); }));
    if (counted_ && rows != events_) trace_.problems.count(Problem::kTruncated, "SPSCOPE_EVENTS", std::max<std::int64_t>(1, events_ - rows));
    const auto n = static_cast<std::size_t>(std::clamp<std::int64_t>(rows, 0, std::numeric_limits<EventIndex>::max()));
    total_ = rows;
    Events& e = trace_.events;
    e.start.resize(n), e.end.resize(n), e.correlation.resize(n), e.external.resize(n), e.bytes.resize(n, kUnknown), e.name.resize(n);
    e.track.resize(n, kNoIndex), e.node.resize(n, kNoIndex), e.detail.resize(n, kNoIndex), e.category.resize(n, Category::kOther), e.flags.resize(n);
    timed_.resize(n);
    SP_TRY(readTable("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName, correlationId", Category::kKernel));
    SP_TRY(readTable("CUPTI_ACTIVITY_KIND_MEMCPY", "NULL, correlationId", Category::kMemcpy));
    SP_TRY(readTable("CUPTI_ACTIVITY_KIND_MEMSET", "NULL, correlationId", Category::kMemset));
    SP_TRY(readTable("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "NULL, correlationId", Category::kSynchronize));
    SP_TRY(readTable("CUPTI_ACTIVITY_KIND_RUNTIME", "nameId, correlationId", Category::kRuntime));
    SP_TRY(readTable("PROFILER_OVERHEAD", "nameId, NULL", Category::kOverhead));
    SP_TRY(readTable("NVTX_EVENTS", "textId, NULL, category, eventType", std::nullopt));
    return each("SPSCOPE_EVENTS", "id, track, node, external, bytes, detail, flags, nameId, correlationId", [&](Statement& s) {
      const std::optional<std::size_t> i = eventOf(s.integer(0));
      if (!i) return;
      e.track[*i] = index(s.known(1), trace_.tracks);
      e.node[*i] = index(s.known(2), trace_.nodes);
      e.external[*i] = s.integer(3);
      e.bytes[*i] = s.known(4);
      const Category c = e.category[*i];
      if (c == Category::kKernel) e.detail[*i] = index(s.known(5), trace_.launches);
      else if (c == Category::kMemcpy || c == Category::kMemset) e.detail[*i] = index(s.known(5), trace_.copies);
      e.flags[*i] = byte(s.integer(6));
      if (!s.isNull(7)) e.name[*i] = name(s.integer(7));
      if (!s.isNull(8)) e.correlation[*i] = s.integer(8);
    });
  }

  std::optional<std::size_t> eventOf(std::int64_t id) {
    if (id >= 1 && id <= static_cast<std::int64_t>(timed_.size())) return static_cast<std::size_t>(id - 1);
    trace_.problems.count(Problem::kBadEvent, "event " + std::to_string(id));
    return std::nullopt;
  }

  Status readTable(std::string_view table, std::string_view columns, std::optional<Category> category) {
    Events& e = trace_.events;
    return each(table, "rowid, start, end, " + std::string(columns), [&](Statement& s) {
      if (!category && (s.integer(6) == kNvtxDomain || s.integer(6) == kNvtxCategory)) return;
      const std::optional<std::size_t> i = eventOf(s.integer(0));
      if (!i) return;
      e.start[*i] = plus(s.integer(1), base_);
      e.end[*i] = s.isNull(2) ? e.start[*i] : plus(s.integer(2), base_);
      e.name[*i] = name(s.known(3));
      e.correlation[*i] = s.integer(4);
      if (category) e.category[*i] = *category;
      else if (s.integer(5) >= 0 && s.integer(5) < kCategories) e.category[*i] = static_cast<Category>(s.integer(5));
      timed_[*i] = true;
      ++done_;
    });
  }

  /// Events that lost their row of times become marks at the beginning; those without a track get one.
  void checkEvents() {
    Events& e = trace_.events;
    TrackIndex lost = kNoIndex;
    for (std::size_t i = 0; i < e.size(); ++i) {
      if (timed_[i] && e.track[i] != kNoIndex && e.end[i] >= e.start[i]) continue;
      if (timed_[i] && e.end[i] < e.start[i]) trace_.problems.count(Problem::kNegativeDuration, "event " + std::to_string(i + 1));
      else trace_.problems.count(Problem::kBadEvent, "event " + std::to_string(i + 1));
      if (!timed_[i]) e.start[i] = base_, e.category[i] = Category::kOther, e.detail[i] = kNoIndex;
      if (e.end[i] < e.start[i] || !timed_[i]) e.end[i] = e.start[i];
      e.flags[i] |= kRepaired;
      if (e.track[i] != kNoIndex) continue;
      if (lost == kNoIndex) lost = trace_.thread(rank(0), kUnknown, kUnknown);
      e.track[i] = lost;
    }
  }

  Status readLinks() {
    const auto event = [&](std::int64_t id) -> EventIndex {
      if (id == kUnknown) return kNoIndex;
      const std::optional<std::size_t> i = eventOf(id);
      return i ? static_cast<EventIndex>(*i) : kNoIndex;
    };
    SP_TRY(each("SPSCOPE_COLLECTIVES", "kindId, groupId, sequence, sequenceByOrder, bytes, groupSize, groupSizeAtLeast, rank, event, wait", [&](Statement& s) {
      trace_.collectives.push_back({.kind = name(s.integer(0)), .group = name(s.integer(1)), .sequence = s.known(2), .sequence_by_order = s.integer(3) != 0, .bytes = s.known(4), .group_size = s.known(5),
                                    .group_size_at_least = s.integer(6) != 0, .rank = rank(s.known(7)), .event = event(s.known(8)), .wait = event(s.known(9))});
    }));
    SP_TRY(each("SPSCOPE_MEMORY", "time, bytes, address, live, reserved, node, rank, deviceId, classId", [&](Statement& s) {
      trace_.memory.push_back({.time = plus(s.integer(0), base_), .bytes = s.known(1), .address = s.known(2), .live = s.known(3), .reserved = s.known(4),
                               .node = index(s.known(5), trace_.nodes), .rank = rank(s.known(6)), .device = small(s.integer(7)), .memory_class = name(s.integer(8))});
    }));
    SP_TRY(each("SPSCOPE_COUNTERS", "time, value, nameId, rank", [&](Statement& s) {
      const double value = s.isNull(1) ? std::numeric_limits<double>::quiet_NaN() : s.real(1);
      trace_.counters.push_back({.time = plus(s.integer(0), base_), .value = value, .name = name(s.integer(2)), .rank = rank(s.known(3))});
    }));
    return each("SPSCOPE_FLOWS", "fromEvent, toEvent, kindId", [&](Statement& s) {
      trace_.flows.push_back({.from = event(s.known(0)), .to = event(s.known(1)), .kind = name(s.integer(2))});
    });
  }

  Database& in_;
  const ProgressFn& progress_;
  const CancelToken& cancel_;
  Trace trace_;
  std::map<std::int64_t, StringId> ids_;
  std::vector<bool> timed_;
  bool counted_ = true;  ///< the file says how many events and texts it has
  std::int64_t base_ = 0, events_ = 0, strings_ = 0, done_ = 0, total_ = 0;
};

/// Either table is enough: a file that lost one is still read as what it is, and not as Nsight's.
bool isOurs(Database& in) { return in.hasTable("SPSCOPE_META") || in.hasTable("SPSCOPE_EVENTS"); }

}  // namespace

Result<Trace> readStore(const std::string& path, const ProgressFn& progress, const CancelToken& cancel) {
  SP_ASSIGN(Database in, Database::openToRead(path));
  if (!isOurs(in)) return makeError("trace-unreadable", path + " is no trace that SPScope wrote");
  return Reader(in, progress, cancel).read();
}

bool isStore(const std::string& path) {
  auto in = Database::openToRead(path);
  return in && isOurs(*in);
}

}  // namespace spscope::trace
