// SPDX-License-Identifier: Apache-2.0
// spscope trace info and trace export: what a trace file holds, and the same as a file of another format.
#include <algorithm>
#include <array>
#include <filesystem>

#include "app/commands/trace_actions.h"
#include "app/commands/trace_page.h"
#include "core/base/strings.h"
#include "profiler/analyze/analysis.h"
#include "profiler/export/chrome.h"
#include "profiler/export/csv.h"
#include "profiler/export/pictures.h"
#include "profiler/export/text_file.h"
#include "profiler/store/store.h"

namespace spscope::app {
namespace {

using namespace trace;
using Rows = std::vector<std::vector<std::string>>;

Json known(std::int64_t value) { return value == kUnknown ? Json() : Json(value); }
std::string shown(std::int64_t value) { return value == kUnknown ? "-" : std::to_string(value); }

void problemTable(Page& page, const Problems& problems) {
  if (problems.empty()) return page.line("No problems: nothing was mended, dropped or missing.");
  Rows rows{{"problem", "count", "first at", "meaning"}};
  for (const auto& [problem, seen] : problems.all()) {
    const ProblemInfo& info = problemInfo(problem);
    rows.push_back({std::string(info.name) + (info.loses_data ? " (data lost)" : ""), std::to_string(seen.count), seen.first, std::string(info.meaning)});
  }
  page.table(std::move(rows));
}

void propertyTable(Page& page, const Trace& trace) {
  if (trace.properties.empty()) return page.line("The trace names no settings.");
  Rows rows{{"setting", "value"}};
  for (const auto& [name, value] : trace.properties) rows.push_back({name, value});
  page.table(std::move(rows));
}

/// The ranks' times on one clock; where that is impossible, a warning, and the times stay as they are in the files.
Status alignRanks(Trace& trace, const session::Request& request) {
  const bool aligned = std::any_of(trace.ranks.begin(), trace.ranks.end(), [](const Rank& r) { return r.clock.method != "none"; });
  if (trace.ranks.size() < 2 || aligned) return request.cancel.check();
  const auto found = align(trace);
  if (found) applyAlignment(trace, *found);
  else request.diagnostics->warn(found.error().code, found.error().message);
  return request.cancel.check();
}

/// One file, or one a rank into a folder.
Result<Problems> exportChrome(const Trace& trace, const std::string& out, const session::Request& request) {
  ChromeOptions options;
  options.progress = request.progress;
  options.cancel = request.cancel;
  if (!out.ends_with("/") && !std::filesystem::is_directory(out)) return writeChrome(trace, out, options);
  std::error_code failed;
  const bool made = std::filesystem::create_directories(out, failed);
  Problems problems;
  std::vector<std::string> written;
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    options.rank = static_cast<std::int32_t>(r);
    const std::int64_t number = trace.ranks[r].number;
    written.push_back(out + (out.ends_with("/") ? "" : "/") + strf("rank%lld.json.gz", static_cast<long long>(number == kUnknown ? static_cast<std::int64_t>(r) : number)));
    const auto found = writeChrome(trace, written.back(), options);
    if (!found) {  // no half of an export
      written.pop_back();
      for (const std::string& file : written) std::filesystem::remove(file, failed);
      if (made) std::filesystem::remove(out, failed);
      return found.error();
    }
    problems.append(*found);
  }
  return problems;
}

Result<Problems> exportHtml(Trace& trace, const TraceFlags& flags, const session::Request& request) {
  SP_ASSIGN(const Analysis analysis, analyze(trace, request.cancel, request.progress));
  if (analysis.not_aligned) request.diagnostics->warn(analysis.not_aligned->code, analysis.not_aligned->message);
  Page page;
  const auto picture = [&](const Picture& p) {
    if (p.svg.empty()) return;
    page.heading(p.title);
    page.picture(p.svg);
    if (!p.note.empty()) page.line(p.note);
  };
  picture(timelinePicture(trace));
  picture(breakdownPicture(trace, analysis.breakdown));
  picture(memoryPicture(trace, analysis.memory));
  page.heading("Figures");
  describeTrace(page, {.trace = trace, .analysis = analysis, .hta = {}, .peak = {}, .most = static_cast<std::size_t>(flags.most)});
  page.heading("The plan");
  propertyTable(page, trace);
  if (trace.problems.empty() && analysis.problems.empty()) {  // the figures list them otherwise
    page.heading("Problems");
    problemTable(page, {});
  }
  SP_ASSIGN(TextFile file, TextFile::create(flags.out));
  file.buffer() = page.html("Trace of " + std::filesystem::path(flags.files.front()).filename().string() + (flags.files.size() > 1 ? strf(" and %zu more", flags.files.size() - 1) : ""));
  SP_TRY(file.close());
  return analysis.problems;
}

}  // namespace

