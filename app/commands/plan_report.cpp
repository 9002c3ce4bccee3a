// SPDX-License-Identifier: Apache-2.0
#include "app/commands/plan_report.h"

#include <algorithm>

#include "app/commands/plan_charts.h"
#include "app/shell_word.h"
#include "core/base/strings.h"

namespace spscope::app {
namespace {

using session::PlanOutcome;
using session::PlanRequest;
using session::PlanRow;
using session::PlanWant;

constexpr std::size_t kShown = 40, kLevers = 3;

std::string tokens(std::int64_t n) { return std::to_string(n); }
std::string gib(double bytes) { return formatBytes(static_cast<std::int64_t>(bytes)); }

/// The command that trains what the row planned: the same graph in the same precision, with the same settings.
std::string runCommand(const PlanRequest& what, const PlanRow& row) {
  const session::Configuration& c = row.configuration;
  std::string out = (what.expandable_segments ? "PYTORCH_ALLOC_CONF=expandable_segments:True " : "") + strf("spscope run %s --sp %d --dp %d --zero %d --save %s%s --seq %lld --batch %lld --device %s --optimizer %s", shellWord(what.open.path).c_str(), c.sp, c.dp, std::min(c.zero, 1),
                         c.save.c_str(), c.tile_loss ? " --tile-loss" : "", static_cast<long long>(row.footprint.seq), static_cast<long long>(row.footprint.seq > 0 ? c.batch : 0), what.settings.device.c_str(),
                         what.settings.optimizer.c_str());
  if (!what.open.graph_name.empty()) out += " --graph " + shellWord(what.open.graph_name);
  if (what.open.dtype) out += " --dtype " + std::string(ir::longName(*what.open.dtype));
  for (const auto& [name, dim] : what.open.sequence_marks) out += " --sequence " + shellWord(name + ":" + std::to_string(dim));
  if (!what.settings.master_weights) out += " --master-weights off";
  if (!what.settings.wide_gradients) out += " --grad-dtype param";
  if (what.settings.accumulate > 1) out += strf(" --accumulate %d", what.settings.accumulate);
  return out;
}

Json configurationJson(const session::Configuration& c) {
  Json out = {{"sp", c.sp}, {"dp", c.dp}, {"zero", c.zero}, {"save", c.save}, {"tile_loss", c.tile_loss}, {"batch", c.batch}, {"offload", c.offload.checkpoints}, {"offload_optimizer", c.offload.optimizer}, {"tile_mlp", c.tile_mlp}, {"ring", c.ring}};
  if (!c.rival.empty()) out["rival"] = c.rival;
  return out;
}

double seconds(double ns) { return ns * 1e-9; }

int ranksOfNode(const PlanRequest& what, const PlanRow& row) { return std::min(row.configuration.ranks(), what.space.gpus); }
/// What a node's memory holds where its ranks share it, what a rank's device holds otherwise.
double together(const PlanRequest& what, const PlanRow& row) { return what.profile.shared ? ranksOfNode(what, row) : 1; }
bool hostKnown(const PlanRow& row) { return row.room.host_hopeful != session::Room::kUnknown; }

Json rowJson(const PlanRequest& what, const PlanRow& row) {
  Json out = {{"config", configurationJson(row.configuration)}};
  if (row.illegal) {
    out["verdict"] = "illegal";
    out["reason"] = {{"code", row.illegal->code}, {"message", row.illegal->message}, {"legal", row.illegal->legal}};
    return out;
  }
  out["verdict"] = session::verdictName(row.verdict);
  out["max_seq"] = what.want == PlanWant::kMaxSeq ? Json(row.max_seq) : Json();
  out["possible_seq"] = what.want == PlanWant::kMaxSeq ? Json(row.possible_seq) : Json();
  out["limit"] = row.limit ? Json(row.limit->message) : Json();
  out["seq"] = row.footprint.seq;
  out["peak_bytes"] = row.footprint.peak_high;
  out["compiled_peak_bytes"] = row.footprint.compiled_peak;
  out["next_peak_bytes"] = row.next_peak > 0 ? Json(row.next_peak) : Json();
  out["next_compiled"] = row.next_compiled;
  out["host_ends"] = row.host_ends;
  out["interval"] = {static_cast<std::int64_t>(row.need_low), static_cast<std::int64_t>(row.need_high)};
  out["room"] = {static_cast<std::int64_t>(row.room.sure), static_cast<std::int64_t>(row.room.hopeful)};
  Json classes = Json::object();
  for (std::size_t c = 0; c < passes::kMemoryClasses; ++c) classes[std::string(passes::memoryClassName(static_cast<passes::MemoryClass>(c)))] = row.footprint.classes[c];
  out["classes"] = std::move(classes);
  if (const auto& reserved = row.footprint.reserved)
    out["allocator"] = {{"reserved", reserved->reserved}, {"least", reserved->least}, {"allocated", reserved->allocated}, {"requested", reserved->requested},
                        {"fragmentation", reserved->fragmentation()}, {"largest_free", reserved->largest_free}, {"segments", reserved->segments}};
  out["peak_node"] = plainNode(row.footprint.peak_node);
  out["peak_source"] = row.footprint.peak_source;
  out["comm_bytes"] = row.footprint.comm_bytes;
  out["gathers"] = row.footprint.gathers;
  const session::StepTime& time = row.footprint.time;
  out["seconds_estimate"] = seconds(time.middle);
  out["seconds_interval"] = {seconds(time.low), seconds(time.high)};
  out["seconds_parts"] = {{"compute", seconds(time.compute)}, {"communication", seconds(time.communication)}, {"exposed", seconds(time.exposed)}};
  const double node = ranksOfNode(what, row);
  out["host_bytes"] = row.footprint.host.low;
  out["host_interval"] = {static_cast<std::int64_t>(node) * row.footprint.host.low, static_cast<std::int64_t>(node) * row.footprint.host.high};
  out["host_room"] = hostKnown(row) ? Json({static_cast<std::int64_t>(node * row.room.host_sure), static_cast<std::int64_t>(node * row.room.host_hopeful)}) : Json();
  out["lacks"] = Json::array();
  if (session::deviceVerdict(row.footprint, row.room) != session::Verdict::kFits) out["lacks"].push_back("device");
  if (session::hostVerdict(row.footprint, row.room) != session::Verdict::kFits) out["lacks"].push_back("host");
  out["ranks_sharing"] = static_cast<int>(together(what, row));
  if (what.grid) {
    out["grid"] = Json::array();
    for (const session::PlanPoint& p : row.grid)
      out["grid"].push_back({{"seq", p.seq}, {"peak_bytes", p.peak_high}, {"verdict", session::verdictName(p.verdict)}, {"seconds_estimate", seconds(p.time.middle)},
                             {"seconds_interval", {seconds(p.time.low), seconds(p.time.high)}}});
  }
  out["work_ns_per_token"] = row.work_per_token;
  out["modelled"] = row.footprint.modelled;
  return out;
}

/// What rows have that is neither a setting of `run` nor a way of a rival's: all of it modelled.
std::string besides(const session::Configuration& c) {
  return std::string(c.tile_mlp ? "tiled MLPs" : "") + (c.tile_mlp && c.offload.any() ? ", " : "") + (c.offload.any() ? "host: " + c.offload.text() : "");
}

/// How the rows of a table are told apart.
struct Columns {
  bool named = false, besides = false;
  Columns(const PlanRequest& what, const PlanOutcome& outcome) : named(what.rivals) {
    for (const PlanRow& row : outcome.rows) besides = besides || !app::besides(row.configuration).empty();
  }
};

std::vector<std::string> configurationCells(const PlanOutcome& outcome, std::size_t i, const Columns& columns) {
  const PlanRow& row = outcome.rows[i];
  const session::Configuration& c = row.configuration;
  std::vector<std::string> cells{std::to_string(i + 1)};
  if (columns.named) cells.push_back(c.rival);
  for (std::string cell : {std::to_string(c.sp), std::to_string(c.dp), std::to_string(c.zero) + (c.zero > 1 ? " modelled" : ""), c.save + (c.ring ? ", ring modelled" : ""),
                           std::string(c.tile_loss ? "tiled" : "whole"), std::to_string(c.batch)})
    cells.push_back(std::move(cell));
  if (columns.besides) cells.push_back(besides(c));
  return cells;
}

std::vector<std::string> configurationHeads(const Columns& columns) {
  std::vector<std::string> out{"row"};
  if (columns.named) out.emplace_back("way");
  for (const char* head : {"sp", "dp", "zero", "save", "loss", "batch"}) out.emplace_back(head);
  if (columns.besides) out.emplace_back("modelled too");
  return out;
}

void addRows(Page& page, const PlanRequest& what, const PlanOutcome& outcome) {
  const bool longest = what.want == PlanWant::kMaxSeq;
  const Columns columns(what, outcome);
  double least = 0;
  for (const PlanRow& row : outcome.rows)
    if (!row.illegal && (least == 0 || row.work_per_token < least)) least = row.work_per_token;
  std::vector<std::vector<std::string>> rows{configurationHeads(columns)};
  for (const char* head : longest ? std::vector<const char*>{"longest", "perhaps", "peak there", "needs in all", "a step there", "work", ""}
                                  : std::vector<const char*>{"peak", "needs in all", "a step", "work", "verdict", ""})
    rows.front().emplace_back(head);
  const std::size_t legal = legalRows(outcome);
  for (std::size_t i = 0; i < std::min(legal, kShown); ++i) {
    const PlanRow& row = outcome.rows[i];
    std::vector<std::string> cells = configurationCells(outcome, i, columns);
    if (longest) {
      cells.push_back(row.max_seq > 0 ? tokens(row.max_seq) : "-");
      cells.push_back(row.possible_seq > row.max_seq ? tokens(row.possible_seq) : "-");
    }
    const double ranks = together(what, row);
    cells.push_back(gib(static_cast<double>(row.footprint.peak_high)));
    cells.push_back(gib(row.need_low * ranks) + " to " + gib(row.need_high * ranks));
    cells.push_back(timeText(row.footprint.time));
    cells.push_back(least > 0 ? strf("%.2f", row.work_per_token / least) : "-");
    if (!longest) cells.push_back(verdictText(row));
    const bool best = std::find(outcome.pareto.begin(), outcome.pareto.end(), i) != outcome.pareto.end();
    const char* end = row.limit ? "the model ends here" : row.host_ends ? "the host ends here" : longest && row.max_seq > 0 && row.next_peak == 0 ? "--longest ends here" : "";
    cells.push_back(std::string(best ? "* " : "") + end);
    rows.push_back(std::move(cells));
  }
  page.table(std::move(rows));
  if (legal > kShown) page.line(strf("and %zu more rows; all of them with --json", legal - kShown));
  page.line(strf("* no other row is %s for less work", longest ? "longer" : "smaller"));
  page.line("a step: estimated from the profile's rates (kernels, links, what overlaps), the interval is theirs: it orders rows, it is no promise. work: device time of a token, the least is 1");
  if (what.profile.device == "cuda") page.line("the peak is at the bad end of what PyTorch's allocator holds; needs begin at its good end");
  if (what.profile.shared) page.line("needs in all: of all ranks of a node together, which share the capacity; the peak is one rank's");
  if (longest) page.line("perhaps: at the good end of every interval, from the fit; where longest is -, the peak is that of the first length tried");
}

void addGrid(Page& page, const PlanRequest& what, const PlanOutcome& outcome) {
  if (!what.grid) return;
  page.heading("Peak and step by length");
  const Columns columns(what, outcome);
  std::vector<std::int64_t> lengths;
  for (const PlanRow& row : outcome.rows)
    for (const session::PlanPoint& p : row.grid)
      if (std::find(lengths.begin(), lengths.end(), p.seq) == lengths.end()) lengths.push_back(p.seq);
  std::sort(lengths.begin(), lengths.end());
  std::vector<std::vector<std::string>> rows{configurationHeads(columns)};
  for (const std::int64_t seq : lengths) rows.front().push_back(tokens(seq));
  for (std::size_t i = 0; i < std::min(legalRows(outcome), kShown); ++i) {
    std::vector<std::string> cells = configurationCells(outcome, i, columns);
    for (const std::int64_t seq : lengths) {
      const auto& grid = outcome.rows[i].grid;
      const auto p = std::find_if(grid.begin(), grid.end(), [&](const session::PlanPoint& point) { return point.seq == seq; });
      const char* mark = p == grid.end() || p->verdict == session::Verdict::kFits ? "" : p->verdict == session::Verdict::kUncertain ? " ?" : " !";
      cells.push_back(p == grid.end() ? "" : gib(static_cast<double>(p->peak_high)) + mark + ", " + formatNs(static_cast<std::int64_t>(p->time.middle)));
    }
    rows.push_back(std::move(cells));
  }
  page.table(std::move(rows));
  page.line("!: does not fit, nothing longer was looked at; ?: uncertain");
}

void addIllegal(Page& page, const PlanOutcome& outcome) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const PlanRow& row : outcome.rows) {
    if (!row.illegal) continue;
    const std::string reason = row.illegal->message + (row.illegal->legal.empty() ? "" : " (legal: " + row.illegal->legal + ")");
    auto found = std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == reason; });
    if (found == reasons.end()) found = reasons.insert(reasons.end(), {reason, {}});
    found->second.push_back(row.configuration.text());
  }
  if (reasons.empty()) return;
  page.heading("Not legal");
  for (const auto& [reason, who] : reasons) page.line(who.front() + (who.size() > 1 ? strf(" and %zu more", who.size() - 1) : std::string()) + ": " + reason);
}

