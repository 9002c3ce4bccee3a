// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <set>

#include "core/base/new_file.h"
#include "core/base/strings.h"
#include "profiler/store/nsight_ids.h"
#include "profiler/store/schema.h"
#include "profiler/store/sqlite.h"
#include "profiler/store/store.h"
#include "profiler/trace/lanes.h"

namespace spscope::trace {
namespace {

constexpr std::int64_t kProgressStep = 1 << 15;
// The domains of NVTX ranges: Nsight shows "spscope:" before the names of ours. Names of foreign traces stay as they are.
constexpr std::int64_t kForeignDomain = 0, kOwnDomain = 1, kDeviceDomain = 2;

/// a - b; differences beyond 64 bits wrap, and wrap back when they are read.
std::int64_t minus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}

/// What all times in the file are relative to. Nsight's reports hold times in 32-bit floats on the way: epoch
/// nanoseconds would be minutes apart there, and each look-up a scan.
std::int64_t firstTime(const Trace& trace) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t t : trace.events.start) first = std::min(first, t);
  for (const MemoryEvent& m : trace.memory) first = std::min(first, m.time);
  for (const CounterSample& c : trace.counters) first = std::min(first, c.time);
  return first == std::numeric_limits<std::int64_t>::max() ? 0 : first;
}

std::string isoTime(std::int64_t ns) {
  const std::time_t seconds = static_cast<std::time_t>(ns / 1000000000);
  std::tm parts{};
  char text[40] = "";
  if (gmtime_r(&seconds, &parts)) std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return text;
}

std::int64_t colourOf(Category category) {
  switch (category) {
    case Category::kCollective: return 0xffd9822b;
    case Category::kWait: return 0xffc23030;
    case Category::kRange: return 0xff634dbf;
    case Category::kDeviceRange: return 0xff8f77e0;
    case Category::kPython: return 0xff96622d;
    default: return 0xff2965cc;
  }
}

class Writer {
 public:
  Writer(Database& out, const Trace& trace, const ProgressFn& progress, const CancelToken& cancel)
      : out_(out), trace_(trace), progress_(progress), cancel_(cancel), base_(firstTime(trace)), ids_(nsightIds(trace)) {}

  Status write() {
    SP_TRY(out_.run("BEGIN"));
    SP_TRY(out_.run(storeSchema()));
    SP_TRY(writeHead());
    SP_TRY(writeStrings());
    SP_TRY(writeMachines());
    SP_TRY(writeEvents());
    SP_TRY(writeSides());
    return out_.run("COMMIT");
  }

 private:
  Status writeHead() {
    std::int64_t last = base_;
    for (const std::int64_t t : trace_.events.end) last = std::max(last, t);
    SP_ASSIGN(Statement meta, out_.prepare("INSERT INTO SPSCOPE_META VALUES (?, ?)"));
    SP_TRY(meta.bind("version").bind(std::int64_t{kStoreVersion}).run());
    SP_TRY(meta.bind("format").bind(trace_.format).run());
    SP_TRY(meta.bind("events").bind(static_cast<std::int64_t>(trace_.events.size())).run());
    SP_TRY(meta.bind("strings").bind(static_cast<std::int64_t>(trace_.strings.size())).run());
    SP_ASSIGN(Statement product, out_.prepare("INSERT INTO META_DATA_EXPORT VALUES (?, ?)"));
    const std::array<std::array<std::string_view, 2>, 6> kProduct{{{"EXPORT_PRODUCT_NAME", "SPScope"},
                                                                   {"EXPORT_SCHEMA_VERSION", "3.7.2"},
                                                                   {"EXPORT_SCHEMA_VERSION_MAJOR", "3"},
                                                                   {"EXPORT_SCHEMA_VERSION_MINOR", "7"},
                                                                   {"EXPORT_SCHEMA_VERSION_MICRO", "2"},
                                                                   {"EXPORT_PARAM_EXPORT_TYPE", "SQLite"}}};
    for (const auto& [name, value] : kProduct) SP_TRY(product.bind(name).bind(value).run());
    SP_ASSIGN(Statement start, out_.prepare("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?, ?, ?, 0)"));
    SP_TRY(start.bind(base_).bind(isoTime(base_)).bind(isoTime(base_)).run());
    SP_ASSIGN(Statement details, out_.prepare("INSERT INTO ANALYSIS_DETAILS VALUES (?, ?, 0, ?)"));
    SP_TRY(details.bind(std::int64_t{1} << 48).bind(minus(last, base_)).bind(minus(last, base_)).run());
    SP_ASSIGN(Statement property, out_.prepare("INSERT INTO SPSCOPE_PROPERTIES VALUES (?, ?)"));
    for (const auto& [name, value] : trace_.properties) SP_TRY(property.bind(name).bind(value).run());
    SP_ASSIGN(Statement problem, out_.prepare("INSERT INTO SPSCOPE_PROBLEMS VALUES (?, ?, ?, ?)"));
    for (const auto& [kind, seen] : trace_.problems.all()) {
      const ProblemInfo& info = problemInfo(kind);
      SP_TRY(problem.bind(info.name).bind(seen.count).bind(seen.first).bind(info.meaning).run());
    }
    return {};
  }

