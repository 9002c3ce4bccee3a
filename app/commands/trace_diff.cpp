// SPDX-License-Identifier: Apache-2.0
// spscope diff, of two traces: what ran in one and not in the other, what took longer.
#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "app/commands/trace_actions.h"
#include "core/base/strings.h"
#include "profiler/analyze/compare.h"

namespace spscope::app {
namespace {

using trace::ComparedRow;

Json rowJson(const ComparedRow& row) {
  const auto known = [](const std::optional<std::int64_t>& v) { return v ? Json(*v) : Json(); };
  return {{"node", row.name}, {"kind", row.kind}, {"a_ns", known(row.a_ns)}, {"b_ns", known(row.b_ns)}, {"a_count", known(row.a_count)}, {"b_count", known(row.b_count)},
          {"a_each_ns", known(row.aEachNs())}, {"b_each_ns", known(row.bEachNs())}};
}

void list(Page& page, const char* title, const std::vector<ComparedRow>& rows) {
  constexpr std::size_t kMost = 20;
  if (rows.empty()) return;
  page.heading(strf("%s: %zu", title, rows.size()));
  std::vector<std::vector<std::string>> table{{"before", "after", "change", "times before", "times after", "kind", "name"}};
  const auto time = [](const std::optional<std::int64_t>& ns) { return ns ? formatNs(*ns) : "-"; };
  const auto count = [](const std::optional<std::int64_t>& n) { return n ? std::to_string(*n) : "-"; };
  for (std::size_t i = 0; i < rows.size() && i < kMost; ++i) {
    const ComparedRow& r = rows[i];
    const std::int64_t change = r.changeNs();
    table.push_back({time(r.counts_differ ? r.aEachNs() : r.a_ns), time(r.counts_differ ? r.bEachNs() : r.b_ns), (change > 0 ? "+" : "") + formatNs(change), count(r.a_count), count(r.b_count), r.kind + (r.counts_differ ? ", each" : ""), r.name});
  }
  page.table(std::move(table));
  if (rows.size() > kMost) page.line(strf("and %zu more; all of them with --json", rows.size() - kMost));
}

}  // namespace

bool looksLikeTrace(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  char head[64] = {};
  in.read(head, sizeof head);
  const std::string_view text(head, static_cast<std::size_t>(in.gcount()));
  if (text.starts_with("SQLite format 3") || text.starts_with("\x1f\x8b")) return true;
  const std::size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  return first != std::string_view::npos && (text[first] == '{' || text[first] == '[');
}

Result<int> diffTraces(const std::string& a, const std::string& b, bool exit_code, Report& report, const session::Request& request) {
  SP_ASSIGN(const trace::Trace before, readTraces({a}, request));
  SP_ASSIGN(const trace::Trace after, readTraces({b}, request));
  const trace::Comparison diff = trace::compareTraces(before, after);
  const bool equal = diff.added.empty() && diff.removed.empty() && diff.changed.empty();
  Json& json = report.json;
  json["a"] = a;
  json["b"] = b;
  for (const auto& [name, rows] : {std::pair{"added", &diff.added}, {"removed", &diff.removed}, {"changed", &diff.changed}}) {
    json[name] = Json::array();
    for (const ComparedRow& row : *rows) json[name].push_back(rowJson(row));
  }
  json["same"] = diff.same;
  json["equal"] = equal;
  json["counts_differ"] = diff.counts_differ;
  report.page.line(strf("%zu added, %zu removed, %zu changed, %lld the same", diff.added.size(), diff.removed.size(), diff.changed.size(),
                        static_cast<long long>(diff.same)));
  if (diff.counts_differ > 0)
    report.page.line(strf("%lld ran a different number of times (other steps?): of these (\"each\") the time of one execution is compared",
                          static_cast<long long>(diff.counts_differ)));
  list(report.page, "Changed", diff.changed);
  list(report.page, "Added", diff.added);
  list(report.page, "Removed", diff.removed);
  return exit_code && !equal ? 1 : 0;
}

}  // namespace spscope::app
