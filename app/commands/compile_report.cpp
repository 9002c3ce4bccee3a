// SPDX-License-Identifier: Apache-2.0
#include "app/commands/compile_report.h"

#include <algorithm>

#include "core/base/strings.h"

namespace spscope::app {
namespace {

double seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

std::string count(std::int64_t n) { return std::to_string(n); }

const passes::StageRecord* stageOf(const session::CompileOutcome& outcome, std::string_view name) {
  for (const passes::StageRecord& s : outcome.compiled.stages)
    if (s.name == name) return &s;
  return nullptr;
}

std::int64_t statistic(const passes::StageRecord& stage, const std::string& name) {
  const auto it = stage.statistics.find(name);
  return it == stage.statistics.end() ? 0 : it->second;
}

/// What became of attention masks and of the logits.
void addMasksAndLoss(Page& page, const session::CompileOutcome& outcome, const passes::Settings& settings) {
  if (const passes::StageRecord* masks = stageOf(outcome, "recognise-masks")) {
    const std::int64_t read = statistic(*masks, "recognised"), kept = statistic(*masks, "kept");
    if (read > 0) page.line(strf("masks of %lld attentions are read, none of their S x S elements is made:", static_cast<long long>(read)));
    if (kept > 0) page.line(strf("masks of %lld attentions stay whole on every rank:", static_cast<long long>(kept)));
    for (const Diagnostic& d : masks->diagnostics) page.line("  " + d.node + " " + d.source + ": " + d.message);
  }
  if (const passes::StageRecord* tiled = stageOf(outcome, "tile-loss"); tiled && settings.tile_loss)
    page.line(strf("tiled loss: %lld of %lld; logits of %s on a rank exist at most %s at a time", static_cast<long long>(statistic(*tiled, "tiled")),
                   static_cast<long long>(statistic(*tiled, "tiled") + statistic(*tiled, "untiled")), formatBytes(statistic(*tiled, "logit_bytes")).c_str(),
                   formatBytes(std::min(settings.tile_bytes, statistic(*tiled, "logit_bytes"))).c_str()));
}

}  // namespace

int shownProgram(const session::CompileOutcome& outcome) {
  const auto& all = outcome.compiled.memory;
  const auto highest = std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.choice().peak_bytes < b.choice().peak_bytes;
  });
  return highest == all.end() ? -1 : static_cast<int>(highest - all.begin());
}

const passes::MemoryReport* shownReport(const session::CompileOutcome& outcome) {
  const int shown = shownProgram(outcome);
  return shown < 0 ? nullptr : &outcome.compiled.memory[static_cast<std::size_t>(shown)];
}

void addCompileJson(Json& json, const session::CompileOutcome& outcome) {
  const session::CompileFigures& f = outcome.figures;
  json["plan_hash"] = outcome.compiled.plan_hash;
  json["sharded"] = outcome.sharded;
  json["stages"] = Json::array();
  for (const passes::StageRecord& s : outcome.compiled.stages) {
    Json stage = {{"name", s.name},   {"seconds", seconds(s.ns)},     {"changed", s.changed_nodes},
                  {"nodes", s.nodes}, {"peak_bytes", s.peak_bytes}, {"comm_bytes", s.comm_bytes}};
    if (!s.statistics.empty()) stage["statistics"] = s.statistics;
    json["stages"].push_back(std::move(stage));
  }
  const auto totals = [&](const char* name, const std::vector<passes::CollectiveTotal>& list) {
    json[name] = Json::array();
    for (const auto& c : list) json[name].push_back({{"kind", c.kind}, {"count", c.count}, {"bytes", c.bytes}});
  };
  totals("collectives", f.collectives);
  totals("collectives_fused", f.collectives_fused);
  json["expected_all_to_all"] = f.expected_all_to_all;
  json["inserted_all_to_all"] = f.inserted_all_to_all;
  json["gathers"] = Json::array();
  for (const auto& g : f.gathers)
    json["gathers"].push_back({{"node", plainNode(g.node)}, {"source", g.source}, {"reason", g.reason}});
  if (const passes::StageRecord* masks = stageOf(outcome, "recognise-masks")) {
    json["masks"] = {{"recognised", statistic(*masks, "recognised")}, {"kept", statistic(*masks, "kept")}, {"notes", Json::array()}};
    for (const Diagnostic& d : masks->diagnostics)
      json["masks"]["notes"].push_back({{"node", plainNode(d.node)}, {"source", d.source}, {"code", d.code}, {"message", d.message}});
  }
  json["saved"] = {{"tensors", f.saved_tensors}, {"bytes", f.saved_bytes}};
  json["recomputed"] = {{"nodes", f.recomputed_nodes},
                        {"views", f.recomputed_views},
                        {"collectives", f.recomputed_collectives},
                        {"attention", f.recomputed_attention},
                        {"matmul", f.recomputed_matmul}};
  Json memory = Json::object();
  for (std::size_t c = 0; c < passes::kMemoryClasses; ++c)
    memory[std::string(passes::memoryClassName(static_cast<passes::MemoryClass>(c)))] = f.memory.at_peak[c];
  memory["peak"] = f.memory.peak;
  memory["working_peak"] = f.memory.working_peak;
  memory["step_peak"] = f.memory.stepPeak();
  memory["peak_node"] = f.peak_node;
  memory["peak_source"] = f.peak_source;
  json["memory"] = std::move(memory);
  json["largest_values"] = Json::array();
  for (const auto& [node, bytes] : f.largest_values)
    json["largest_values"].push_back({{"node", node}, {"bytes", bytes}});
  json["curve"] = Json::array();
  if (const passes::MemoryReport* report = shownReport(outcome)) {
    const auto point = [&](const passes::SavingPoint& p, bool chosen) {
      json["curve"].push_back({{"peak_bytes", p.peak_bytes}, {"recompute_flops", p.recompute_flops},
                               {"recompute_ns", p.recompute_ns}, {"price", p.price < 0 ? Json() : Json(p.price)},
                               {"saved_bytes", p.saved_bytes}, {"working_peak", p.working_peak},
                               {"recompute_nodes", p.recompute_nodes}, {"recompute_matmuls", p.recompute_matmuls},
                               {"chosen", chosen}});
    };
    for (std::size_t i = 0; i < report->points.size(); ++i) point(report->points[i], static_cast<int>(i) == report->chosen);
    point(report->save_all, report->chosen < 0);
  }
  json["scaling"] = outcome.scaling;
}

