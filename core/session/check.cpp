// SPDX-License-Identifier: Apache-2.0
#include "core/session/check.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/strings.h"
#include "core/ir/sp_ops.h"
#include "core/io/mapped_file.h"

namespace spscope::session {
namespace {

constexpr std::size_t kPlaces = 10;  ///< named per broken rule

using Places = std::vector<MeasurePlace>;

const ir::Graph* shown(const CompileOutcome& o) {
  return o.figures.program < 0 ? nullptr : o.compiled.programs[static_cast<std::size_t>(o.figures.program)].get();
}

MeasurePlace placeOf(const ir::Node& n, std::string reason) {
  return {n.name, n.location ? n.location->source : std::string(), std::move(reason)};
}

std::int64_t countOf(const CompileOutcome& o, std::string_view kind) {
  for (const auto& total : o.figures.collectives)
    if (total.kind == kind) return total.count;
  return 0;
}

/// Nodes that send, most bytes first; `kind`: of this collective only.
Places sendersOf(const CompileOutcome& o, std::string_view kind = {}) {
  const ir::Graph* graph = shown(o);
  std::vector<std::pair<std::int64_t, const ir::Node*>> all;
  for (std::size_t i = 0; graph != nullptr && i < graph->order.size(); ++i) {
    const ir::Node& n = graph->node(graph->order[i]);
    if (!kind.empty() && n.op.str().find("." + std::string(kind)) == std::string::npos) continue;
    if (const std::int64_t bytes = passes::sentBytes(*graph, n); bytes > 0) all.emplace_back(bytes, &n);
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  Places out;
  for (std::size_t i = 0; i < all.size() && i < kPlaces; ++i) out.push_back(placeOf(*all[i].second, formatBytes(all[i].first) + " sent"));
  return out;
}

/// Storages that are kept for the backward, largest first.
Places savedPlaces(const CompileOutcome& o) {
  const ir::Graph* graph = shown(o);
  std::vector<const ir::Value*> all;
  for (std::size_t i = 0; graph != nullptr && i < graph->valueCount(); ++i) {
    const ir::Value& v = graph->value(static_cast<ir::ValueId>(i));
    if (v.keep == ir::Keep::kSaved && v.storage == ir::kNone && v.producer != ir::kNone) all.push_back(&v);
  }
  std::stable_sort(all.begin(), all.end(), [](const ir::Value* a, const ir::Value* b) { return a->storage_bytes > b->storage_bytes; });
  Places out;
  for (std::size_t i = 0; i < all.size() && i < kPlaces; ++i)
    out.push_back(placeOf(graph->node(all[i]->producer), formatBytes(all[i]->storage_bytes) + " saved"));
  return out;
}

Places largestPlaces(const CompileOutcome& o) {
  const ir::Graph* graph = shown(o);
  Places out;
  for (const auto& [name, bytes] : o.figures.largest_values) {
    out.push_back({name, {}, formatBytes(bytes)});
    for (std::size_t i = 0; graph != nullptr && i < graph->order.size(); ++i)
      if (const ir::Node& n = graph->node(graph->order[i]); n.name == name) out.back() = placeOf(n, formatBytes(bytes));
  }
  return out;
}

/// Attention that still reads a mask over queries and keys: nothing recognised what it means.
Places unrecognisedMasks(const CompileOutcome& o) {
  const ir::Graph& graph = *o.compiled.planned;
  Places out;
  for (const ir::NodeId id : graph.order) {
    const ir::Node& n = graph.node(id);
    const ir::ValueId mask = ir::isAttention(n.op) ? ir::useArg(n, Symbol("attn_mask")) : ir::kNone;
    if (mask == ir::kNone) continue;
    const ir::Value& v = graph.value(mask);
    const std::size_t rank = v.shape.size();
    if (rank < 2 || v.shape[rank - 1] <= 1 || v.shape[rank - 2] <= 1) continue;
    out.push_back(placeOf(n, strf("reads the mask %%%s, %s whole", v.name.c_str(), formatBytes(ir::numel(v.shape) * ir::sizeOf(v.dtype)).c_str())));
  }
  return out;
}

Places recomputedAttention(const CompileOutcome& o) {
  const ir::Graph* graph = shown(o);
  Places out;
  for (std::size_t i = 0; graph != nullptr && i < graph->order.size(); ++i) {
    const ir::Node& n = graph->node(graph->order[i]);
    if (n.phase == ir::Phase::kRecompute && ir::isAttention(n.op)) out.push_back(placeOf(n, "run again in the backward"));
  }
  return out;
}

Result<RuleResult> judge(const BudgetRule& rule, const CheckOutcome& outcome, const std::optional<Baseline>& baseline) {
  const Measure& measure = *std::find_if(measures().begin(), measures().end(), [&](const Measure& m) { return m.name == rule.measure; });
  const auto shownAs = [&](std::int64_t n) { return measure.bytes ? formatBytes(n) : std::to_string(n); };
  RuleResult out;
  out.name = rule.measure;
  out.line = rule.line;
  out.value_number = measure.value(outcome.compiled);
  out.value = shownAs(*out.value_number);
  if (rule.kind == BudgetRule::Kind::kGrowth) {
    const auto before = std::find_if(baseline->values.begin(), baseline->values.end(), [&](const auto& v) { return v.first == rule.measure; });
    if (before == baseline->values.end())
      return makeError("baseline-unreadable", strf("%s does not say how large '%s' was", baseline->path.c_str(), rule.measure.c_str()), Outcome::kUsage);
    out.name += " growth";
    out.limit_number = static_cast<std::int64_t>(std::floor(static_cast<double>(before->second) * (1 + rule.growth) + 1e-6));
    out.limit = strf("%s + %s %% = %s", shownAs(before->second).c_str(), formatDouble(rule.growth * 100).c_str(), shownAs(*out.limit_number).c_str());
  } else {
    out.limit_number = rule.limit;
    out.limit = shownAs(rule.limit);
  }
  out.ok = *out.value_number <= *out.limit_number;
  if (!out.ok) out.places = measure.places(outcome.compiled);
  return out;
}

std::vector<std::pair<std::string, std::string>> settingsOf(const Model& model, const passes::Settings& s) {
  return {{"sp", std::to_string(s.sp)},       {"dp", std::to_string(s.dp)},
          {"seq", std::to_string(model.imported->seq)}, {"batch", std::to_string(model.imported->batch)},
          {"dtype", std::string(ir::longName(model.working_dtype))},
          {"device", s.device},               {"save", s.save},
          {"communication", s.communication}, {"optimizer", s.optimizer}};
}

Status comparable(const Baseline& baseline, const std::vector<std::pair<std::string, std::string>>& settings) {
  std::vector<std::string> differ;
  for (const auto& [name, then] : baseline.settings)
    for (const auto& [same, now] : settings)
      if (name == same && then != now) differ.push_back(strf("%s %s, now %s", name.c_str(), then.c_str(), now.c_str()));
  if (differ.empty()) return {};
  return makeError("baseline-other", baseline.path + " was made with other settings: " + join(differ, "; "), Outcome::kUsage);
}

}  // namespace

const std::vector<Measure>& measures() {
  using O = const CompileOutcome&;
  static const std::vector<Measure> all{
      {"gathers", "values that cannot stay sharded and are put together whole", false, [](O o) { return static_cast<std::int64_t>(o.figures.gathers.size()); },
       [](O o) {
         Places out;
         for (const GatherNote& g : o.figures.gathers) out.push_back({g.node, g.source, g.reason});
         return out;
       }},
      {"all_to_all", "all-to-alls of a step, before fusion", false, [](O o) { return countOf(o, "all_to_all"); }, [](O o) { return sendersOf(o, "all_to_all"); }},
      {"all_gather", "all-gathers of a step, before fusion", false, [](O o) { return countOf(o, "all_gather"); }, [](O o) { return sendersOf(o, "all_gather"); }},
      {"all_reduce", "all-reduces of a step, before fusion", false, [](O o) { return countOf(o, "all_reduce"); }, [](O o) { return sendersOf(o, "all_reduce"); }},
      {"reduce_scatter", "reduce-scatters of a step, before fusion", false, [](O o) { return countOf(o, "reduce_scatter"); }, [](O o) { return sendersOf(o, "reduce_scatter"); }},
      {"sent", "bytes that one rank sends in a step", true,
       [](O o) {
         std::int64_t sum = 0;
         for (const auto& total : o.figures.collectives) sum += total.bytes;
         return sum;
       },
       [](O o) { return sendersOf(o); }},
      {"peak", "predicted peak of memory of one rank", true, [](O o) { return o.figures.memory.peak; },
       [](O o) { return Places{{o.figures.peak_node, o.figures.peak_source, "the peak is reached here"}}; }},
      {"saved", "bytes kept from forward to backward", true, [](O o) { return o.figures.saved_bytes; }, savedPlaces},
      {"largest_value", "bytes of the largest value on one rank", true,
       [](O o) { return o.figures.largest_values.empty() ? std::int64_t{0} : o.figures.largest_values.front().second; }, largestPlaces},
      {"unrecognised_masks", "attentions that read a mask over queries and keys whole", false, [](O o) { return static_cast<std::int64_t>(unrecognisedMasks(o).size()); }, unrecognisedMasks},
      {"recomputed_attention", "attentions that are run again in the backward", false, [](O o) { return o.figures.recomputed_attention; }, recomputedAttention},
  };
  return all;
}

RuleResult judgeProof(const BudgetRule& rule, const VerifyOutcome& proof) {
  RuleResult out;
  out.name = rule.measure;
  out.line = rule.line;
  out.limit = strf("equal: loss %.3g, gradients %.3g", proof.tolerance.loss, proof.tolerance.gradient);
  out.value = strf("loss %.3g, worst gradient %.3g", proof.loss_rel, proof.gradients.rel_max);
  out.ok = proof.equal;
  if (!out.ok) out.places.push_back({proof.gradients.worst, {}, strf("its gradient differs by %.3g on rank %d", proof.gradients.rel_max, proof.worst_rank)});
  return out;
}

Result<Baseline> readBaseline(const std::string& path) {
  SP_ASSIGN(const auto file, io::MappedFile::open(path));
  const auto* text = reinterpret_cast<const char*>(file->bytes().data());
  const nlohmann::json json = nlohmann::json::parse(text, text + file->size(), nullptr, false);
  const auto unreadable = [&](const std::string& why) { return makeError("baseline-unreadable", path + " " + why, Outcome::kUsage); };
  if (!json.is_object() || !json.contains("measures") || !json["measures"].is_object()) return unreadable("is no JSON object of `spscope check --json`");
  Baseline out;
  out.path = path;
  for (const auto& [name, value] : json["measures"].items()) {
    if (!value.is_number_integer()) return unreadable("holds no whole number for " + name);
    out.values.emplace_back(name, value.get<std::int64_t>());
  }
  if (const auto settings = json.find("settings"); settings != json.end() && settings->is_object())
    for (const auto& [name, value] : settings->items())
      if (value.is_string()) out.settings.emplace_back(name, value.get<std::string>());
  return out;
}

Result<CheckOutcome> check(const Model& model, const CheckRequest& what, const Request& request) {
  if (what.budget.needsBaseline() && !what.baseline) {
    Error e = makeError("baseline-missing", what.budget.path + " limits growth, and there is nothing to grow from", Outcome::kUsage);
    return e;
  }
  CheckOutcome out;
  out.settings = settingsOf(model, what.settings);
  if (what.baseline) SP_TRY(comparable(*what.baseline, out.settings));
  std::optional<VerifyOutcome> proof;
  if (what.budget.needsProof()) {  // compiles, too
    SP_ASSIGN(proof, verify(model, {.settings = what.settings, .data = what.data, .open = what.open}, request));
    out.compiled = std::move(proof->compiled);
  } else {
    SP_ASSIGN(out.compiled, compile(model, {.settings = what.settings, .keep_graphs = false}, request));
  }
  SP_TRY(checkSharded(out.compiled, what.settings.sp, what.allow_replicated));
  out.ok = true;
  for (const BudgetRule& rule : what.budget.rules) {
    if (rule.kind == BudgetRule::Kind::kProof) {
      out.rules.push_back(judgeProof(rule, *proof));
    } else {
      SP_ASSIGN(RuleResult result, judge(rule, out, what.baseline));
      out.rules.push_back(std::move(result));
    }
    out.ok = out.ok && out.rules.back().ok;
  }
  return out;
}

}  // namespace spscope::session
