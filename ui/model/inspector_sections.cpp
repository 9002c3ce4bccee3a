// SPDX-License-Identifier: Apache-2.0
#include "ui/model/inspector_sections.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/session/value_map.h"
#include "passes/memory/op_cost.h"
#include "passes/memory/saving_rules.h"
#include "ui/model/debug/debug_session.h"
#include "ui/model/graph/module_tree.h"

namespace spscope::ui {
namespace {

/// "412 MFLOP", "137.7 TFLOP".
std::string flopText(std::int64_t flops) {
  const auto n = static_cast<double>(flops);
  if (n >= 1e15) return strf("%.4g PFLOP", n / 1e15);
  if (n >= 1e12) return strf("%.4g TFLOP", n / 1e12);
  if (n >= 1e9) return strf("%.4g GFLOP", n / 1e9);
  return strf("%.4g MFLOP", n / 1e6);
}

constexpr std::size_t kListed = 40;  ///< rows of a list; the rest is counted

std::string dimsText(const ir::Dims& dims) { return "[" + join(dims, ", ") + "]"; }

Selection nodeSelection(ir::NodeId node) {
  Selection s;
  s.node = node;
  return s;
}

Selection valueSelection(const ir::Value& value) {
  Selection s;
  s.node = value.producer;
  s.value = value.id;
  return s;
}

/// Local shapes: one row where ranks agree.
void addLocalShapes(const InspectorScope& scope, const ir::Value& v, std::vector<InspectorRow>& rows) {
  const ir::Graph& g = *scope.graph;
  const int ranks = g.mesh.sizeOf("sp");
  const bool known = !v.factors.empty() || v.placement.isReplicated();
  if (ranks <= 1 || g.form == ir::Form::kGlobal) return;
  if (!known || v.factors.empty()) {
    if (g.form != ir::Form::kPlanned) rows.push_back({strf("on rank %d", g.rank), dimsText(v.local), true, {}});
    return;
  }
  std::vector<ir::Dims> shapes;
  for (int r = 0; r < ranks; ++r) shapes.push_back(ir::localShape(v.factors, v.placement, r));
  for (int begin = 0; begin < ranks;) {
    int end = begin + 1;
    while (end < ranks && shapes[static_cast<std::size_t>(end)] == shapes[static_cast<std::size_t>(begin)]) ++end;
    const std::string label = end - begin == ranks ? "on every rank" : end - begin == 1 ? strf("on rank %d", begin) : strf("on ranks %d to %d", begin, end - 1);
    rows.push_back({label, dimsText(shapes[static_cast<std::size_t>(begin)]), true, {}});
    begin = end;
  }
}

void addUsers(const InspectorScope& scope, const ir::Value& v, InspectorSection& out) {
  std::size_t more = 0;
  for (const ir::NodeId id : scope.graph->order) {
    bool reads = false;
    std::string as;
    for (const ir::Argument& a : scope.graph->node(id).args) {
      if (const auto* use = std::get_if<ir::Use>(&a.value); use != nullptr && use->value == v.id) reads = true, as = a.name.str();
      if (const auto* list = std::get_if<ir::UseList>(&a.value))
        for (const ir::Use& use : *list)
          if (use.value == v.id) reads = true, as = a.name.str();
    }
    if (!reads) continue;
    if (out.rows.size() >= kListed) {
      ++more;
      continue;
    }
    const ir::Node& user = scope.graph->node(id);
    const char* phase = user.phase == ir::Phase::kForward ? "" : user.phase == ir::Phase::kBackward ? " · backward" : " · recomputed";
    out.rows.push_back({"%" + v.name, "%" + user.name + " (" + std::string(ir::baseName(user.op)) + ", as " + as + ")" + phase, true, nodeSelection(id)});
  }
  if (more > 0) out.absent = strf("and %zu more", more);
}

const passes::ValueDecision* decisionOf(const InspectorScope& scope, const ir::Value& v) {
  const auto compiled = scope.workspace->compiled();
  if (!compiled || compiled->compiled.memory.empty()) return nullptr;
  const ir::ValueId owner = v.storage == ir::kNone ? v.id : v.storage;
  for (const passes::ValueDecision& d : compiled->compiled.memory.front().values)
    if (d.value == owner) return &d;
  return nullptr;
}

}  // namespace

InspectorSection opSection(const InspectorScope& scope, const ir::Node& node) {
  InspectorSection out{"Operation", {}, ""};
  out.rows.push_back({"op", node.op.str(), true, {}});
  for (const ir::Argument& a : node.args) {
    InspectorRow row{a.name.str(), ir::attributeText(*scope.graph, a.value), true, {}};
    if (const auto* use = std::get_if<ir::Use>(&a.value); use != nullptr && use->value != ir::kNone) {
      const ir::Value& v = scope.graph->value(use->value);
      row.target = valueSelection(v);
    }
    out.rows.push_back(std::move(row));
  }
  const char* phase = node.phase == ir::Phase::kForward ? "forward" : node.phase == ir::Phase::kBackward ? "backward" : "made again in the backward";
  if (scope.graph->form == ir::Form::kJoint) out.rows.push_back({"phase", phase, false, {}});
  if (node.forward != ir::kNone && static_cast<std::size_t>(node.forward) < scope.graph->nodeCount())
    out.rows.push_back({node.phase == ir::Phase::kRecompute ? "repeats" : "derivative of", "%" + scope.graph->node(node.forward).name, true, nodeSelection(node.forward)});
  return out;
}

InspectorSection valuesSection(const InspectorScope& scope, const ir::Node& node) {
  InspectorSection out{"Shapes", {}, ""};
  for (const ir::ValueId id : node.outputs) {
    if (id == ir::kNone) continue;
    const ir::Value& v = scope.graph->value(id);
    const std::string name = node.outputs.size() > 1 ? strf("result %d", v.output_index) : "global";
    out.rows.push_back({name, dimsText(v.shape) + " " + std::string(ir::longName(v.dtype)), true, valueSelection(v)});
    addLocalShapes(scope, v, out.rows);
  }
  if (out.rows.empty()) out.absent = "It gives no value.";
  else if (scope.graph->form == ir::Form::kGlobal) out.absent = "Not sharded yet: every rank would compute the whole.";
  return out;
}

InspectorSection placementSection(const InspectorScope& scope, const ir::Node& node) {
  InspectorSection out{"Placement", {}, ""};
  if (scope.graph->form == ir::Form::kGlobal) {
    out.absent = scope.program == nullptr ? "Compile to see where it lives." : "Placements are known from stage plan-sequence on.";
    return out;
  }
  for (const ir::ValueId id : node.outputs)
    if (id != ir::kNone) out.rows.push_back({node.outputs.size() > 1 ? strf("result %d", scope.graph->value(id).output_index) : "result", session::placementSentence(scope.graph->value(id)), false, {}});
  std::vector<std::string> operands;
  ir::forEachUse(node, [&](const ir::Use& use) {
    const ir::Value& v = scope.graph->value(use.value);
    operands.push_back("%" + v.name + (!session::isPlaced(v) ? " not recorded" : v.placement.isReplicated() ? " replicated" : v.placement.isPartial() ? " partial" : strf(" sharded on %d", v.placement.dim)));
  });
  // Rules are one per op, and what they see are the placements of the operands.
  if (!operands.empty()) {
    const std::string op(ir::baseName(node.op));
    out.rows.push_back({"rule", (node.op.str().starts_with("sp.") ? "moves its operand (" + op + "): " : "rule of " + op + " for ") + join(operands, ", "), false, {}});
  }
  for (const Workspace::Stage& stage : scope.workspace->stages()) {
    if (stage.record == nullptr) continue;
    for (const Diagnostic& d : stage.record->diagnostics)
      if (d.node == node.name || d.node == "%" + node.name) out.rows.push_back({stage.name, d.message, false, {}});
  }
  if (out.rows.empty()) out.absent = "It gives no value.";
  return out;
}

InspectorSection sourceSection(const InspectorScope& scope, const ir::LocationRef& location) {
  InspectorSection out{"Source", {}, ""};
  if (!location) {
    out.absent = "Made by a pass from nodes of several lines, or the file names none.";
    return out;
  }
  if (const auto line = sourceLineOf(*location)) out.rows.push_back({"line", line->path + ":" + std::to_string(line->line), true, {}});
  if (!location->source.empty()) {
    const std::string here = "source " + location->source;
    InspectorRow stop{"breakpoint", "stop at this line", false, {}};
    if (const int there = scope.workspace->debug().breakpoints().find(here); there >= 0) stop.text = "● at this line: remove it";
    stop.act = "break " + here;
    out.rows.push_back(std::move(stop));
  }
  if (!location->module_path.empty()) {
    Selection module;
    module.module = location->module_path;
    out.rows.push_back({"module", location->module_path, true, module});
    std::vector<std::string> chain;
    for (std::size_t at = location->module_path.find('.'); at != std::string::npos; at = location->module_path.find('.', at + 1))
      chain.push_back(location->module_path.substr(0, at));
    if (!chain.empty()) out.rows.push_back({"inside", join(chain, " > "), true, {}});
  }
  if (!location->module_type.empty()) out.rows.push_back({"class", location->module_type, true, {}});
  if (location->checkpoint != 0) out.rows.push_back({"checkpoint", strf("number %d of the program", location->checkpoint), false, {}});
  for (const std::string& frame : split(location->stack, '\n'))
    if (!frame.empty()) out.rows.push_back({"", frame.substr(std::min(frame.find_first_not_of(' '), frame.size())), true, {}});
  if (out.rows.empty()) out.absent = "The file gives no source line for it.";
  return out;
}

InspectorSection memorySection(const InspectorScope& scope, const ir::Node& node) {
  InspectorSection out{"Memory", {}, ""};
  if (scope.program == nullptr) {
    out.absent = "Compile to see what is kept for the backward.";
    return out;
  }
  for (const ir::ValueId id : node.outputs) {
    if (id == ir::kNone) continue;
    const ir::Value& v = scope.graph->value(id);
    const std::string name = node.outputs.size() > 1 ? "%" + v.name : "result";
    const bool view = v.storage != ir::kNone;
    out.rows.push_back({name, view ? "a view of %" + scope.graph->value(v.storage).name + ": takes nothing"
                                   : formatBytes(scope.graph->form == ir::Form::kJoint ? std::max(v.storage_bytes, v.localBytes()) : v.localBytes()) + " on one rank",
                        false, {}});
    if (const passes::ValueDecision* d = decisionOf(scope, v)) {
      const char* decision = d->decision == passes::Decision::kSave ? "saved" : d->decision == passes::Decision::kRecompute ? "made again" : "freed";
      out.rows.push_back({"backward", std::string(decision) + ": " + std::string(passes::reasonText(d->reason)), false, {}});
      out.rows.push_back({"made again in", formatNs(d->recompute_ns) + " (predicted)", false, {}});
    }
  }
  if (out.rows.empty()) out.absent = "It gives no value.";
  if (node.phase != ir::Phase::kForward) out.absent = "Made in the backward: nothing to decide.";
  return out;
}

InspectorSection costSection(const InspectorScope& scope, const ir::Node& node) {
  InspectorSection out{"Cost on one rank, predicted", {}, ""};
  const passes::DeviceRates rates = passes::ratesOf(scope.workspace->settings().compile);
  const passes::OpCost cost = passes::costOf(*scope.graph, node, rates);
  if (cost.bytes == 0 && cost.flops == 0 && cost.ns == 0) {
    out.absent = "A view: free.";
    return out;
  }
  out.rows.push_back({"operations", cost.flops == 0 ? "none counted: it moves bytes" : flopText(cost.flops), false, {}});
  out.rows.push_back({"bytes moved", formatBytes(cost.bytes), false, {}});
  out.rows.push_back({"time", formatNs(cost.ns), false, {}});
  const bool measured = scope.workspace->settings().compile.flops_per_ns > 0;
  out.absent = strf("At %s rates of %s: %.0f GFLOP/s, %.0f GB/s.", measured ? "the measured" : "nominal", scope.workspace->settings().compile.device.c_str(), rates.flops_per_ns, rates.bytes_per_ns);
  if (ir::isCollective(node.op)) out.absent = "Without what goes over the wire; see the times of a recorded run. " + out.absent;
  return out;
}

InspectorSection timesSection(const InspectorScope& scope, ir::NodeId node) {
  InspectorSection out{"Measured", {}, ""};
  if (scope.reading) {
    out.absent = "The trace is being read.";
    return out;
  }
  if (scope.times == nullptr) {
    out.absent = "No trace is open: run with a profile, or open one.";
    return out;
  }
  const auto it = scope.times->of.find(node);
  if (it == scope.times->of.end()) {
    out.absent = scope.times->empty() ? "The open trace names no nodes of a graph." : "The open trace has no event of it: it did not run, or not in the steps that were recorded.";
    return out;
  }
  for (const RankNodeTime& r : it->second) {
    std::string text = formatNs(r.total_ns / std::max<std::int64_t>(1, r.count)) + strf(" a time, %lld times", static_cast<long long>(r.count));
    if (r.device_ns != trace::kUnknown) text += ", on the device " + formatNs(r.device_ns / r.count);
    if (r.communication_ns != trace::kUnknown) text += ", communicating " + formatNs(r.communication_ns / r.count);
    if (r.wait_ns != trace::kUnknown) text += ", waiting " + formatNs(r.wait_ns / r.count);
    if (r.exposed_ns != trace::kUnknown) text += ", exposed " + formatNs(r.exposed_ns / r.count);
    out.rows.push_back({strf("rank %lld", static_cast<long long>(r.rank)), text, false, {}});
  }
  const auto compiled = scope.workspace->compiled();
  if (compiled && !scope.times->plan_hash.empty() && scope.times->plan_hash != compiled->compiled.plan_hash)
    out.absent = "The trace is of another plan than the one that is shown: joined by the node's number all the same.";
  return out;
}

InspectorSection usersSection(const InspectorScope& scope, const ir::Node& node) {
  InspectorSection out{"Users", {}, ""};
  for (const ir::ValueId id : node.outputs)
    if (id != ir::kNone) addUsers(scope, scope.graph->value(id), out);
  for (const ir::Output& o : scope.graph->outputs)
    if (std::find(node.outputs.begin(), node.outputs.end(), o.value) != node.outputs.end())
      out.rows.push_back({"%" + scope.graph->value(o.value).name,
                          o.kind == ir::OutputKind::kLoss ? "the loss" : o.kind == ir::OutputKind::kGradient ? "the gradient of " + scope.graph->inputs[static_cast<std::size_t>(o.input)].name
                                                                                                            : "an output of the program", false, {}});
  if (out.rows.empty()) out.absent = "Nothing reads it.";
  return out;
}

InspectorSection inputSection(const InspectorScope& scope, const ir::Value& value) {
  InspectorSection out{"Input", {}, ""};
  for (const ir::Input& input : scope.graph->inputs) {
    if (input.value != value.id) continue;
    const char* kind = input.kind == ir::InputKind::kParameter ? "parameter" : input.kind == ir::InputKind::kBuffer ? "buffer" : input.kind == ir::InputKind::kConstant ? "constant" : "input of the user";
    out.rows.push_back({"kind", std::string(kind) + (input.trainable ? ", trained" : ""), false, {}});
    out.rows.push_back({"name", input.name, true, {}});
    if (!input.aliases.empty()) out.rows.push_back({"tied with", join(input.aliases, ", "), true, {}});
    if (input.storage) out.rows.push_back({"in the file", input.storage->record, true, {}});
  }
  out.rows.push_back({"global", dimsText(value.shape) + " " + std::string(ir::longName(value.dtype)), true, {}});
  addLocalShapes(scope, value, out.rows);
  out.rows.push_back({"bytes", formatBytes(value.localBytes()) + " on one rank", false, {}});
  if (scope.graph->form != ir::Form::kGlobal) out.rows.push_back({"placement", session::placementSentence(value), false, {}});
  return out;
}

InspectorSection valueUsersSection(const InspectorScope& scope, const ir::Value& value) {
  InspectorSection out{"Users", {}, ""};
  addUsers(scope, value, out);
  if (out.rows.empty()) out.absent = "Nothing reads it.";
  return out;
}

InspectorPage inspectModule(const InspectorScope& scope, const std::string& path) {
  InspectorPage page;
  page.title = path;
  page.subtitle = "module · stage " + scope.stage;
  const ModuleTree tree(*scope.graph);
  const ModuleIndex index = tree.find(path);
  InspectorSection what{"Module", {}, ""};
  if (index < 0) {
    what.absent = "Stage " + scope.stage + " has no node in it.";
    page.sections = {std::move(what)};
    return page;
  }
  std::vector<ModuleIndex> todo{index};
  std::int64_t nodes = 0, collectives = 0, made = 0, flops = 0, ns = 0, saved = 0;
  const passes::DeviceRates rates = passes::ratesOf(scope.workspace->settings().compile);
  std::vector<std::int64_t> total(scope.times == nullptr ? 0 : 1, 0);
  const ir::Location* location = nullptr;
  while (!todo.empty()) {
    const Module& m = tree.at(todo.back());
    todo.pop_back();
    todo.insert(todo.end(), m.children.begin(), m.children.end());
    for (const ir::NodeId id : m.nodes) {
      const ir::Node& node = scope.graph->node(id);
      if (location == nullptr && node.location && node.location->module_path == path) location = node.location.get();
      ++nodes;
      collectives += ir::isCollective(node.op);
      const passes::OpCost cost = passes::costOf(*scope.graph, node, rates);
      flops += cost.flops;
      ns += cost.ns;
      for (const ir::ValueId v : node.outputs)
        if (v != ir::kNone && scope.graph->value(v).storage == ir::kNone) {
          made += scope.graph->value(v).localBytes();
          if (scope.graph->value(v).keep == ir::Keep::kSaved) saved += scope.graph->value(v).localBytes();
        }
      if (scope.times != nullptr)
        if (const auto it = scope.times->of.find(id); it != scope.times->of.end())
          for (const RankNodeTime& r : it->second) total[0] = std::max(total[0], std::int64_t{0}) + r.total_ns / std::max<std::int64_t>(1, r.count) / static_cast<std::int64_t>(it->second.size());
    }
  }
  if (location != nullptr && !location->module_type.empty()) what.rows.push_back({"class", location->module_type, true, {}});
  what.rows.push_back({"nodes", strf("%lld, of them %lld collectives", static_cast<long long>(nodes), static_cast<long long>(collectives)), false, {}});
  what.rows.push_back({"parameters", formatBytes(tree.at(index).parameter_bytes), false, {}});
  what.rows.push_back({"values made", formatBytes(made) + " on one rank", false, {}});
  if (scope.graph->form == ir::Form::kJoint) what.rows.push_back({"saved for backward", formatBytes(saved) + " on one rank", false, {}});
  what.rows.push_back({"operations", flopText(flops) + " on one rank", false, {}});
  what.rows.push_back({"time, predicted", formatNs(ns), false, {}});
  if (!total.empty() && total[0] > 0) what.rows.push_back({"time, measured", formatNs(total[0]) + " in a step, mean of the ranks", false, {}});
  page.sections = {std::move(what)};
  return page;
}

}  // namespace spscope::ui