void addLevers(Page& page, const PlanRequest& what, const PlanOutcome& outcome, std::size_t from) {
  const auto levers = session::leversOf(outcome, from, what.want);
  if (levers.empty()) return;
  page.heading(strf("From row %zu: the cheapest next levers", from + 1));
  const bool longest = what.want == PlanWant::kMaxSeq;
  std::vector<std::vector<std::string>> rows{{"change", "to row", "frees per rank", "work", "a step"}};
  if (longest) rows.front().insert(rows.front().begin() + 3, "more tokens");
  for (std::size_t i = 0; i < std::min(kLevers, levers.size()); ++i) {
    const session::PlanLever& lever = levers[i];
    const std::string freed = (lever.bytes_freed < 0 ? "-" : "") + formatBytes(std::abs(lever.bytes_freed)) + (lever.fitted ? " (fitted)" : "");
    std::vector<std::string> cells{lever.change, std::to_string(lever.row + 1), freed, strf("x %.2f", lever.work_ratio),
                                   (lever.seconds_more < 0 ? "-" : "+") + formatNs(static_cast<std::int64_t>(1e9 * std::abs(lever.seconds_more)))};
    if (longest) cells.insert(cells.begin() + 3, tokens(lever.more_tokens));
    rows.push_back(std::move(cells));
  }
  page.table(std::move(rows));
}

