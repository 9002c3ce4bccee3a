// SPDX-License-Identifier: Apache-2.0
#include "passes/sequence/shard_batch.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/ir/mesh_axis.h"
#include "passes/sequence/insert_all_to_all.h"
#include "passes/sequence/parallelize_loss.h"
#include "passes/sequence/plan_sequence.h"
#include "passes/sequence/planner.h"
#include "passes/sequence/shard_sequence.h"
#include "passes/sequence/tag_inputs.h"

namespace spscope::passes {
namespace {

using ir::Tag;

/// The dim of a user input that counts the rows of the batch; -1 where it has none.
int batchDim(const ir::Value& v, bool any_marked) {
  for (std::size_t d = 0; d < v.factors.size(); ++d) {
    if (!ir::hasTag(v.factors[d], Tag::kSequence)) continue;
    if (d == 0) return v.shape.size() > 1 ? 1 : -1;
    return ir::isFloating(v.dtype) ? 0 : static_cast<int>(d) - 1;
  }
  return any_marked || v.shape.empty() ? -1 : 0;
}

/// Tags the batch of each input as what is cut, the sequence as what must not be merged with it.
void tagBatch(ir::Graph& graph, const Settings& settings) {
  DiagnosticSink quiet;  // plan-sequence says the same of the same inputs
  tagInputs(graph, settings, quiet);
  const auto eachUser = [&](auto&& f) {
    for (const ir::Input& input : graph.inputs)
      if (input.kind == ir::InputKind::kUser) f(input, graph.value(input.value));
  };
  bool any = false;
  eachUser([&](const ir::Input&, const ir::Value& v) { any = any || ir::hasTag(v.factors, Tag::kSequence); });
  eachUser([&](const ir::Input&, ir::Value& v) {
    const int batch = batchDim(v, any);
    if (v.factors.size() != v.shape.size()) v.factors = ir::plainFactors(v.shape);
    for (auto& list : v.factors)
      for (ir::Factor& f : list) f.tag = f.tag == Tag::kSequence ? Tag::kBatch : Tag::kNone;
    if (batch < 0) return;
    for (ir::Factor& f : v.factors[static_cast<std::size_t>(batch)]) f.tag = Tag::kSequence;
  });
}

/// The settings under which the sequence passes see the batch.
Settings asSequence(const Settings& s) {
  Settings out = s;
  out.sp = s.dp;
  out.dp = 1;
  out.sequence_marks.clear();
  return out;
}

PassContext inner(const PassContext& context, const Settings& settings, std::map<std::string, std::int64_t>& statistics) {
  PassContext out{.settings = settings};
  out.services = context.services;
  out.cancel = context.cancel;
  out.diagnostics = context.diagnostics;
  out.statistics = &statistics;
  out.rank = context.rank / context.settings.sp;
  out.on_batch = true;
  return out;
}

/// What the sequence passes made here was made by this pass.
void claim(ir::Graph& graph, std::string_view pass) {
  for (ir::NodeId id : graph.order) {
    ir::Node& n = graph.node(id);
    for (std::string_view lent : {"plan-sequence", "shard-sequence", "insert-all-to-all", "parallelize-loss"})
      if (n.provenance.pass == Symbol(lent)) n.provenance.pass = Symbol(pass);
  }
}

Result<bool> runPlan(ir::Graph& graph, const PassContext& context) {
  const Settings settings = asSequence(context.settings);
  std::map<std::string, std::int64_t> statistics;
  const PassContext on_batch = inner(context, settings, statistics);
  graph.mesh.axes = {{"sp", settings.sp}};
  tagBatch(graph, context.settings);
  SP_TRY(Planner(graph, on_batch).run());
  claim(graph, "plan-batch");
  for (const char* name : {"vary", "slice", "all_gather", "all_reduce", "all_to_all"}) context.count(name, statistics[name]);
  return true;
}

Result<bool> runShard(ir::Graph& graph, const PassContext& context) {
  const Settings settings = asSequence(context.settings);
  std::map<std::string, std::int64_t> statistics;
  const PassContext on_batch = inner(context, settings, statistics);
  for (const Pass& pass : {shardSequencePass(), insertAllToAllPass(), parallelizeLossPass()}) {
    SP_TRY(pass.checkLegal(graph, on_batch));
    SP_TRY(pass.run(graph, on_batch));
  }
  claim(graph, "shard-batch");
  for (ir::NodeId id : graph.order) {
    ir::Node& n = graph.node(id);
    if (n.op.str().rfind("sp.", 0) == 0) ir::setAxis(n, ir::MeshAxis::kData), context.count("ties");
  }
  // From here on it is the program of one replica, as if it had been imported.
  for (std::size_t i = 0; i < graph.valueCount(); ++i) {
    ir::Value& v = graph.value(static_cast<ir::ValueId>(i));
    v.shape = v.local;
    v.factors.clear();
    v.placement = ir::Placement::replicated();
  }
  graph.mesh.axes = {{"dp", context.settings.dp}, {"sp", context.settings.sp}};
  graph.rank = context.rank;
  graph.form = ir::Form::kGlobal;
  return true;
}

}  // namespace

Status checkBatch(const ir::Graph& graph, const Settings& settings) {
  if (settings.dp == 1) return {};
  ir::Graph tagged;  // of the inputs alone
  for (ir::Input input : graph.inputs) {
    input.value = tagged.adoptValue(graph.value(input.value));
    tagged.inputs.push_back(std::move(input));
  }
  tagBatch(tagged, settings);
  const std::int64_t dp = settings.dp;
  bool found = false;
  for (const ir::Input& input : tagged.inputs) {
    const ir::Value& v = tagged.value(input.value);
    if (input.kind != ir::InputKind::kUser) continue;
    for (std::size_t d = 0; d < v.factors.size(); ++d) {
      if (!ir::hasTag(v.factors[d], Tag::kSequence)) continue;
      found = true;
      const std::int64_t rows = v.shape[d];
      if (rows % dp == 0) continue;
      std::vector<std::int64_t> legal;
      for (std::int64_t n = 1; n <= rows; ++n)
        if (rows % n == 0) legal.push_back(n);
      Error e = makeError("setting-dp", strf("--dp %lld: the batch of %lld rows (input %s, dim %zu) cannot be shared out evenly", static_cast<long long>(dp),
                                             static_cast<long long>(rows), input.name.c_str(), d));
      e.node = "%" + v.name;
      e.legal = "--dp " + join(legal, ", ") + strf("; or --batch %lld", static_cast<long long>((rows / dp + 1) * dp));
      return e;
    }
  }
  if (found) return {};
  Error e = makeError("setting-dp", strf("--dp %lld: no input has a batch of more than one row", static_cast<long long>(dp)));
  e.legal = strf("--dp 1; or --batch %lld", static_cast<long long>(dp));
  return e;
}

Pass planBatchPass() {
  return {{"plan-batch",
           "Find by data flow where each value lives on the data axis",
           {{"vary", "parameters used by the replicas (one gradient sum each)"},
            {"slice", "replicated values cut where they meet the rows of one replica"},
            {"all_gather", "values made whole because no rule applied (fallbacks)"},
            {"all_reduce", "partial sums completed over the replicas"},
            {"all_to_all", "exchanges between the batch and another factor"}},
           ir::Form::kGlobal,
           ir::Form::kPlanned},
          [](const ir::Graph& graph, const PassContext& context) { return checkBatch(graph, context.settings); },
          runPlan};
}

Pass shardBatchPass() {
  return {{"shard-batch",
           "Make the program of one replica: its rows of the batch, tied to the others by ops on the data axis",
           {{"ties", "ops on the data axis"}},
           ir::Form::kPlanned,
           ir::Form::kGlobal},
          [](const ir::Graph& graph, const PassContext& context) -> Status {
            if (graph.mesh.sizeOf("sp") == context.settings.dp) return {};
            return makeError("internal", "the graph was planned for another number of replicas");
          },
          runShard};
}

}  // namespace spscope::passes