  /// The pool's texts with their ids; behind them the short names of kernels, where they are not in the pool.
  Status writeStrings() {
    SP_ASSIGN(Statement add, out_.prepare("INSERT INTO StringIds VALUES (?, ?)"));
    for (std::size_t i = 0; i < trace_.strings.size(); ++i)
      SP_TRY(add.bind(static_cast<std::int64_t>(i)).bind(trace_.strings.text(static_cast<StringId>(i))).run());
    std::map<std::string, std::int64_t> extra;
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const StringId name = trace_.events.name[i];
      if (trace_.events.category[i] != Category::kKernel || short_names_.count(name)) continue;
      const std::string text = shortKernelName(trace_.strings.text(name));
      if (const StringId* known = trace_.strings.find(text)) {
        short_names_[name] = *known;
        continue;
      }
      const auto [it, fresh] = extra.try_emplace(text, static_cast<std::int64_t>(trace_.strings.size() + extra.size()));
      if (fresh) SP_TRY(add.bind(it->second).bind(text).run());
      short_names_[name] = it->second;
    }
    return {};
  }

  Status writeMachines() {
    SP_ASSIGN(Statement process, out_.prepare("INSERT INTO PROCESSES VALUES (?, ?, ?)"));
    SP_ASSIGN(Statement rank, out_.prepare("INSERT INTO SPSCOPE_RANKS VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    for (std::size_t i = 0; i < trace_.ranks.size(); ++i) {
      const Rank& r = trace_.ranks[i];
      const std::int64_t pid = ids_.process[i] >> 24 & 0xffffff;
      SP_TRY(process.bind(ids_.process[i]).bind(pid).bind(r.number == kUnknown ? "process" : "rank " + std::to_string(r.number)).run());
      rank.bind(static_cast<std::int64_t>(i)).bindKnown(r.number).bindKnown(r.world).bind(r.file).bind(r.host).bind(r.backend);
      rank.bindKnown(r.pid).bind(r.base_ns).bind(std::int64_t{r.fractional_us}).bindKnown(r.first_ns).bindKnown(r.last_ns);
      rank.bindKnown(r.barrier_ns).bind(r.dropped).bind(r.clock.method).bind(r.clock.offset_ns).bind(r.clock.reference_ns);
      SP_TRY(rank.bind(r.clock.drift_ppb).bindKnown(r.clock.residual_ns).bind(ids_.process[i]).run());
    }
    SP_ASSIGN(Statement thread, out_.prepare("INSERT INTO ThreadNames VALUES (?, NULL, ?)"));
    SP_ASSIGN(Statement stream, out_.prepare("INSERT INTO TARGET_INFO_CUDA_STREAM VALUES (?, 0, 1, ?, ?, 0, 0)"));
    SP_ASSIGN(Statement track, out_.prepare("INSERT INTO SPSCOPE_TRACKS VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    std::set<std::pair<std::int64_t, std::int64_t>> devices;  // with the process that uses them
    for (std::size_t i = 0; i < trace_.tracks.size(); ++i) {
      const Track& t = trace_.tracks[i];
      const std::int64_t pid = ids_.process[static_cast<std::size_t>(t.rank)] >> 24 & 0xffffff;
      if (t.kind == TrackKind::kThread && t.name != 0) SP_TRY(thread.bind(std::int64_t{t.name}).bind(ids_.thread[i]).run());
      if (t.stream != kUnknown) SP_TRY(stream.bind(t.stream).bind(pid).bind(t.context == kUnknown ? 0 : t.context).run());
      if (t.device != kUnknown) devices.emplace(t.device, pid);
      track.bind(static_cast<std::int64_t>(i)).bind(std::int64_t{t.rank}).bind(static_cast<std::int64_t>(t.kind)).bind(std::int64_t{t.name});
      track.bindKnown(t.pid).bindKnown(t.tid).bindKnown(t.device).bindKnown(t.context).bindKnown(t.stream);
      SP_TRY(track.bind(ids_.thread[i]).run());
    }
    SP_ASSIGN(Statement gpu, out_.prepare("INSERT INTO TARGET_INFO_GPU (vmId, id, name) VALUES (1, ?, ?)"));
    SP_ASSIGN(Statement cuda, out_.prepare("INSERT INTO TARGET_INFO_CUDA_DEVICE (gpuId, cudaId, pid) VALUES (?, ?, ?)"));
    std::int64_t last = kUnknown;
    for (const auto& [device, pid] : devices) {
      const auto name = trace_.properties.find(strf("device.%lld.name", static_cast<long long>(device)));
      if (device != std::exchange(last, device))
        SP_TRY(gpu.bind(device).bind(name != trace_.properties.end() ? std::string_view(name->second) : "GPU").run());
      SP_TRY(cuda.bind(device).bind(device).bind(pid).run());
    }
    return {};
  }

  Status writeEvents() {
    SP_TRY(prepareEvents());
    SP_TRY(writeNvtxNames());
    const std::vector<bool> nested = nestedRanges();
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      if (i % kProgressStep == 0) {
        SP_TRY(cancel_.check());
        if (progress_) progress_({"writing the trace", static_cast<std::int64_t>(i), static_cast<std::int64_t>(trace_.events.size())});
      }
      const Event e = trace_.event(static_cast<EventIndex>(i));
      bool has_name = true, has_correlation = true;  // in Nsight's table
      SP_TRY(writeEvent(e, static_cast<std::int64_t>(i) + 1, nested[i], &has_name, &has_correlation));
      Statement& side = *sides_;
      side.bind(static_cast<std::int64_t>(i) + 1).bind(std::int64_t{e.track});
      e.node == kNoIndex ? side.bindNull() : side.bind(std::int64_t{e.node});
      e.external == 0 ? side.bindNull() : side.bind(e.external);
      side.bindKnown(e.bytes);
      e.detail == kNoIndex ? side.bindNull() : side.bind(std::int64_t{e.detail});
      e.flags == 0 ? side.bindNull() : side.bind(std::int64_t{e.flags});
      has_name ? side.bindNull() : side.bind(std::int64_t{e.name});
      has_correlation || e.correlation == 0 ? side.bindNull() : side.bind(e.correlation);
      SP_TRY(side.run());
    }
    return {};
  }

  Status prepareEvents() {
    const auto make = [&](std::optional<Statement>* out, std::string_view sql) -> Status {
      SP_ASSIGN(*out, out_.prepare(sql));
      return {};
    };
    SP_TRY(make(&sides_, "INSERT INTO SPSCOPE_EVENTS VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    SP_TRY(make(&kernels_,
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (rowid, start, end, deviceId, contextId, streamId, correlationId, globalPid, "
                "demangledName, shortName, launchType, registersPerThread, gridX, gridY, gridZ, blockX, blockY, blockZ, "
                "staticSharedMemory, dynamicSharedMemory, graphNodeId) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    SP_TRY(make(&copies_,
                "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY (rowid, start, end, deviceId, contextId, streamId, correlationId, globalPid, "
                "bytes, copyKind, srcKind, dstKind) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    SP_TRY(make(&sets_,
                "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET (rowid, start, end, deviceId, contextId, streamId, correlationId, globalPid, "
                "bytes, value, memKind) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    SP_TRY(make(&syncs_,
                "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (rowid, start, end, deviceId, contextId, streamId, correlationId, "
                "globalPid, syncType) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    SP_TRY(make(&calls_,
                "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (rowid, start, end, eventClass, globalTid, correlationId, nameId, returnValue) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, 0)"));
    SP_TRY(make(&overheads_, "INSERT INTO PROFILER_OVERHEAD (rowid, start, end, globalTid, nameId, overheadType) VALUES (?, ?, ?, ?, ?, 1)"));
    return make(&ranges_,
                "INSERT INTO NVTX_EVENTS (rowid, start, end, eventType, category, color, globalTid, textId, domainId, uint64Value, text) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  }

  std::int64_t domainOf(Category category) const {
    if (category == Category::kDeviceRange) return kDeviceDomain;
    return trace_.format == "spscope" ? kOwnDomain : kForeignDomain;
  }

  /// The names of domains and of our categories, behind the events' own rows.
  Status writeNvtxNames() {
    std::set<std::int64_t> domains;
    std::set<std::pair<std::int64_t, Category>> categories;
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const Category c = trace_.events.category[i];
      if (!isRange(c)) continue;
      domains.insert(domainOf(c));
      categories.emplace(domainOf(c), c);
    }
    auto row = static_cast<std::int64_t>(trace_.events.size());
    const auto add = [&](std::int64_t process, int type, std::int64_t domain, std::string_view text, int category) {
      ranges_->bind(++row).bind(std::int64_t{0}).bindNull().bind(std::int64_t{type});
      category < 0 ? ranges_->bindNull() : ranges_->bind(std::int64_t{category});
      return ranges_->bindNull().bind(process).bindNull().bind(domain).bindNull().bind(text).run();
    };
    for (const std::int64_t process : ids_.process) {
      for (const std::int64_t domain : domains)
        if (domain != kForeignDomain) SP_TRY(add(process, kNvtxDomain, domain, domain == kOwnDomain ? "spscope" : "device", -1));
      for (const auto& [domain, category] : categories) SP_TRY(add(process, kNvtxCategory, domain, nameOf(category), static_cast<int>(category)));
    }
    return {};
  }

  /// What Nsight holds as NVTX: all that has no table of its own there.
  static bool isRange(Category c) {
    return !isDeviceWork(c) && c != Category::kRuntime && c != Category::kSynchronize && c != Category::kOverhead;
  }

  /// Push/pop ranges of Nsight nest on their thread; the others become start/end ranges.
  std::vector<bool> nestedRanges() const {
    std::vector<EventIndex> order = eventsByStart(trace_);
    std::erase_if(order, [&](EventIndex e) {
      const Category c = trace_.events.category[static_cast<std::size_t>(e)];
      return !isRange(c) || c == Category::kInstant;
    });
    const std::vector<LanePlace> lanes = lanesOf(trace_, order);
    std::vector<bool> out(trace_.events.size());
    for (std::size_t i = 0; i < order.size(); ++i) out[static_cast<std::size_t>(order[i])] = lanes[i].lane == 0;
    return out;
  }

  Status writeEvent(const Event& e, std::int64_t row, bool nested, bool* has_name, bool* has_correlation) {
    const Track& track = trace_.tracks[static_cast<std::size_t>(e.track)];
    const std::int64_t thread = ids_.thread[static_cast<std::size_t>(e.track)], process = ids_.process[static_cast<std::size_t>(track.rank)];
    const std::int64_t start = minus(e.start, base_), end = minus(e.end, base_);
    const auto onDevice = [&](Statement& s) -> Statement& {
      return s.bind(row).bind(start).bind(end).bindKnown(track.device).bindKnown(track.context).bindKnown(track.stream).bind(e.correlation).bind(process);
    };
    const bool detailed = e.detail >= 0 && static_cast<std::size_t>(e.detail) < (e.category == Category::kKernel ? trace_.launches.size() : trace_.copies.size());
    const Copy copy = detailed && e.category != Category::kKernel ? trace_.copies[static_cast<std::size_t>(e.detail)] : Copy{};
    switch (e.category) {
      case Category::kKernel: {
        const Launch launch = detailed ? trace_.launches[static_cast<std::size_t>(e.detail)] : Launch{};
        const auto known = [&](std::int32_t v) { return !detailed || v < 0 ? kUnknown : v; };
        Statement& s = onDevice(*kernels_).bind(std::int64_t{e.name}).bind(short_names_.at(e.name)).bindKnown(known(launch.registers));
        for (const auto v : launch.grid) s.bindKnown(known(v));
        for (const auto v : launch.block) s.bindKnown(known(v));
        return s.bindKnown(known(launch.static_shared)).bindKnown(known(launch.dynamic_shared)).bindKnown(launch.graph_node == 0 ? kUnknown : launch.graph_node).run();
      }
      case Category::kMemcpy:
        *has_name = false;
        return onDevice(*copies_).bindKnown(e.bytes).bind(std::int64_t{copy.copy_kind}).bind(std::int64_t{copy.source_kind}).bind(std::int64_t{copy.target_kind}).run();
      case Category::kMemset:
        *has_name = false;
        return onDevice(*sets_).bindKnown(e.bytes).bindKnown(copy.value).bind(std::int64_t{copy.target_kind}).run();
      case Category::kSynchronize:
        *has_name = false;
        return onDevice(*syncs_).bind(std::int64_t{syncTypeOf(trace_.strings.text(e.name))}).run();
      case Category::kRuntime: {
        const bool driver = isDriverCall(trace_.strings.text(e.name));
        return calls_->bind(row).bind(start).bind(end).bind(std::int64_t{driver}).bind(thread).bind(e.correlation).bind(std::int64_t{e.name}).run();
      }
      case Category::kOverhead:
        *has_correlation = false;
        return overheads_->bind(row).bind(start).bind(end).bind(thread).bind(std::int64_t{e.name}).run();
      default: {
        *has_correlation = false;
        const bool mark = e.category == Category::kInstant;
        const std::int64_t node = e.node == kNoIndex ? kUnknown : trace_.nodes[static_cast<std::size_t>(e.node)].id;
        ranges_->bind(row).bind(start).bindKnown(mark && e.end == e.start ? kUnknown : end);
        ranges_->bind(std::int64_t{mark ? kNvtxMark : nested ? kNvtxPushPop : kNvtxStartEnd}).bind(static_cast<std::int64_t>(e.category));
        return ranges_->bind(colourOf(e.category)).bind(thread).bind(std::int64_t{e.name}).bind(domainOf(e.category)).bindKnown(node).bindNull().run();
      }
    }
  }

  /// What Nsight has no place for.
  Status writeSides() {
    std::int64_t row = 0;
    SP_ASSIGN(Statement launch, out_.prepare("INSERT INTO SPSCOPE_LAUNCHES VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    for (const Launch& l : trace_.launches) {
      launch.bind(row++);
      for (const std::int32_t v : {l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1], l.block[2], l.registers, l.static_shared, l.dynamic_shared, l.graph_node, l.shared})
        launch.bind(std::int64_t{v});
      SP_TRY(launch.run());
    }
    row = 0;
    SP_ASSIGN(Statement copy, out_.prepare("INSERT INTO SPSCOPE_COPIES VALUES (?, ?, ?, ?, ?)"));
    for (const Copy& c : trace_.copies)
      SP_TRY(copy.bind(row++).bind(std::int64_t{c.copy_kind}).bind(std::int64_t{c.source_kind}).bind(std::int64_t{c.target_kind}).bindKnown(c.value).run());
    row = 0;
    SP_ASSIGN(Statement collective, out_.prepare("INSERT INTO SPSCOPE_COLLECTIVES VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    for (const Collective& c : trace_.collectives) {
      collective.bind(row++).bind(std::int64_t{c.kind}).bind(std::int64_t{c.group}).bindKnown(c.sequence).bind(std::int64_t{c.sequence_by_order}).bindKnown(c.bytes).bindKnown(c.group_size);
      SP_TRY(collective.bind(std::int64_t{c.group_size_at_least}).bind(std::int64_t{c.rank}).bindKnown(rowOf(c.event)).bindKnown(rowOf(c.wait)).run());
    }
    row = 0;
    SP_ASSIGN(Statement memory, out_.prepare("INSERT INTO SPSCOPE_MEMORY VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    for (const MemoryEvent& m : trace_.memory) {
      if (row % kProgressStep == 0) SP_TRY(cancel_.check());
      memory.bind(row++).bind(minus(m.time, base_)).bindKnown(m.bytes).bindKnown(m.address).bindKnown(m.live).bindKnown(m.reserved);
      SP_TRY(memory.bindKnown(m.node == kNoIndex ? kUnknown : m.node).bind(std::int64_t{m.rank}).bind(std::int64_t{m.device}).bind(std::int64_t{m.memory_class}).run());
    }
    row = 0;
    SP_ASSIGN(Statement counter, out_.prepare("INSERT INTO SPSCOPE_COUNTERS VALUES (?, ?, ?, ?, ?)"));
    for (const CounterSample& c : trace_.counters)
      SP_TRY(counter.bind(row++).bind(minus(c.time, base_)).bind(c.value).bind(std::int64_t{c.name}).bind(std::int64_t{c.rank}).run());
    row = 0;
    SP_ASSIGN(Statement node, out_.prepare("INSERT INTO SPSCOPE_NODES VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    for (const GraphNode& n : trace_.nodes) {
      node.bind(row++).bindKnown(n.id);
      for (const StringId s : {n.name, n.op, n.module, n.source, n.stage}) node.bind(std::int64_t{s});
      SP_TRY(node.bind(static_cast<std::int64_t>(n.phase)).bindKnown(n.flops).bindKnown(n.predicted_ns).run());
    }
    row = 0;
    SP_ASSIGN(Statement flow, out_.prepare("INSERT INTO SPSCOPE_FLOWS VALUES (?, ?, ?, ?)"));
    for (const Flow& f : trace_.flows) SP_TRY(flow.bind(row++).bind(std::int64_t{f.kind}).bindKnown(rowOf(f.from)).bindKnown(rowOf(f.to)).run());
    return {};
  }

  /// Events are named by the id that they have in the tables.
  static std::int64_t rowOf(EventIndex event) { return event == kNoIndex ? kUnknown : event + 1; }

  Database& out_;
  const Trace& trace_;
  const ProgressFn& progress_;
  const CancelToken& cancel_;
  const std::int64_t base_;
  const NsightIds ids_;
  std::map<StringId, std::int64_t> short_names_;
  std::optional<Statement> sides_, kernels_, copies_, sets_, syncs_, calls_, overheads_, ranges_;
};

}  // namespace

Status writeStore(const Trace& trace, const std::string& path, const ProgressFn& progress, const CancelToken& cancel) {
  SP_ASSIGN(NewFile file, NewFile::at(path));
  {
    SP_ASSIGN(Database out, Database::create(file.temporary()));
    SP_TRY(Writer(out, trace, progress, cancel).write());
    SP_TRY(out.close());
  }
  return file.commit();
}

}  // namespace spscope::trace