void addCompilePage(Page& page, const session::CompileOutcome& outcome, const passes::Settings& settings) {
  const session::CompileFigures& f = outcome.figures;
  page.heading("Stages");
  std::vector<std::vector<std::string>> rows{{"stage", "time", "changed", "nodes", "sent per rank", "peak per rank"}};
  for (const passes::StageRecord& s : outcome.compiled.stages)
    rows.push_back({s.name, formatNs(s.ns), count(s.changed_nodes), count(s.nodes),
                    s.comm_bytes ? formatBytes(s.comm_bytes) : "-", s.peak_bytes ? formatBytes(s.peak_bytes) : "-"});
  page.table(std::move(rows));
  page.line("plan " + outcome.compiled.plan_hash);
  addMasksAndLoss(page, outcome, settings);

  page.heading("Communication in one step");
  if (f.collectives.empty()) page.line("none");
  std::vector<std::vector<std::string>> kinds{{"collective", "operands", "issued", "sent per rank"}};
  for (std::size_t i = 0; i < f.collectives.size(); ++i)
    kinds.push_back({f.collectives[i].kind, count(f.collectives[i].count), count(f.collectives_fused[i].count), formatBytes(f.collectives[i].bytes)});
  if (kinds.size() > 1) page.table(std::move(kinds));
  if (settings.ranks() > 1)
    page.line(strf("all-to-all in the forward: %lld of %lld expected for attention", static_cast<long long>(f.inserted_all_to_all),
                   static_cast<long long>(f.expected_all_to_all)));
  if (!f.gathers.empty()) {
    page.line(strf("%zu values are gathered (right, but they do not scale):", f.gathers.size()));
    for (std::size_t i = 0; i < f.gathers.size() && i < 10; ++i)
      page.line("  %" + plainNode(f.gathers[i].node) + " " + f.gathers[i].source + ": " + f.gathers[i].reason);
    if (f.gathers.size() > 10) page.line(strf("  and %zu more", f.gathers.size() - 10));
  }

  page.heading("Memory of one rank, predicted");
  std::vector<std::vector<std::string>> classes{{"class", "at the peak"}};
  for (std::size_t c = 0; c < passes::kMemoryClasses; ++c)
    classes.push_back({std::string(passes::memoryClassName(static_cast<passes::MemoryClass>(c))), formatBytes(f.memory.at_peak[c])});
  classes.push_back({"peak", formatBytes(f.memory.peak)});
  page.table(std::move(classes));
  if (!f.peak_node.empty())
    page.line("peak at %" + f.peak_node + (f.peak_source.empty() ? "" : " (" + f.peak_source + ")"));
  page.line(strf("saved for the backward: %s in %lld tensors; run again: %lld nodes (%lld views, %lld matrix products, %lld attention, %lld collectives)",
                 formatBytes(f.saved_bytes).c_str(), static_cast<long long>(f.saved_tensors),
                 static_cast<long long>(f.recomputed_nodes), static_cast<long long>(f.recomputed_views), static_cast<long long>(f.recomputed_matmul),
                 static_cast<long long>(f.recomputed_attention), static_cast<long long>(f.recomputed_collectives)));
  if (const passes::MemoryReport* report = shownReport(outcome); report && !report->points.empty()) {
    const bool measured = settings.flops_per_ns > 0 || settings.bytes_per_ns > 0;
    page.heading(strf("Peak against what is run again (price: bytes that a nanosecond of it is worth; times at %s rates)", measured ? "measured" : "nominal"));
    std::vector<std::vector<std::string>> curve{{"price", "saved", "peak", "activations + temporaries", "run again", "nodes", "products", ""}};
    const auto point = [&](const passes::SavingPoint& p, bool chosen) {
      curve.push_back({p.price < 0 ? "-" : strf("%.3g", p.price), formatBytes(p.saved_bytes), formatBytes(p.peak_bytes), formatBytes(p.working_peak),
                       formatNs(p.recompute_ns), count(p.recompute_nodes), count(p.recompute_matmuls), chosen ? "<- " + report->policy : ""});
    };
    for (std::size_t i = 0; i < report->points.size(); ++i) point(report->points[i], static_cast<int>(i) == report->chosen);
    point(report->save_all, report->chosen < 0);
    page.table(std::move(curve));
    page.line("nodes: views, which compute nothing, are not counted");
    if (const std::int64_t more = f.memory.peak - report->choice().peak_bytes; more != 0)
      page.line(strf("peaks of the curve are those of choose-saved; fusing and overlapping of collectives, which come after it, make %s of the chosen one", formatBytes(f.memory.peak).c_str()));
  }
  page.line(outcome.scaling);
}

}  // namespace spscope::app
