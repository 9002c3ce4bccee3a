// SPDX-License-Identifier: Apache-2.0
// spscope trace report: all analyses of a trace, as the JSON object. The page for a person is trace_page.cpp's.
#include <algorithm>
#include <optional>

#include "app/commands/trace_actions.h"
#include "app/commands/trace_page.h"

namespace spscope::app {
namespace {

using namespace trace;

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

/// null for what is not known.
Json known(std::int64_t value) { return value == kUnknown ? Json() : Json(value); }
template <typename T>
Json known(const std::optional<T>& value) { return value ? Json(*value) : Json(); }

/// A rank by its number; by its place among the files where they do not say.
Json rankJson(const Trace& trace, std::int32_t rank) {
  const std::int64_t number = trace.ranks[at(rank)].number;
  return number == kUnknown ? rank : number;
}

Json textJson(const Trace& trace, StringId id) { return std::string(trace.strings.text(id)); }

Json statisticsJson(const Statistics& s) {
  return {{"count", s.count}, {"mean", s.mean}, {"min", s.min}, {"lower_quartile", s.lower_quartile}, {"median", s.median},
          {"upper_quartile", s.upper_quartile}, {"max", s.max}, {"deviation", known(s.deviation)}};
}

Json alignmentJson(const Trace& trace, const Analysis& a) {
  if (a.not_aligned)
    return {{"method", nullptr}, {"residual_ns", nullptr}, {"code", a.not_aligned->code}, {"message", a.not_aligned->message}, {"ranks", Json::array()}};
  Json ranks = Json::array();
  for (std::size_t r = 0; r < a.alignment.clocks.size(); ++r) {
    const Clock& clock = a.alignment.clocks[r];
    ranks.push_back({{"rank", rankJson(trace, static_cast<std::int32_t>(r))}, {"method", clock.method}, {"offset_ns", clock.offset_ns},
                     {"drift_ppb", clock.drift_ppb}, {"residual_ns", known(clock.residual_ns)}});
  }
  return {{"method", a.alignment.method}, {"residual_ns", known(a.alignment.residual_ns)}, {"anchors", a.alignment.anchors},
          {"left_out", a.alignment.left_out}, {"ranks", std::move(ranks)}};
}

Json breakdownJson(const Trace& trace, const Breakdown& row) {
  Json out = {{"rank", rankJson(trace, row.lane.rank)}, {"device", row.lane.host ? Json() : known(row.lane.device)},
              {"span_ns", known(row.span_ns)}, {"idle_ns", known(row.idle_ns)}, {"compute_ns", known(row.compute_ns)},
              {"communication_ns", known(row.communication_ns)}, {"memory_ns", known(row.memory_ns)},
              {"exposed_comm_ns", known(row.exposed_communication_ns)}, {"exposed_memory_ns", known(row.exposed_memory_ns)},
              {"kernel_ns", known(row.span_ns)}, {"overlap", known(row.overlap)}, {"communication_events", row.communication_events},
              {"events", row.events}, {"start_ns", known(row.start_ns)}};
  if (!row.absent.empty()) out["absent"] = row.absent;
  else
    out["idle_why"] = {{"host_ns", row.idle_why.host_ns}, {"launch_ns", row.idle_why.launch_ns},
                       {"queued_ns", row.idle_why.queued_ns}, {"unknown_ns", row.idle_why.unknown_ns}};
  return out;
}

/// HTA's figures in the fields of the same names; what it does not know of is ours.
Json htaJson(const Trace& trace, const HtaRank& row) {
  const auto ns = [](std::int64_t us) { return us == kUnknown ? Json() : Json(us * 1000); };
  Json out = {{"rank", rankJson(trace, row.rank)}, {"span_ns", ns(row.kernel_us)}, {"idle_ns", ns(row.idle_us)},
              {"compute_ns", ns(row.compute_us)}, {"non_compute_ns", ns(row.non_compute_us)}, {"communication_ns", ns(row.communication_us)},
              {"kernel_ns", ns(row.kernel_us)}, {"overlap", known(row.overlap)}};
  if (!row.absent.empty()) out["absent"] = row.absent;
  out["streams"] = Json::array();
  for (const HtaStream& s : row.streams) {
    Json stream = {{"stream", known(s.stream)}};
    for (std::size_t k = 0; k < kHtaIdleNames.size(); ++k) stream[std::string(kHtaIdleNames[k]) + "_ns"] = s.idle_us[k] * 1000;
    stream["queue_length"] = s.queue_length ? statisticsJson(*s.queue_length) : Json();
    out["streams"].push_back(std::move(stream));
  }
  return out;
}

std::optional<double> overlapOf(const std::vector<HtaRank>& rows) {
  double overlapped = 0, communication = 0;
  for (const HtaRank& row : rows)
    if (row.overlap) {
      communication += static_cast<double>(row.communication_us);
      overlapped += *row.overlap * static_cast<double>(row.communication_us);
    }
  return communication > 0 ? std::optional(overlapped / communication) : std::nullopt;
}

void fillCollectives(Json& json, const Trace& trace, const Analysis& a) {
  json["collectives"] = Json::array();
  for (const MatchedCollective& c : a.collectives)
    for (const CollectivePart& part : c.parts) {
      Json row = {{"kind", textJson(trace, c.kind)}, {"group", textJson(trace, c.group)}, {"seq", known(c.sequence)},
                  {"bytes", known(trace.collectives[at(part.index)].bytes)}, {"rank", rankJson(trace, part.rank)},
                  {"wait_ns", known(part.wait_ns)}, {"transfer_ns", known(part.transfer_ns)}, {"blocked_ns", known(part.blocked_ns)},
                  {"start_ns", part.start_ns}, {"duration_ns", part.end_ns - part.start_ns}, {"bus_gbps", known(c.bus_gbps)}};
      if (!c.why_not.empty()) row["why_not"] = c.why_not;
      json["collectives"].push_back(std::move(row));
    }
  json["collective_totals"] = Json::array();
  for (const CollectiveTotal& t : a.collective_totals)
    json["collective_totals"].push_back({{"kind", textJson(trace, t.kind)}, {"group", textJson(trace, t.group)}, {"count", t.count}, {"parts", t.parts},
                                         {"bytes", t.bytes_unknown == t.parts ? Json() : Json(t.bytes)}, {"bytes_unknown", t.bytes_unknown},
                                         {"wait_ns", t.judged ? Json(t.wait_ns) : Json()}, {"transfer_ns", t.judged ? Json(t.transfer_ns) : Json()},
                                         {"judged", t.judged}, {"duration_ns", t.duration_ns}, {"bus_gbps", known(t.bus_gbps)}});
  json["stragglers"] = Json::array();
  for (const Straggler& s : a.stragglers)
    json["stragglers"].push_back({{"rank", rankJson(trace, s.rank)}, {"collectives", s.collectives}, {"last", s.last},
                                  {"caused_wait_ns", s.caused_wait_ns}, {"margin_ns", s.margin_ns}, {"own_wait_ns", s.own_wait_ns}});
}

void fillPath(Json& json, const Trace& trace, const Analysis& a) {
  constexpr std::size_t kMostSteps = 10'000;  // beyond, the longest: a script asks for what costs, not for 10^5 ops
  json["critical_path"] = Json::array();
  if (!a.path) {
    json["critical_path_error"] = {{"code", a.no_path->code}, {"message", a.no_path->message}};
    return;
  }
  const CriticalPath& path = *a.path;
  std::int64_t shortest = 0;
  if (path.steps.size() > kMostSteps) {
    std::vector<std::int64_t> lengths;
    for (const PathStep& s : path.steps) lengths.push_back(s.end_ns - s.start_ns);
    std::nth_element(lengths.begin(), lengths.begin() + kMostSteps, lengths.end(), std::greater<>());
    shortest = lengths[kMostSteps] + 1;
  }
  std::int64_t left_out = 0, left_out_ns = 0;
  for (const PathStep& s : path.steps) {
    if (s.end_ns - s.start_ns < shortest) {
      ++left_out, left_out_ns += s.end_ns - s.start_ns;
      continue;
    }
    const NodeIndex node = s.event == kNoIndex ? kNoIndex : trace.events.node[at(s.event)];
    Json row = {{"rank", rankJson(trace, s.rank)}, {"kind", nameOf(s.kind)}, {"name", s.event == kNoIndex ? Json() : textJson(trace, trace.events.name[at(s.event)])},
                {"node", node == kNoIndex ? Json() : textJson(trace, trace.nodes[at(node)].name)}, {"start_ns", s.start_ns}, {"duration_ns", s.end_ns - s.start_ns}};
    if (s.inferred) row["inferred"] = true;
    json["critical_path"].push_back(std::move(row));
  }
  Json kinds = Json::object();
  for (int k = 0; k < kPathKinds; ++k) kinds[std::string(nameOf(static_cast<PathKind>(k))) + "_ns"] = path.ns[static_cast<std::size_t>(k)];
  json["critical_path_total"] = {{"span_ns", path.end_ns - path.start_ns}, {"steps", path.steps.size()}, {"rank_changes", path.rank_changes},
                                 {"inferred", path.inferred}, {"left_out_steps", left_out}, {"left_out_ns", left_out_ns}, {"kinds", std::move(kinds)}};
}

void fillMemory(Json& json, const Trace& trace, const Analysis& a) {
  json["memory_peak"] = Json::array();
  for (const MemoryUse& use : a.memory) {
    Json classes = Json::object();
    for (const ClassBytes& c : use.at_peak) classes[c.memory_class ? std::string(trace.strings.text(c.memory_class)) : "not classified"] = c.bytes;
    json["memory_peak"].push_back({{"rank", rankJson(trace, use.rank)}, {"bytes", known(use.peak_bytes)},
                                   {"node", use.peak_node == kNoIndex ? Json() : textJson(trace, trace.nodes[at(use.peak_node)].name)},
                                   {"device", use.device < 0 ? Json() : Json(use.device)}, {"time_ns", known(use.peak_ns)},
                                   {"predicted_bytes", known(use.predicted_peak)}, {"reserved_bytes", known(use.peak_reserved)},
                                   {"before_recording_bytes", known(use.before_recording)}, {"classes", std::move(classes)},
                                   {"allocated_bytes", use.allocated}, {"freed_bytes", use.freed}, {"allocations", use.allocations}, {"frees", use.frees}});
  }
}

Json groupsJson(const Trace& trace, const Analysis& a, NodeKey key) {
  Json out = Json::array();
  for (const GroupTime& g : timeBy(trace, a.nodes, key))
    out.push_back({{"key", g.key}, {"total_ns", g.total_ns}, {"count", g.count}, {"nodes", g.nodes}, {"bytes", g.bytes}, {"bytes_unknown", g.bytes_unknown}});
  return out;
}

void fillNodes(Json& json, const Trace& trace, const Analysis& a, const Peak& peak) {
  std::vector<const NodeMemory*> memory(trace.nodes.size(), nullptr);
  for (const NodeMemory& m : a.node_memory)
    if (m.node != kNoIndex) memory[at(m.node)] = &m;
  std::vector<const RooflineRow*> roofs(a.nodes.size(), nullptr);
  const auto roof = roofline(trace, a.nodes, peak);
  for (const RooflineRow& r : roof) roofs[r.row] = &r;
  json["nodes"] = Json::array();
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    const NodeTime& n = a.nodes[i];
    Json row = {{"node", n.name == 0 ? Json() : Json(std::string(plainOpName(trace.strings.text(n.name))))}, {"total_ns", n.total_ns}, {"count", n.count},
                {"device_ns", known(n.device_ns)}, {"host_ns", known(n.host_ns)}, {"communication_ns", known(n.communication_ns)},
                {"wait_ns", known(n.wait_ns)}, {"bytes", known(n.bytes)}, {"bytes_unknown", n.bytes_unknown}};
    if (n.node != kNoIndex) {
      const GraphNode& g = trace.nodes[at(n.node)];
      row["id"] = known(g.id), row["op"] = textJson(trace, g.op), row["module"] = textJson(trace, g.module), row["source"] = textJson(trace, g.source);
      row["stage"] = textJson(trace, g.stage), row["phase"] = nameOf(g.phase), row["flops"] = known(g.flops), row["predicted_ns"] = known(g.predicted_ns);
      if (const NodeMemory* m = memory[at(n.node)]) row["allocated_bytes"] = m->allocated, row["freed_bytes"] = m->freed, row["net_bytes"] = m->net();
    }
    if (const RooflineRow* r = roofs[i])
      row["flops_per_second"] = r->flops_per_second, row["of_roofline"] = known(r->of_roofline), row["memory_bound"] = r->memory_bound;
    json["nodes"].push_back(std::move(row));
  }
  json["ops"] = groupsJson(trace, a, NodeKey::kOp);
  json["modules"] = groupsJson(trace, a, NodeKey::kModule);
  json["stages"] = groupsJson(trace, a, NodeKey::kStage);
  json["phases"] = groupsJson(trace, a, NodeKey::kPhase);
}

void fillAttention(Json& json, const Trace& trace, const Analysis& a) {
  json["attention"] = Json::array();
  for (const AttentionNode& n : a.attention) {
    const GraphNode& node = trace.nodes[at(n.node)];
    Json kernels = Json::array();
    for (const AttentionKernel& k : n.kernels) kernels.push_back({{"name", textJson(trace, k.name)}, {"count", k.count}, {"total_ns", k.total_ns}});
    json["attention"].push_back({{"node", textJson(trace, node.name)}, {"op", textJson(trace, node.op)}, {"phase", nameOf(node.phase)},
                                 {"on", n.on_device ? "device" : "host"}, {"kernels", std::move(kernels)}});
  }
}

void fillNames(Json& json, const Trace& trace, const Analysis& a) {
  json["names"] = Json::array();
  for (const NameTotal& n : a.names) {
    Json row = {{"name", textJson(trace, n.name)}, {"category", nameOf(n.category)}, {"work", n.work == Work::kNone ? Json() : Json(nameOf(n.work))},
                {"total_ns", n.total_ns}, {"bytes", n.bytes_unknown == n.statistics.count ? Json() : Json(n.bytes)}, {"bytes_unknown", n.bytes_unknown}};
    row["duration_ns"] = statisticsJson(n.statistics);
    json["names"].push_back(std::move(row));
  }
  json["outliers"] = Json::array();
  for (const Outlier& o : a.outliers.events)
    json["outliers"].push_back({{"name", textJson(trace, trace.events.name[at(o.event)])}, {"duration_ns", o.duration_ns}, {"fits_ns", o.fits_ns},
                                {"rank", rankJson(trace, trace.tracks[at(trace.events.track[at(o.event)])].rank)}});
  json["queues"] = Json::array();
  for (const QueueLength& q : a.queues) {
    const Track& t = trace.tracks[at(q.stream)];
    json["queues"].push_back({{"rank", rankJson(trace, t.rank)}, {"device", known(t.device)}, {"stream", known(t.stream)}, {"launched", q.launched},
                              {"length", q.length ? statisticsJson(*q.length) : Json()}});
  }
}

}  // namespace

