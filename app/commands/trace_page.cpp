// SPDX-License-Identifier: Apache-2.0
#include "app/commands/trace_page.h"

#include "app/commands/trace_actions.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/base/strings.h"

namespace spscope::app {
namespace {

using namespace trace;
using Rows = std::vector<std::vector<std::string>>;

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
std::string count(std::int64_t n) { return std::to_string(n); }
std::string time(std::int64_t ns) { return ns == kUnknown ? "-" : formatNs(ns); }
std::string bytes(std::int64_t n) { return n == kUnknown ? "-" : formatBytes(n); }
std::string share(std::int64_t part, std::int64_t whole) {
  return part == kUnknown || whole <= 0 ? "-" : strf("%.1f%%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}
/// "12.3 ms (31.0%)"
std::string of(std::int64_t part, std::int64_t whole) {
  if (part == kUnknown) return "-";
  return part == 0 || whole <= 0 ? time(part) : time(part) + " (" + share(part, whole) + ")";
}
std::string percent(const std::optional<double>& s) { return s ? strf("%.2f%%", 100 * *s) : "n/a"; }

/// Kernel names of templates fill pages.
std::string shortName(std::string_view name) {
  constexpr std::size_t kMost = 72;
  if (name.empty()) return "(not attributed)";
  if (name.size() <= kMost) return std::string(name);
  std::size_t end = kMost - 3;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;  // not inside a character
  return std::string(name.substr(0, end)) + "...";
}

class Writer {
 public:
  Writer(Page& page, const TracePage& what) : page_(page), what_(what), t_(what.trace), a_(what.analysis) {}

  void write() {
    head();
    if (virtualRanks(t_)) page_.line("Virtual ranks: they took turns in one process, so that communication is copying there, and waiting is waiting for one's turn.");
    breakdown();
    hta();
    outliers();
    collectives();
    path();
    memory();
    nodes();
    attention();
    names();
  }

 private:
  std::string rank(std::int32_t r) const {
    const std::int64_t number = t_.ranks[at(r)].number;
    return number == kUnknown ? "#" + std::to_string(r) : std::to_string(number);
  }
  std::string text(StringId id) const { return shortName(t_.strings.text(id)); }
  void more(std::size_t rows) {
    if (rows > what_.most) page_.line(strf("and %zu more; all of them with --json", rows - what_.most));
  }

  void head() {
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = std::numeric_limits<std::int64_t>::min(), dropped = 0;
    for (std::size_t i = 0; i < t_.events.size(); ++i) first = std::min(first, t_.events.start[i]), last = std::max(last, t_.events.end[i]);
    for (const Rank& r : t_.ranks) dropped += r.dropped;
    page_.line(strf("%s: %zu rank%s, %zu events%s", t_.format.c_str(), t_.ranks.size(), t_.ranks.size() == 1 ? "" : "s", t_.events.size(),
                    t_.events.size() ? (" over " + formatNs(last - first)).c_str() : ""));
    if (dropped > 0) page_.line(strf("dropped %lld events while recording: sums are lower bounds", static_cast<long long>(dropped)));
    if (t_.ranks.size() > 1) {
      if (a_.not_aligned) page_.line("Clocks: not aligned, " + a_.not_aligned->message);
      else {
        double drift = 0;
        for (const Clock& c : a_.alignment.clocks) drift = std::max(drift, std::abs(c.drift_ppb));
        page_.line("Clocks: " + a_.alignment.method + ", residual " + time(a_.alignment.residual_ns) +
                   (drift > 0 ? strf(", drift up to %.2f ppm", drift / 1000) : "") +
                   (a_.alignment.left_out ? strf(", %lld anchors left out", static_cast<long long>(a_.alignment.left_out)) : ""));
      }
    }
    Problems all = t_.problems;
    all.append(a_.problems);
    if (all.empty()) return;
    page_.heading("Problems");
    Rows rows{{"times", "what", "first"}};
    for (const auto& [problem, seen] : all.all()) rows.push_back({count(seen.count), std::string(problemInfo(problem).meaning), seen.first});
    page_.table(std::move(rows));
  }

  Rows breakdownRows(const std::vector<Breakdown>& list) const {
    Rows rows{{"rank", "on", "span", "compute", "exposed comm.", "exposed memory", "idle", "communication", "overlapped"}};
    for (const Breakdown& b : list) {
      const std::string on = b.lane.host ? "host" : b.lane.device == kUnknown ? "device" : "device " + std::to_string(b.lane.device);
      if (!b.absent.empty()) rows.push_back({rank(b.lane.rank), on, "absent: " + b.absent});
      else
        rows.push_back({rank(b.lane.rank), on, time(b.span_ns), of(b.compute_ns, b.span_ns), of(b.exposed_communication_ns, b.span_ns),
                        of(b.exposed_memory_ns, b.span_ns), of(b.idle_ns, b.span_ns), time(b.communication_ns), percent(b.overlap)});
    }
    return rows;
  }

  void breakdown() {
    page_.heading("Where the time went");
    page_.table(breakdownRows(a_.breakdown));
    Rows why{{"rank", "idle", "host late", "launching", "queued", "not known", "exposed comm. on the critical path"}};
    bool any = false;
    for (std::size_t i = 0; i < a_.breakdown.size(); ++i) {
      const Breakdown& b = a_.breakdown[i];
      if (!b.absent.empty() || (b.idle_ns == 0 && b.exposed_communication_ns == 0)) continue;
      any = true;
      const auto& on_path = a_.exposed_on_path[i];
      why.push_back({rank(b.lane.rank), time(b.idle_ns), time(b.idle_why.host_ns), time(b.idle_why.launch_ns), time(b.idle_why.queued_ns),
                     time(b.idle_why.unknown_ns), on_path ? of(*on_path, b.exposed_communication_ns) : "-"});
    }
    if (any) page_.table(std::move(why));
  }

  void hta() {
    if (what_.hta.empty()) return;
    page_.heading("By Holistic Trace Analysis' definitions");
    Rows rows{{"rank", "kernel", "idle", "compute", "non-compute", "overlap"}};
    for (const HtaRank& r : what_.hta) {
      const auto us = [&](std::int64_t v) { return strf("%lld us (%s)", static_cast<long long>(v), share(v, r.kernel_us).c_str()); };
      if (!r.absent.empty()) rows.push_back({rank(r.rank), "absent: " + r.absent});
      else rows.push_back({rank(r.rank), us(r.kernel_us), us(r.idle_us), us(r.compute_us), us(r.non_compute_us), percent(r.overlap)});
    }
    page_.table(std::move(rows));
  }

  void outliers() {
    const Outliers& o = a_.outliers;
    if (o.events.empty()) return;
    page_.heading(strf("%zu durations that cannot be: %s, %s of all device work", o.events.size(), time(o.duration_ns).c_str(), share(o.duration_ns, o.device_ns).c_str()));
    Rows rows{{"duration", "room", "rank", "name"}};
    for (std::size_t i = 0; i < o.events.size() && i < what_.most; ++i) {
      const auto e = at(o.events[i].event);
      rows.push_back({time(o.events[i].duration_ns), time(o.events[i].fits_ns), rank(t_.tracks[at(t_.events.track[e])].rank), text(t_.events.name[e])});
    }
    page_.table(std::move(rows));
    more(o.events.size());
    page_.line("Without them:");
    page_.table(breakdownRows(a_.without_outliers));
  }

  void collectives() {
    if (a_.collectives.empty()) return;
    page_.heading("Collectives");
    Rows rows{{"kind", "group", "times", "bytes", "waiting", "transfer", "in all", "bus GB/s"}};
    for (std::size_t i = 0; i < a_.collective_totals.size() && i < what_.most; ++i) {
      const CollectiveTotal& t = a_.collective_totals[i];
      const std::string size = t.bytes_unknown == t.parts ? "-" : (t.bytes_unknown ? "at least " : "") + bytes(t.bytes);
      rows.push_back({text(t.kind), t.group ? text(t.group) : "-", count(t.count), size, t.judged ? time(t.wait_ns) : "-", t.judged ? time(t.transfer_ns) : "-",
                      time(t.duration_ns), t.bus_gbps ? strf("%.2f", *t.bus_gbps) : "-"});
    }
    page_.table(std::move(rows));
    more(a_.collective_totals.size());
    std::map<std::string, std::int64_t> why;
    for (const MatchedCollective& c : a_.collectives)
      if (!c.why_not.empty()) ++why[c.why_not];
    for (const auto& [reason, times] : why)
      page_.line(strf("Waiting and transfer are not told apart for %lld of %zu: %s", static_cast<long long>(times), a_.collectives.size(), reason.c_str()));
    if (a_.stragglers.empty() || a_.stragglers.front().caused_wait_ns == 0) return;
    page_.heading("Who the others waited for");
    Rows blame{{"rank", "arrived last", "made others wait", "later than the next", "waited itself"}};
    for (std::size_t i = 0; i < a_.stragglers.size() && i < what_.most; ++i) {
      const Straggler& s = a_.stragglers[i];
      blame.push_back({rank(s.rank), strf("%lld of %lld", static_cast<long long>(s.last), static_cast<long long>(s.collectives)), time(s.caused_wait_ns), time(s.margin_ns), time(s.own_wait_ns)});
    }
    page_.table(std::move(blame));
    more(a_.stragglers.size());
  }

  void path() {
    page_.heading("Critical path");
    if (!a_.path) {
      page_.line("Not found: " + a_.no_path->message);
      return;
    }
    const CriticalPath& path = *a_.path;
    const std::int64_t span = path.end_ns - path.start_ns;
    std::vector<std::string> kinds;
    std::vector<int> order{0, 1, 2, 3, 4, 5};
    std::stable_sort(order.begin(), order.end(), [&](int x, int y) { return path.ns[at(x)] > path.ns[at(y)]; });
    for (const int k : order)
      if (path.ns[at(k)] > 0) kinds.push_back(std::string(nameOf(static_cast<PathKind>(k))) + " " + share(path.ns[at(k)], span));
    page_.line(strf("%s: %s; %lld changes of rank, %lld steps inferred", time(span).c_str(), join(kinds, ", ").c_str(),
                    static_cast<long long>(path.rank_changes), static_cast<long long>(path.inferred)));
    struct Sum {
      std::int64_t ns = 0, times = 0;
    };
    std::map<std::pair<PathKind, StringId>, Sum> sums;
    for (const PathStep& s : path.steps) {
      Sum& sum = sums[{s.kind, s.event == kNoIndex || s.kind == PathKind::kGap ? 0 : t_.events.name[at(s.event)]}];
      sum.ns += s.end_ns - s.start_ns, ++sum.times;
    }
    std::vector<std::pair<std::pair<PathKind, StringId>, Sum>> list(sums.begin(), sums.end());
    std::stable_sort(list.begin(), list.end(), [](const auto& x, const auto& y) { return x.second.ns > y.second.ns; });
    Rows rows{{"on the path", "times", "kind", "name"}};
    for (std::size_t i = 0; i < list.size() && i < what_.most; ++i) {
      const auto& [key, sum] = list[i];
      rows.push_back({of(sum.ns, span), count(sum.times), std::string(nameOf(key.first)), key.first == PathKind::kGap ? "nothing recorded" : text(key.second)});
    }
    page_.table(std::move(rows));
    more(list.size());
  }

  void memory() {
    if (a_.memory.empty()) return;
    page_.heading("Memory");
    Rows rows{{"rank", "on", "peak", "predicted", "before", "at node"}};
    for (const MemoryUse& m : a_.memory)
      rows.push_back({rank(m.rank), m.device < 0 ? "host" : "device " + std::to_string(m.device), bytes(m.peak_bytes), bytes(m.predicted_peak),
                      bytes(m.before_recording), m.peak_node == kNoIndex ? "-" : text(t_.nodes[at(m.peak_node)].name)});
    page_.table(std::move(rows));
    const MemoryUse& most = *std::max_element(a_.memory.begin(), a_.memory.end(), [](const auto& x, const auto& y) { return x.peak_bytes < y.peak_bytes; });
    if (most.at_peak.empty() || (most.at_peak.size() == 1 && most.at_peak[0].memory_class == 0)) return;
    page_.line("At the peak of rank " + rank(most.rank) + ":");
    Rows classes{{"bytes", "share", "class"}};
    for (const ClassBytes& c : most.at_peak)
      classes.push_back({bytes(c.bytes), share(c.bytes, most.peak_bytes), c.memory_class ? text(c.memory_class) : "not classified"});
    page_.table(std::move(classes));
  }

  void nodes() {
    if (a_.nodes.empty()) return;
    std::int64_t total = 0;
    bool graph = false;
    for (const NodeTime& n : a_.nodes) total += n.total_ns, graph |= n.node != kNoIndex;
    if (total <= 0) return;
    page_.heading(graph ? "Nodes" : "Ops");
    const auto roof = roofline(t_, a_.nodes, what_.peak);
    std::map<std::size_t, const RooflineRow*> roofs;
    for (const RooflineRow& r : roof) roofs[r.row] = &r;
    Rows rows{{"time", "times", "moved", "name"}};
    if (graph) rows[0] = {"time", "times", "moved", "GFLOP/s", "of the roofline", "node", "op", "source"};
    for (std::size_t i = 0; i < a_.nodes.size() && i < what_.most; ++i) {
      const NodeTime& n = a_.nodes[i];
      std::vector<std::string> row{of(n.total_ns, total), count(n.count), bytes(n.bytes)};
      if (graph) {
        const RooflineRow* r = roofs.contains(i) ? roofs[i] : nullptr;
        row.push_back(r ? strf("%.1f", r->flops_per_second / 1e9) : "-");
        row.push_back(r && r->of_roofline ? strf("%.1f%%%s", 100 * *r->of_roofline, r->memory_bound ? " of memory" : "") : "-");
      }
      row.push_back(shortName(plainOpName(t_.strings.text(n.name))));
      if (graph && n.node != kNoIndex) row.push_back(text(t_.nodes[at(n.node)].op)), row.push_back(t_.nodes[at(n.node)].source ? text(t_.nodes[at(n.node)].source) : "");
      rows.push_back(std::move(row));
    }
    page_.table(std::move(rows));
    more(a_.nodes.size());
    if (!graph) return;
    for (const auto& [key, title] : {std::pair{NodeKey::kPhase, "Phases"}, {NodeKey::kStage, "Stages that made the nodes"}, {NodeKey::kModule, "Modules"}, {NodeKey::kOp, "Ops"}}) {
      const auto groups = timeBy(t_, a_.nodes, key);
      if (groups.size() < 2) continue;
      page_.heading(title);
      Rows list{{"time", "nodes", "times", "name"}};
      for (std::size_t i = 0; i < groups.size() && i < what_.most; ++i)
        list.push_back({of(groups[i].total_ns, total), count(groups[i].nodes), count(groups[i].count), groups[i].key.empty() ? "(none)" : shortName(groups[i].key)});
      page_.table(std::move(list));
      more(groups.size());
    }
  }

  /// Nodes that ran the same kernels as often are one row.
  void attention() {
    if (a_.attention.empty()) return;
    struct Same {
      std::int64_t nodes = 0, ns = 0, times = 0;
    };
    std::map<std::array<std::string, 3>, Same> rows_of;
    for (const AttentionNode& n : a_.attention)
      for (const AttentionKernel& k : n.kernels) {
        Same& row = rows_of[{text(t_.nodes[at(n.node)].op), n.on_device ? "device" : "host", text(k.name)}];
        ++row.nodes, row.ns += k.total_ns, row.times += k.count;
      }
    page_.heading("Attention: what really ran");
    Rows rows{{"time", "times", "nodes", "node's op", "on", "kernel"}};
    for (const auto& [key, row] : rows_of) rows.push_back({time(row.ns), count(row.times), count(row.nodes), key[0], key[1], key[2]});
    page_.table(std::move(rows));
  }

  void names() {
    std::vector<const NameTotal*> works;
    std::int64_t total = 0;
    for (const NameTotal& n : a_.names)
      if (isDeviceWork(n.category)) works.push_back(&n), total += n.total_ns;
    if (works.empty()) return;
    page_.heading("Kernels, copies, sets");
    Rows rows{{"time", "times", "median", "deviation", "counts as", "name"}};
    for (std::size_t i = 0; i < works.size() && i < what_.most; ++i) {
      const Statistics& s = works[i]->statistics;
      rows.push_back({of(works[i]->total_ns, total), count(s.count), time(static_cast<std::int64_t>(s.median)),
                      s.deviation ? time(static_cast<std::int64_t>(*s.deviation)) : "-", std::string(nameOf(works[i]->work)), text(works[i]->name)});
    }
    page_.table(std::move(rows));
    more(works.size());
  }

  Page& page_;
  const TracePage& what_;
  const Trace& t_;
  const Analysis& a_;
};

}  // namespace

void describeTrace(Page& page, const TracePage& what) { Writer(page, what).write(); }

}  // namespace spscope::app