void addRow(Page& page, const PlanRequest& what, const PlanOutcome& outcome, std::size_t i) {
  const PlanRow& row = outcome.rows[i];
  page.heading(strf("Row %zu: %s, at %lld tokens", i + 1, row.configuration.text().c_str(), static_cast<long long>(row.footprint.seq)));
  std::vector<std::vector<std::string>> rows{{"class", "at the peak"}};
  for (std::size_t c = 0; c < passes::kMemoryClasses; ++c) rows.push_back({std::string(passes::memoryClassName(static_cast<passes::MemoryClass>(c))), formatBytes(row.footprint.classes[c])});
  page.table(std::move(rows));
  page.line("peak at %" + plainNode(row.footprint.peak_node) + (row.footprint.peak_source.empty() ? "" : " (" + row.footprint.peak_source + ")"));
  const session::StepTime& time = row.footprint.time;
  page.line("a step: " + timeText(time) + strf(", estimated: %s of compute, %s of communication, of which %s are waited for", formatNs(static_cast<std::int64_t>(time.compute)).c_str(),
                                               formatNs(static_cast<std::int64_t>(time.communication)).c_str(), formatNs(static_cast<std::int64_t>(time.exposed)).c_str()));
  if (const session::HostBytes& host = row.footprint.host; host.low > 0) {
    const int node = ranksOfNode(what, row);
    std::string line = strf("on the host: %s of pinned memory per rank, %s per node, %s where blocks are rounded up to powers of two; ", formatBytes(host.low).c_str(), formatBytes(host.low * node).c_str(),
                            formatBytes(host.high * node).c_str());
    if (hostKnown(row)) line += "a node has " + gib(node * row.room.host_sure) + " to " + gib(node * row.room.host_hopeful) + " for it";
    else line += "the profile " + what.profile.name + " does not say what a node has (memory.host), so it is not bounded";
    page.line(line + (row.host_ends ? "; longer does not fit the host" : ""));
  }
  if (const auto& reserved = row.footprint.reserved)
    page.line(strf("PyTorch's allocator%s reserves %s for it where there is room, %s at least; at the peak %s are in use, %s are not, in one block at most %s", what.expandable_segments ? " (expandable segments)" : "", formatBytes(reserved->reserved).c_str(),
                   formatBytes(reserved->least).c_str(), formatBytes(reserved->allocated).c_str(), formatBytes(reserved->fragmentation()).c_str(), formatBytes(reserved->largest_free).c_str()));
  for (const std::string& what_is : row.footprint.modelled) page.line("modelled, not compiled: " + what_is);
  if (row.footprint.gathers > 0) page.line(strf("%lld values are made whole on every rank: see spscope compile", static_cast<long long>(row.footprint.gathers)));
  if (row.limit) page.line("longer is not possible: " + row.limit->message);
  page.line(runCommand(what, row));
  if (row.configuration.zero > 1) page.line(strf("(zero %d cannot be run yet: the command has zero 1)", row.configuration.zero));
  if (row.configuration.offload.any()) page.line("(offload cannot be run yet: the command is without it)");
  if (row.configuration.tile_mlp) page.line("(tiled MLPs cannot be run yet: the command has them whole)");
  if (row.configuration.ring) page.line("(ring attention cannot be run yet: the command has exchanges)");
}

}  // namespace

