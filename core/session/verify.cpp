// SPDX-License-Identifier: Apache-2.0
#include "core/session/verify.h"

#include <algorithm>
#include <cmath>

#include "core/session/accumulated_proof.h"
#include "core/session/accumulation.h"
#include "core/session/run.h"
#include "core/session/step_processes.h"
#include "core/session/virtual_programs.h"
#include "core/torch/shards.h"
#include "core/torch/tensor_store.h"
#include "core/torch/threads.h"

namespace spscope::session {

Result<std::shared_ptr<const ir::Graph>> compileUnsharded(const Model& model, const passes::Settings& settings, const Request& request) {
  CompileRequest compile_request;
  compile_request.settings = settings;
  compile_request.settings.sp = 1;
  compile_request.settings.dp = 1;
  compile_request.settings.zero = 0;
  compile_request.settings.accumulate = 1;
  compile_request.settings.save = "all";
  compile_request.settings.read_masks = false;  // what these passes read into the graph is put to the proof, too
  compile_request.settings.tile_loss = false;
  compile_request.settings.faults.clear();
  compile_request.keep_graphs = false;
  DiagnosticSink quiet;  // the sharded compilation says the same and more
  Request inner = request;
  inner.diagnostics = &quiet;
  inner.progress = {};  // to the caller this is one step
  SP_ASSIGN(const CompileOutcome compiled, compile(model, compile_request, inner));
  return compiled.compiled.programs.front();
}

Result<exec::StepResult> runUnsharded(const Model& model, const passes::Settings& settings, const exec::TensorBag& state,
                                      const exec::TensorBag& inputs, const Request& request, std::uint64_t seed) {
  passes::Settings one = settings;
  one.accumulate = 1;
  return runUnshardedBatches(model, one, state, [&](std::int64_t) -> Result<exec::TensorBag> { return inputs; }, request, seed);
}

std::vector<std::shared_ptr<const ir::Graph>> programsOf(const passes::Compiled& compiled) {
  std::vector<std::shared_ptr<const ir::Graph>> out;
  for (const int index : compiled.class_of_rank) out.push_back(compiled.programs[static_cast<std::size_t>(index)]);
  return out;
}

namespace {

/// The sharded step with all ranks in this process. `first`: the first of its batches.
Result<std::vector<exec::StepResult>> stepVirtually(const Model& model, const VerifyRequest& what, const passes::Compiled& compiled, const exec::TensorBag& state,
                                                    const exec::TensorBag& first, const Request& request) {
  SP_ASSIGN(exec::VirtualRanks ranks, prepareRanks(programsOf(compiled), state));
  exec::StepOptions step;
  step.cancel = request.cancel;
  step.seed = what.data.seed;
  const BatchWeights weights = BatchWeights::of(*model.graph);
  return accumulate(what.settings.accumulate, 0, weights, [&](std::int64_t index) -> Result<BatchResult> {
    exec::TensorBag inputs = first;
    if (index > 0) {
      SP_ASSIGN(inputs, loadInputs(model, what.data, index, request));
    }
    BatchResult batch;
    if (what.settings.accumulate > 1) {
      SP_ASSIGN(batch.weight, weights.weight(inputs));
    }
    step.step = index;
    SP_ASSIGN(batch.ranks, ranks.step(inputs, step));
    return batch;
  });
}

/// Both programs once more, node by node; stage by stage where that is asked for.
Status locate(const Model& model, const VerifyRequest& what, const exec::TensorBag& state, const exec::TensorBag& inputs, const Request& request,
              VerifyOutcome& out) {
  const passes::Compiled& compiled = out.compiled.compiled;
  Sides sides;
  SP_ASSIGN(sides.reference, compileUnsharded(model, what.settings, request));
  sides.programs = programsOf(compiled);
  sides.state = state;
  sides.inputs = inputs;
  sides.tolerance = out.tolerance;
  sides.step.seed = what.data.seed;
  SP_ASSIGN(ValueComparison comparison, compareValues(sides, request));
  out.first_difference = std::move(comparison.first);
  if (!what.bisect) return {};
  SP_ASSIGN(const std::vector<StageGraphs> stages, stageGraphs(model, what.settings, request));
  SP_ASSIGN(out.bisection, bisect(stages, sides, request));
  // Of a pass that is only the first in which it shows, no rewrite is to blame.
  if (!out.bisection->pass.empty() && (out.bisection->suspects.size() == 1 || (out.first_difference && out.first_difference->pass == out.bisection->pass))) {
    SP_ASSIGN(out.bisection->rewrite, bisectRewrites(what.settings, stages, out.bisection->pass, sides, request));
  }
  // The pass that made the node, where that is one of those that it may have been.
  const auto& suspects = out.bisection->suspects;
  if (out.first_difference && std::find(suspects.begin(), suspects.end(), out.first_difference->pass) == suspects.end() && !out.bisection->pass.empty())
    out.first_difference->pass = out.bisection->pass;
  return {};
}

}  // namespace

Result<VerifyOutcome> verify(const Model& model, const VerifyRequest& what, const Request& request) {
  SP_TRY(checkTransport(what.ranks));
  CompileRequest compile_request;
  compile_request.settings = what.settings;
  request.report("compile");
  SP_ASSIGN(CompileOutcome compiled, compile(model, compile_request, request));
  return prove(model, what, std::move(compiled), request);
}

Result<VerifyOutcome> prove(const Model& model, const VerifyRequest& what, CompileOutcome compiled, const Request& request) {
  VerifyOutcome out;
  out.compiled = std::move(compiled);
  exec::setThreads(what.settings.threads);
  request.report("load weights");
  SP_ASSIGN(const exec::TensorBag state, loadState(model, what.data, request));
  SP_ASSIGN(const exec::TensorBag inputs, loadInputs(model, what.data, 0, request));

  request.report("unsharded step");
  exec::StepResult reference;
  if (what.settings.accumulate > 1) {
    SP_ASSIGN(AccumulatedReference held, accumulatedReference(model, what, state, request));
    reference = std::move(held.step);
    out.reference = std::move(held.text);
  } else {
    SP_ASSIGN(reference, runUnsharded(model, what.settings, state, inputs, request, what.data.seed));
  }
  out.reference_loss = reference.loss;
  out.reference_peak_bytes = reference.peak_bytes;

  request.report("sharded step");
  SP_ASSIGN(std::vector<exec::StepResult> results,
            what.ranks == "virtual" ? stepVirtually(model, what, out.compiled.compiled, state, inputs, request)
                                    : stepOnProcesses(what, request));

  if (what.settings.zero != 0 && what.settings.ranks() > 1) {  // each rank has its blocks only: what they make up is compared
    std::vector<exec::TensorBag> blocks;
    for (const exec::StepResult& r : results) blocks.push_back(r.gradients);
    SP_ASSIGN(const exec::TensorBag whole, exec::joinShards(blocks, state));
    for (exec::StepResult& r : results) r.gradients = whole;
  }
  request.report("compare");
  out.tolerance = exec::Tolerance::of(model.computing_dtype);
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    const exec::StepResult& r = results[rank];
    const double loss_rel = exec::relativeError(r.loss, reference.loss);
    SP_ASSIGN(exec::GradientComparison gradients, exec::compareGradients(r.gradients, reference.gradients, out.tolerance.floor));
    out.peak_bytes.push_back(r.peak_bytes);
    if (rank == 0 || !(loss_rel <= out.loss_rel)) out.loss_rel = loss_rel, out.loss = r.loss;
    if (rank == 0 || !(gradients.rel_max <= out.gradients.rel_max))
      out.gradients = std::move(gradients), out.worst_rank = static_cast<int>(rank);
  }
  // Written so that a NaN anywhere is "different".
  out.equal = out.loss_rel <= out.tolerance.loss && out.gradients.rel_max <= out.tolerance.gradient;
  SP_ASSIGN(out.float32, againstFloat32(model, what.settings, what.data, reference, results, request));
  out.equal = out.equal && (!out.float32 || out.float32->within());
  const bool comparable = std::isfinite(reference.loss) && std::isfinite(out.gradients.total_norm);
  if (!out.equal && comparable)
    if (const Status found = locate(model, what, state, inputs, request, out); !found) {
      const Error& e = found.error();
      if (e.code == "cancelled") return e;
      request.diagnostics->warn(e.code, "where they begin to differ is not known: " + e.message, e.node, e.source, e.remedy);  // the verdict stands
    }
  if (!what.grads_path.empty())
    SP_TRY(exec::saveBag(exec::withAliases(*model.graph, results[static_cast<std::size_t>(out.worst_rank)].gradients), what.grads_path));
  return out;
}

}  // namespace spscope::session
