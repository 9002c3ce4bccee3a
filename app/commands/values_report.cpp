// SPDX-License-Identifier: Apache-2.0
#include "app/commands/values_report.h"

#include <algorithm>
#include <map>

#include "app/commands/compile_report.h"
#include "core/base/strings.h"

namespace spscope::app {
namespace {

using passes::Decision;
using passes::ValueDecision;

constexpr std::size_t kShown = 20;

std::string decisionName(Decision decision) {
  return decision == Decision::kSave ? "saved" : decision == Decision::kRecompute ? "recomputed" : "freed";
}

struct Shown {
  const passes::MemoryReport* report = nullptr;
  const ir::Graph* graph = nullptr;
  std::string source(const ValueDecision& v) const {
    const ir::Node& node = graph->node(v.node);
    return node.location ? node.location->source : std::string();
  }
  const std::string& name(const ValueDecision& v) const { return graph->value(v.value).name; }
};

Shown shownOf(const session::CompileOutcome& outcome) {
  const int shown = shownProgram(outcome);
  if (shown < 0) return {};
  return {&outcome.compiled.memory[static_cast<std::size_t>(shown)], outcome.compiled.programs[static_cast<std::size_t>(shown)].get()};
}

}  // namespace

void addValuesJson(Json& json, const session::CompileOutcome& outcome) {
  json["values"] = Json::array();
  const Shown shown = shownOf(outcome);
  if (shown.report == nullptr) return;
  for (const ValueDecision& v : shown.report->values)
    json["values"].push_back({{"node", shown.name(v)},
                              {"source", shown.source(v)},
                              {"decision", decisionName(v.decision)},
                              {"reason", passes::reasonText(v.reason)},
                              {"bytes", v.bytes},
                              {"recompute_ns", v.recompute_ns}});
}

void addValuesPage(Page& page, const session::CompileOutcome& outcome) {
  const Shown shown = shownOf(outcome);
  if (shown.report == nullptr || shown.report->values.empty()) return;
  page.heading("Why values are kept, made again or freed (" + shown.report->policy + ")");
  struct Sum {
    std::int64_t values = 0, bytes = 0;
  };
  std::map<std::pair<Decision, passes::SavingReason>, Sum> sums;
  for (const ValueDecision& v : shown.report->values) {
    Sum& sum = sums[{v.decision, v.reason}];
    ++sum.values;
    sum.bytes += v.bytes;
  }
  std::vector<std::vector<std::string>> reasons{{"decision", "values", "bytes", "why"}};
  for (const Decision decision : {Decision::kSave, Decision::kRecompute, Decision::kFree})
    for (const auto& [key, sum] : sums)
      if (key.first == decision)
        reasons.push_back({decisionName(decision), std::to_string(sum.values), formatBytes(sum.bytes), std::string(passes::reasonText(key.second))});
  page.table(std::move(reasons));

  std::vector<const ValueDecision*> largest;
  for (const ValueDecision& v : shown.report->values)
    if (v.decision != Decision::kFree) largest.push_back(&v);
  std::stable_sort(largest.begin(), largest.end(), [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  std::vector<std::vector<std::string>> rows{{"value", "source", "bytes", "made again in", "decision", "why"}};
  for (std::size_t i = 0; i < largest.size() && i < kShown; ++i) {
    const ValueDecision& v = *largest[i];
    rows.push_back({"%" + shown.name(v), shown.source(v), formatBytes(v.bytes), formatNs(v.recompute_ns), decisionName(v.decision),
                    std::string(passes::reasonText(v.reason))});
  }
  if (rows.size() == 1) return;
  page.line(strf("the largest of %zu values that the backward needs:", largest.size()));
  page.table(std::move(rows));
}

}  // namespace spscope::app
