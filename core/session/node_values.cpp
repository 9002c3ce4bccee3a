// SPDX-License-Identifier: Apache-2.0
#include "core/session/node_values.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/ir/pending.h"
#include "core/session/value_map.h"
#include "core/session/verify.h"
#include "core/session/virtual_programs.h"
#include "core/torch/threads.h"

namespace spscope::session {
namespace {

/// Runs until every rank has done `node`; its values then, by rank.
Result<std::vector<exec::TensorBag>> runTo(exec::VirtualRanks& ranks, ir::NodeId node, int output, const exec::TensorBag& inputs, const Request& request,
                                           std::uint64_t seed) {
  exec::StepOptions options;
  options.seed = seed;
  options.cancel = request.cancel;
  SP_TRY(ranks.begin(inputs, options));
  std::vector<exec::TensorBag> out(static_cast<std::size_t>(ranks.ranks()));
  int missing = ranks.ranks();
  std::vector<std::size_t> before(out.size());
  while (missing > 0 && !ranks.done()) {
    for (int r = 0; r < ranks.ranks(); ++r) before[static_cast<std::size_t>(r)] = ranks.position(r);
    SP_TRY(ranks.stepNode());
    for (int r = 0; r < ranks.ranks(); ++r) {
      const std::size_t at = before[static_cast<std::size_t>(r)];
      if (ranks.position(r) == at || ranks.program(r).node(at).id != node) continue;
      const auto& outputs = ranks.program(r).node(at).outputs;
      if (static_cast<std::size_t>(output) >= outputs.size() || outputs[static_cast<std::size_t>(output)] == ir::kNone)
        return makeError("usage", strf("%%%s has no result %d", ranks.program(r).node(at).name.c_str(), output));
      SP_ASSIGN(exec::TensorBag value, ranks.value(r, outputs[static_cast<std::size_t>(output)]));
      out[static_cast<std::size_t>(r)] = value.clone();  // what runs meanwhile on other ranks may reuse its memory
      --missing;
    }
  }
  if (missing > 0) return makeError("usage", strf("the program has no node #%d", node));
  return out;
}

/// The value of the unsharded program, and what it says of the ranks' ones.
Status compareWith(const Model& model, const NodeValuesRequest& what, const std::vector<exec::TensorBag>& parts, const exec::TensorBag& state,
                   const exec::TensorBag& inputs, const Request& request, NodeValues& out) {
  const ir::Graph& graph = *what.programs.front();
  SP_ASSIGN(const std::shared_ptr<const ir::Graph> reference, compileUnsharded(model, what.settings, request));
  const ir::Node& node = graph.node(what.node);
  const ir::ValueId value = node.outputs[static_cast<std::size_t>(what.output)];
  const Counterpart counterpart = counterpartsOf(graph, *reference)[static_cast<std::size_t>(value)];
  if (counterpart.reference == ir::kNone) {
    out.alone = ir::isStart(node.op) ? "a buffer on its way: it means nothing before the wait" : "the unsharded program has no such value";
    return {};
  }
  const ir::Value& wanted = reference->value(counterpart.reference);
  const ir::Node& twin = reference->node(wanted.producer);
  out.reference_node = twin.name;
  request.report("unsharded step");
  SP_ASSIGN(exec::VirtualRanks one, prepareRanks({reference}, state));
  SP_ASSIGN(const std::vector<exec::TensorBag> whole, runTo(one, twin.id, wanted.output_index, inputs, request, what.data.seed));
  SP_ASSIGN(std::optional<Nearest> nearest, nearestTo(whole.front(), parts, counterpart.how, shardOuters(graph)));
  if (!nearest) {
    out.alone = "the ranks' parts do not make up the unsharded value: they lie in another shape";
    return {};
  }
  out.difference = std::move(nearest->difference);
  out.how = std::move(nearest->how);
  SP_ASSIGN(out.unsharded, exec::summarize(whole.front()));
  out.within = out.difference.error <= exec::Tolerance::of(model.computing_dtype).gradient * out.difference.norm;
  return {};
}

}  // namespace

Result<NodeValues> nodeValues(const Model& model, const NodeValuesRequest& what, const Request& request) {
  const ir::Graph& graph = *what.programs.front();
  if (what.node < 0 || std::find(graph.order.begin(), graph.order.end(), what.node) == graph.order.end())
    return makeError("usage", "the program that runs has no such node: a later pass replaced it");
  NodeValues out;
  out.node = what.node;
  out.output = what.output;
  out.name = graph.node(what.node).name;
  exec::setThreads(what.settings.threads);
  request.report("load weights");
  SP_ASSIGN(const exec::TensorBag state, loadState(model, what.data, request));
  SP_ASSIGN(const exec::TensorBag inputs, loadInputs(model, what.data, 0, request));
  request.report("sharded step");
  SP_ASSIGN(exec::VirtualRanks ranks, prepareRanks(what.programs, state));
  SP_ASSIGN(const std::vector<exec::TensorBag> parts, runTo(ranks, what.node, what.output, inputs, request, what.data.seed));
  out.value = graph.value(graph.node(what.node).outputs[static_cast<std::size_t>(what.output)]).name;
  for (const exec::TensorBag& part : parts) {
    SP_ASSIGN(exec::ValueSummary summary, exec::summarize(part));
    out.ranks.push_back(std::move(summary));
  }
  SP_TRY(compareWith(model, what, parts, state, inputs, request, out));
  return out;
}

}  // namespace spscope::session