Result<int> traceReport(const TraceFlags& flags, Report& report, const session::Request& request) {
  SP_ASSIGN(Trace trace, readTraces(flags.files, request));
  std::vector<HtaRank> hta;
  if (flags.hta) hta = htaBreakdown(trace);  // of the times as they are in the files
  SP_ASSIGN(const Analysis a, analyze(trace, request.cancel, request.progress));
  if (a.not_aligned) request.diagnostics->warn(a.not_aligned->code, a.not_aligned->message);
  if (a.no_path) request.diagnostics->warn(a.no_path->code, a.no_path->message);
  Json& json = report.json;
  fillTraceHead(json, trace, a.problems);
  json["alignment"] = alignmentJson(trace, a);
  Json own = Json::array();
  for (std::size_t i = 0; i < a.breakdown.size(); ++i) {
    own.push_back(breakdownJson(trace, a.breakdown[i]));
    own.back()["exposed_comm_on_path_ns"] = known(a.exposed_on_path[i]);
  }
  if (flags.hta) {
    json["breakdown"] = Json::array();
    for (const HtaRank& row : hta) json["breakdown"].push_back(htaJson(trace, row));
    json["overlap"] = known(overlapOf(hta));
    json["own_breakdown"] = std::move(own);
    json["own_overlap"] = known(a.overlap);
  } else {
    json["breakdown"] = std::move(own);
    json["overlap"] = known(a.overlap);
  }
  if (!a.without_outliers.empty()) {
    json["breakdown_without_outliers"] = Json::array();
    for (const Breakdown& row : a.without_outliers) json["breakdown_without_outliers"].push_back(breakdownJson(trace, row));
  }
  fillCollectives(json, trace, a);
  fillPath(json, trace, a);
  fillMemory(json, trace, a);
  const Peak peak{.flops_per_second = flags.peak_tflops * 1e12, .bytes_per_second = flags.peak_gbps * 1e9};
  fillNodes(json, trace, a, peak);
  fillAttention(json, trace, a);
  fillNames(json, trace, a);
  describeTrace(report.page, {.trace = trace, .analysis = a, .hta = hta, .peak = peak, .most = static_cast<std::size_t>(flags.most)});
  return 0;
}

}  // namespace spscope::app
