// SPDX-License-Identifier: Apache-2.0
#include "ui/model/stage_strip.h"

#include <algorithm>

#include "core/base/strings.h"

namespace spscope::ui {
namespace {

constexpr const char* kDot = " \u00b7 ";

void addDiagnostics(StageChip& chip, const std::vector<Diagnostic>& all) {
  for (const Diagnostic& d : all) {
    if (d.severity != Severity::kRemark) ++chip.warnings;
    std::string line = (d.severity == Severity::kRemark ? "" : d.code + ": ") + d.message;
    if (!d.node.empty()) line += " (" + d.node + (d.source.empty() ? "" : ", " + d.source) + ")";
    chip.tip += "\n" + line;
  }
}

/// "348.8 ms" -> "349 ms": a chip is no table.
std::string shortTime(std::int64_t ns) {
  const std::string text = formatNs(ns);
  const std::size_t point = text.find('.'), space = text.find(' ');
  if (point == std::string::npos || space == std::string::npos || point < 3) return text;
  return strf("%.0f", std::stod(text)) + text.substr(space);
}

StageChip failureChip(const Workspace& workspace) {
  const Error& e = *workspace.compileError();
  StageChip chip;
  chip.failed = true;
  const bool pass = !workspace.failedPass().empty();
  chip.name = pass ? workspace.failedPass() : "compile";
  chip.brief = pass ? "failed" : "refused";
  chip.detail = chip.brief + kDot + e.code;
  chip.tip = e.format();
  for (const std::string& note : e.notes) chip.tip += "\n" + note;
  if (!e.legal.empty()) chip.tip += "\nlegal: " + e.legal;
  return chip;
}

}  // namespace

std::string spacedNumber(std::int64_t n) {
  std::string digits = std::to_string(n < 0 ? -n : n), out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += "\u2009";
    out += digits[i];
  }
  return n < 0 ? "-" + out : out;
}

std::vector<StageChip> stageChips(const Workspace& workspace) {
  std::vector<StageChip> chips;
  std::int64_t most = 0;
  for (const Workspace::Stage& s : workspace.stages())
    if (s.record) most = std::max(most, s.record->peak_bytes);
  const std::int64_t limit = workspace.settings().memory_limit_bytes;
  // A limit far above everything would flatten the bars.
  const std::int64_t scale = limit > most && limit < 4 * most ? limit : most;
  for (std::size_t i = 0; i < workspace.stages().size(); ++i) {
    const Workspace::Stage& s = workspace.stages()[i];
    StageChip chip;
    chip.stage = static_cast<int>(i);
    chip.name = s.name;
    chip.shown = chip.stage == workspace.stage();
    chip.compared = chip.stage == workspace.comparedWith();
    const std::int64_t nodes = s.graph ? static_cast<std::int64_t>(s.graph->order.size()) : 0;
    chip.tip = s.name + ": " + spacedNumber(nodes) + " nodes";
    if (s.record == nullptr || i == 0) {
      const std::int64_t ns = s.record ? s.record->ns : workspace.model() ? workspace.model()->opened_ns : 0;
      chip.brief = spacedNumber(nodes) + " nodes";
      chip.detail = chip.brief + kDot + shortTime(ns);
      chip.tip += ", in " + formatNs(ns);
      if (s.record) addDiagnostics(chip, s.record->diagnostics);
      chips.push_back(std::move(chip));
      continue;
    }
    const passes::StageRecord& r = *s.record;
    chip.unchanged = r.changed_nodes == 0 && !r.changed;
    chip.brief = r.changed_nodes == 0 ? std::string(r.changed ? "annotated" : "no change") : "\u00b1" + spacedNumber(r.changed_nodes);
    chip.detail = chip.brief + kDot + shortTime(r.ns);
    chip.tip += "\n" + spacedNumber(r.changed_nodes) + " nodes added, removed or changed, in " + formatNs(r.ns);
    if (r.comm_bytes > 0) {
      chip.wire = formatBytes(r.comm_bytes) + " wire";
      chip.wire_brief = "\u21c4 " + formatBytes(r.comm_bytes);
      chip.tip += "\n" + formatBytes(r.comm_bytes) + " sent by one rank in a step";
    }
    if (r.peak_bytes > 0) {
      chip.peak = formatBytes(r.peak_bytes);
      chip.peak_share = scale > 0 ? static_cast<double>(r.peak_bytes) / static_cast<double>(scale) : 0;
      chip.over_limit = limit > 0 && r.peak_bytes > limit;
      chip.tip += "\n" + chip.peak + " predicted peak of one rank";
      if (chip.over_limit) chip.tip += ", over the limit of " + formatBytes(limit);
      if (limit > 0 && limit <= scale) chip.limit_share = static_cast<double>(limit) / static_cast<double>(scale);
    }
    for (const auto& [name, value] : r.statistics) chip.tip += "\n" + name + ": " + spacedNumber(value);
    addDiagnostics(chip, r.diagnostics);
    chips.push_back(std::move(chip));
  }
  if (workspace.compileError() && workspace.compileError()->code != "cancelled") chips.push_back(failureChip(workspace));
  return chips;
}

void chooseStage(Workspace& workspace, int stage, bool compare) {
  if (compare) return workspace.compareWith(stage == workspace.comparedWith() || stage == workspace.stage() ? -1 : stage);
  workspace.showStages(stage, stage - 1);
}

StateLine stateLineOf(const Workspace& workspace) {
  const JobQueue& jobs = workspace.jobs();
  for (const auto& [lane, text] : {std::pair{"open", "opening"}, {"compile", "compiling"}, {"verify", "verifying"}, {"run", "running"}, {"trace", "reading the trace"}}) {
    if (!jobs.busy(lane)) continue;
    std::string line = text;
    const JobProgress& p = workspace.progress();
    if (p.lane == lane && !p.what.empty()) line += ": " + p.what;
    if (p.lane == lane && p.total > 0) line += strf(" %lld/%lld", static_cast<long long>(p.done), static_cast<long long>(p.total));
    return {StateLine::Kind::kBusy, line, "Escape stops it"};
  }
  const auto failed = [](const char* what, const Error& e) { return StateLine{StateLine::Kind::kFailed, std::string(what) + ": " + e.message, e.format()}; };
  if (workspace.verifyError() && workspace.verifyError()->code != "cancelled") return failed("verify", *workspace.verifyError());
  if (workspace.compileError() && workspace.compileError()->code != "cancelled") return failed("compile", *workspace.compileError());
  if (workspace.openError() && workspace.openError()->code != "cancelled") return failed("open", *workspace.openError());
  if (const auto v = workspace.verified()) {
    const std::string figures = strf("worst gradient %.1e", v->gradients.rel_max);
    return {v->equal ? StateLine::Kind::kEqual : StateLine::Kind::kDifferent, (v->equal ? "equal" : "different") + std::string(kDot) + figures + (workspace.shrunk() ? std::string(kDot) + "reduced twin" : ""),
            strf("loss %.9g, unsharded %.9g, relative difference %.2e\n%s of %s on rank %d", v->loss, v->reference_loss, v->loss_rel, figures.c_str(), v->gradients.worst.c_str(), v->worst_rank)};
  }
  if (workspace.runProgress().error && workspace.runProgress().error->code != "cancelled") return failed("run", *workspace.runProgress().error);
  if (workspace.compiled()) return {StateLine::Kind::kNone, "compiled in " + formatNs(workspace.compiled()->ns), "Verify tells whether the result is right"};
  return {};
}

}  // namespace spscope::ui