std::size_t legalRows(const PlanOutcome& outcome) {
  return static_cast<std::size_t>(std::count_if(outcome.rows.begin(), outcome.rows.end(), [](const PlanRow& r) { return !r.illegal; }));
}

std::size_t startOfLevers(const PlanOutcome& outcome, PlanWant want) {
  std::size_t out = 0;
  for (std::size_t i = 1; i < legalRows(outcome); ++i)
    if (outcome.rows[i].work_per_token < outcome.rows[out].work_per_token && !session::leversOf(outcome, i, want).empty()) out = i;
  return out;
}

void addPlanJson(Json& json, const PlanRequest& what, const PlanOutcome& outcome, std::size_t row) {
  json["device"] = what.profile.name;
  json["profile"] = what.profile.path;
  json["gpus"] = what.space.gpus;
  json["nodes"] = what.space.nodes;
  json["headroom"] = what.headroom;
  json["expandable_segments"] = what.expandable_segments;
  json["rows"] = Json::array();
  for (const PlanRow& r : outcome.rows) json["rows"].push_back(rowJson(what, r));
  json["pareto"] = outcome.pareto;
  json["levers"] = Json::array();
  for (const session::PlanLever& lever : session::leversOf(outcome, row, what.want))
    json["levers"].push_back({{"from", row}, {"row", lever.row}, {"change", lever.change}, {"bytes_freed", lever.bytes_freed}, {"host_bytes_more", lever.host_bytes_more}, {"fitted", lever.fitted},
                              {"more_tokens", what.want == PlanWant::kMaxSeq ? Json(lever.more_tokens) : Json()}, {"work_ratio", lever.work_ratio}, {"seconds_more", lever.seconds_more}});
  json["run_command"] = runCommand(what, outcome.rows[row]);
  json["configurations"] = outcome.rows.size();
  json["compiles"] = outcome.compiles;
}

Page planPage(const PlanRequest& what, const PlanOutcome& outcome, std::size_t row, bool explain) {
  Page page;
  const session::DeviceProfile& p = what.profile;
  page.line(strf("%s on %d x %s%s: %s, of which %s to %s lie outside of torch; headroom %.3g%%", what.open.path.c_str(), what.space.ranks(), p.name.c_str(),
                 what.space.nodes > 1 ? strf(" (%d nodes)", what.space.nodes).c_str() : "", (gib(p.capacity.low) + " to " + gib(p.capacity.high) + (p.shared ? " for all ranks of a node" : "")).c_str(),
                 gib(p.outside.low).c_str(), gib(p.outside.high).c_str(), 100 * what.headroom));
  page.line(strf("%zu configurations, %lld compiles, %s; nothing was run, and the profile's figures were not measured here", outcome.rows.size(), static_cast<long long>(outcome.compiles),
                 formatNs(outcome.ns).c_str()));
  addRows(page, what, outcome);
  addGrid(page, what, outcome);
  addPlanCharts(page, outcome, row);
  if (explain) addRow(page, what, outcome, row);
  addLevers(page, what, outcome, row);
  addIllegal(page, outcome);
  return page;
}

}  // namespace spscope::app