Result<int> traceInfo(const TraceFlags& flags, Report& report, const session::Request& request) {
  SP_ASSIGN(const Trace trace, readTraces(flags.files, request));
  Json& json = report.json;
  fillTraceHead(json, trace, {});
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = std::numeric_limits<std::int64_t>::min();
  std::array<std::int64_t, kCategories> counts{};
  std::vector<std::int64_t> by_rank(trace.ranks.size());
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    first = std::min(first, trace.events.start[i]), last = std::max(last, trace.events.end[i]);
    ++counts[static_cast<std::size_t>(trace.events.category[i])];
    ++by_rank[static_cast<std::size_t>(trace.tracks[static_cast<std::size_t>(trace.events.track[i])].rank)];
  }
  report.page.line(strf("%s: %zu rank%s, %zu events%s, %zu names", trace.format.c_str(), trace.ranks.size(), trace.ranks.size() == 1 ? "" : "s", trace.events.size(),
                        trace.events.size() ? (" over " + formatNs(last - first)).c_str() : "", trace.strings.size()));
  json["start_ns"] = trace.events.size() ? Json(first) : Json();
  json["end_ns"] = trace.events.size() ? Json(last) : Json();
  json["by_rank"] = Json::array();
  report.page.heading("Ranks");
  Rows rows{{"rank", "of", "events", "dropped", "host", "backend", "clock", "file"}};
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    const Rank& rank = trace.ranks[r];
    json["by_rank"].push_back({{"rank", known(rank.number)}, {"world", known(rank.world)}, {"events", by_rank[r]}, {"dropped", rank.dropped}, {"host", rank.host}, {"backend", rank.backend}, {"pid", known(rank.pid)},
                               {"clock", rank.clock.method}, {"residual_ns", known(rank.clock.residual_ns)}, {"file", rank.file}});
    rows.push_back({shown(rank.number), shown(rank.world), std::to_string(by_rank[r]), std::to_string(rank.dropped), rank.host, rank.backend, rank.clock.method, std::filesystem::path(rank.file).filename().string()});
  }
  report.page.table(std::move(rows));
  report.page.heading("Contents");
  rows = {{"kind", "count"}};
  const auto add = [&](const std::string& name, std::int64_t count) {
    if (count > 0) rows.push_back({name, std::to_string(count)});
    return count;
  };
  json["categories"] = Json::object();
  for (int c = 0; c < kCategories; ++c) {
    const std::string name(nameOf(static_cast<Category>(c)));
    json["categories"][name] = add(name, counts[static_cast<std::size_t>(c)]);
  }
  json["collective_parts"] = add("part in a collective", static_cast<std::int64_t>(trace.collectives.size()));
  json["memory_events"] = add("allocation or free", static_cast<std::int64_t>(trace.memory.size()));
  json["counter_samples"] = add("sample of a counter", static_cast<std::int64_t>(trace.counters.size()));
  json["graph_nodes"] = add("node of the graph", static_cast<std::int64_t>(trace.nodes.size()));
  json["arrows"] = add("arrow", static_cast<std::int64_t>(trace.flows.size()));
  report.page.table(std::move(rows));
  json["properties"] = Json::object();
  for (const auto& [name, value] : trace.properties) json["properties"][name] = value;
  report.page.heading("Settings");
  propertyTable(report.page, trace);
  report.page.heading("Problems");
  problemTable(report.page, trace.problems);
  return 0;
}

Result<int> traceExport(const TraceFlags& flags, Report& report, const session::Request& request) {
  if (flags.to.empty() || flags.out.empty()) return makeError("usage", "trace export needs --to FORMAT and -o OUT", Outcome::kUsage);
  SP_ASSIGN(Trace trace, readTraces(flags.files, request));
  if (flags.to != "html") SP_TRY(alignRanks(trace, request));  // the page's analyses do it themselves
  Problems problems;
  if (flags.to == "nsys") {
    SP_TRY(writeStore(trace, flags.out, request.progress, request.cancel));
  } else if (flags.to == "chrome") {
    SP_ASSIGN(problems, exportChrome(trace, flags.out, request));
  } else if (flags.to == "csv") {
    SP_TRY(writeCsv(trace, flags.out, request.progress, request.cancel));
  } else {
    SP_ASSIGN(problems, exportHtml(trace, flags, request));
  }
  fillTraceHead(report.json, trace, problems);
  report.json["to"] = flags.to;
  report.json["out"] = flags.out;
  report.page.line(strf("%zu events of %zu rank%s written to %s", trace.events.size(), trace.ranks.size(), trace.ranks.size() == 1 ? "" : "s", flags.out.c_str()));
  Problems all = trace.problems;
  all.append(problems);
  if (!all.empty()) problemTable(report.page, all);
  return 0;
}

}  // namespace spscope::app
