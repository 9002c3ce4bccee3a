// SPDX-License-Identifier: Apache-2.0
#include "passes/sequence/plan_sequence.h"

#include <algorithm>
#include <set>

#include "core/base/strings.h"
#include "passes/sequence/planner.h"
#include "passes/sequence/rules.h"

namespace spscope::passes {
namespace {

using ir::Input;
using ir::InputKind;
using ir::Tag;

const std::set<std::string>& defaultNames() {
  static const std::set<std::string> names = {"input_ids", "labels", "position_ids", "attention_mask"};
  return names;
}

bool isInteger(ir::DType t) { return !ir::isFloating(t) && !ir::isComplex(t); }

void tag(ir::Value& v, int dim) {
  v.factors = ir::plainFactors(v.shape);
  auto& list = v.factors[static_cast<std::size_t>(dim)];
  if (!list.empty()) list[0].tag = Tag::kSequence;
  // What stands before the sequence is the batch: merged [B*S] dims must not be cut across it.
  if (dim >= 1 && !v.factors[static_cast<std::size_t>(dim) - 1].empty())
    v.factors[static_cast<std::size_t>(dim) - 1][0].tag = Tag::kBatch;
}

/// Which user inputs follow the sequence, and along which dim.
void tagInputs(ir::Graph& graph, const PassContext& context) {
  if (!context.settings.sequence_marks.empty()) {
    for (const auto& [name, dim] : context.settings.sequence_marks)
      for (const Input& input : graph.inputs)
        if (input.name == name) tag(graph.value(input.value), normDim(dim, static_cast<int>(graph.value(input.value).shape.size())));
    return;
  }
  ir::Dims shape;
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::kUser && defaultNames().count(input.name) && graph.value(input.value).shape.size() == 2) {
      tag(graph.value(input.value), 1);
      if (shape.empty()) shape = graph.value(input.value).shape;
    }
  if (shape.empty()) return;
  for (const Input& input : graph.inputs) {
    ir::Value& v = graph.value(input.value);
    if (input.kind != InputKind::kUser || defaultNames().count(input.name) || v.shape != shape || !isInteger(v.dtype)) continue;
    tag(v, 1);
    context.diagnostics->warn("sequence-assumed",
                              "input " + input.name + " has the shape [batch, sequence] of the others and is cut like them",
                              "%" + v.name, {}, "Say --sequence NAME:DIM,... to name all inputs that are cut.");
  }
}

Status checkLegal(const ir::Graph& graph, const PassContext& context) {
  const auto loss = std::find_if(graph.outputs.begin(), graph.outputs.end(),
                                 [](const ir::Output& o) { return o.kind == ir::OutputKind::kLoss; });
  if (loss == graph.outputs.end())
    return makeError("no-loss", "the graph returns no scalar floating-point loss: there is nothing to differentiate");
  if (context.settings.sp > 1)
    for (ir::NodeId id : graph.order) {
      const ir::Node& n = graph.node(id);
      if (!ir::isRandom(n.op) || (ir::baseName(n.op).find("dropout") != std::string_view::npos &&
                                  (ir::doubleArg(n, "p", 0.5) == 0.0 || !ir::boolArg(n, "train", true))))
        continue;
      Error e = makeError("random-op-sharded", n.op.str() + " draws from a sequential generator: its numbers on a shard would "
                                                            "not be those of the unsharded run");
      e.node = n.name;
      if (n.location) e.source = n.location->source;
      e.legal = "--sp 1, or an export with dropout p = 0";
      return e;
    }
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
    if (dim < -rank || dim >= rank)
      return makeError("mark-dim", strf("--sequence %s:%d: the value has %d dims", name.c_str(), dim, rank), Outcome::kUsage);
  }
  return {};
}

Result<bool> run(ir::Graph& graph, const PassContext& context) {
  if (graph.mesh.axes.empty()) graph.mesh.axes = {{"dp", context.settings.dp}, {"sp", context.settings.sp}};
  tagInputs(graph, context);
  Planner planner(graph, context);
  SP_TRY(planner.run());
  bool sharded = false;
  for (ir::NodeId id : graph.order)
    for (ir::ValueId v : graph.node(id).outputs)
      sharded = sharded || (v != ir::kNone && graph.value(v).placement.isSharded());
  if (!sharded && context.settings.sp > 1)
    context.diagnostics->warn("nothing-sharded", "no value of the graph could be sharded: every rank computes everything", {}, {},
                              "Name what is the sequence with --sequence NAME:DIM (an input or any value of the graph).");
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
            {"all_reduce", "partial sums completed"},
            {"expected_all_to_all", "4 per attention whose query is sharded on the sequence"}},
           ir::Form::kGlobal,
           ir::Form::kPlanned},
          checkLegal,
          run};
}

}  // namespace spscope::passes
