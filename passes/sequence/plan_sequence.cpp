// SPDX-License-Identifier: Apache-2.0
#include "passes/sequence/plan_sequence.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/ir/attention.h"
#include "passes/sequence/planner.h"
#include "passes/sequence/rules.h"
#include "passes/sequence/tag_inputs.h"

namespace spscope::passes {
namespace {

using ir::Input;
using ir::InputKind;

Status checkLegal(const ir::Graph& graph, const PassContext& context) {
  const auto loss = std::find_if(graph.outputs.begin(), graph.outputs.end(),
                                 [](const ir::Output& o) { return o.kind == ir::OutputKind::kLoss; });
  if (loss == graph.outputs.end())
    return makeError("no-loss", "the graph returns no scalar floating-point loss: there is nothing to differentiate");
  for (const auto& [name, dim] : context.settings.sequence_marks) {
    int rank = -1;
    for (const Input& input : graph.inputs)
      if (input.name == name) rank = static_cast<int>(graph.value(input.value).shape.size());
    for (ir::NodeId id : graph.order) {
      const ir::Node& n = graph.node(id);
      for (ir::ValueId v : n.outputs)
        if (v != ir::kNone && (n.name == name || graph.value(v).name == name)) rank = static_cast<int>(graph.value(v).shape.size());
    }
    std::vector<std::string> names;
    for (const Input& input : graph.inputs)
      if (input.kind == InputKind::kUser) names.push_back(input.name);
    if (rank < 0) {
      Error e = makeError("mark-unknown", "--sequence names '" + name + "', which is no input and no value of the graph", Outcome::kUsage);
      e.legal = join(names, ", ");
      return e;
    }
    if (dim != kWholeMark && (dim < -rank || dim >= rank))
      return makeError("mark-dim", strf("--sequence %s:%d: the value has %d dims", name.c_str(), dim, rank), Outcome::kUsage);
  }
  if (context.settings.rules)
    for (ir::NodeId id : graph.order) {
      const ir::Node& node = graph.node(id);
      const ir::OpRule* rule = context.settings.rules->find(node.op);
      if (rule == nullptr) continue;
      if (ruleTable().count(ir::baseName(node.op)) != 0 && node.op.str().starts_with("aten.")) {
        Error e = makeError("rule-built-in", rule->shownName() + " has a rule of this program");
        e.node = "%" + node.name;
        e.source = rule->place;
        return e;
      }
      SP_TRY(ir::bind(*rule, graph, node));
    }
  return {};
}

Result<bool> run(ir::Graph& graph, const PassContext& context) {
  if (graph.mesh.axes.empty()) graph.mesh.axes = {{"dp", context.settings.dp}, {"sp", context.settings.sp}};
  tagInputs(graph, context.settings, *context.diagnostics);
  Planner planner(graph, context);
  const bool attends = !ir::findAttention(graph).empty();
  SP_TRY(planner.run());
  bool sharded = false;
  for (ir::NodeId id : graph.order)
    for (ir::ValueId v : graph.node(id).outputs)
      sharded = sharded || (v != ir::kNone && graph.value(v).placement.isSharded());
  if (!sharded && context.settings.sp > 1)
    context.diagnostics->warn("nothing-sharded", "no value of the graph could be sharded: every rank computes everything", {}, {},
                              "Name what is the sequence with --sequence NAME:DIM (an input or any value of the graph).");
  else if (!attends && context.settings.sp > 1)
    context.diagnostics->warn("no-attention", "the graph holds no attention: tokens are shared out, but nothing lets them see each other");
  return true;
}

}  // namespace

Pass planSequencePass() {
  return {{"plan-sequence",
           "Find by data flow where each value lives on the sequence axis",
           {{"all_to_all", "exchanges between the sequence and another factor"},
            {"slice", "replicated values cut where they meet sharded ones"},
            {"vary", "replicated trainable values used by rank-dependent work (one gradient sum each)"},
            {"all_gather", "sharded values made whole because no rule applied (fallbacks)"},
            {"edge_exchanges", "shifts, scans and causal convolutions that exchange the edges of blocks"},
            {"all_reduce", "partial sums completed"},
            {"expected_all_to_all", "4 per attention whose query is sharded on the sequence, 2 for keys and values that only whole queries meet"}},
           ir::Form::kGlobal,
           ir::Form::kPlanned},
          checkLegal,
          run};
}

}  // namespace spscope::passes
