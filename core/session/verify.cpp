// SPDX-License-Identifier: Apache-2.0
#include "core/session/verify.h"

#include <algorithm>

#include "core/session/run.h"
#include "core/session/step_processes.h"
#include "core/torch/shards.h"
#include "core/torch/tensor_store.h"
#include "core/torch/threads.h"
#include "core/torch/virtual_ranks.h"

namespace spscope::session {

Result<exec::StepResult> runUnsharded(const Model& model, const passes::Settings& settings, const exec::TensorBag& state,
                                      const exec::TensorBag& inputs, const Request& request, std::uint64_t seed) {
  CompileRequest compile_request;
  compile_request.settings = settings;
  compile_request.settings.sp = 1;
  compile_request.settings.dp = 1;
  compile_request.settings.zero = 0;
  compile_request.settings.accumulate = 1;
  compile_request.settings.save = "all";
  compile_request.settings.read_masks = false;  // what these passes read into the graph is put to the proof, too
  compile_request.settings.tile_loss = false;
  compile_request.keep_graphs = false;
  DiagnosticSink quiet;  // the sharded compilation says the same and more
  Request inner = request;
  inner.diagnostics = &quiet;
  inner.progress = {};  // to the caller this is one step
  SP_ASSIGN(const CompileOutcome compiled, compile(model, compile_request, inner));
  exec::ProgramOptions options;
  SP_ASSIGN(auto program, exec::Program::prepare(compiled.compiled.programs.front(), options));
  exec::Executor executor(std::move(program));
  SP_TRY(executor.bind(state));
  exec::StepOptions step;
  step.cancel = request.cancel;
  step.seed = seed;
  return executor.step(inputs, step);
}

namespace {

/// The sharded step with all ranks in this process.
Result<std::vector<exec::StepResult>> stepVirtually(const passes::Compiled& compiled, const exec::TensorBag& state,
                                                    const exec::TensorBag& inputs, const Request& request, std::uint64_t seed) {
  std::vector<std::shared_ptr<const exec::Program>> programs;
  for (int rank = 0; rank < static_cast<int>(compiled.class_of_rank.size()); ++rank) {
    const int index = compiled.class_of_rank[static_cast<std::size_t>(rank)];
    exec::ProgramOptions options;
    options.rank = rank;
    options.ranks = static_cast<int>(compiled.class_of_rank.size());
    SP_ASSIGN(auto program, exec::Program::prepare(compiled.programs[static_cast<std::size_t>(index)], options));
    programs.push_back(std::move(program));
  }
  SP_ASSIGN(exec::VirtualRanks ranks, exec::VirtualRanks::create(std::move(programs)));
  SP_TRY(ranks.bind(state));
  exec::StepOptions step;
  step.cancel = request.cancel;
  step.seed = seed;
  return ranks.step(inputs, step);
}

}  // namespace

Result<VerifyOutcome> verify(const Model& model, const VerifyRequest& what, const Request& request) {
  VerifyOutcome out;
  SP_TRY(checkTransport(what.ranks));
  exec::setThreads(what.settings.threads);
  CompileRequest compile_request;
  compile_request.settings = what.settings;
  request.report("compile");
  SP_ASSIGN(out.compiled, compile(model, compile_request, request));
  request.report("load weights");
  SP_ASSIGN(const exec::TensorBag state, loadState(model, what.data, request));
  SP_ASSIGN(const exec::TensorBag inputs, loadInputs(model, what.data, 0, request));

  request.report("unsharded step");
  SP_ASSIGN(exec::StepResult reference, runUnsharded(model, what.settings, state, inputs, request, what.data.seed));
  out.reference_loss = reference.loss;
  out.reference_peak_bytes = reference.peak_bytes;

  request.report("sharded step");
  SP_ASSIGN(std::vector<exec::StepResult> results,
            what.ranks == "virtual" ? stepVirtually(out.compiled.compiled, state, inputs, request, what.data.seed)
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
  if (!what.grads_path.empty())
    SP_TRY(exec::saveBag(exec::withAliases(*model.graph, results[static_cast<std::size_t>(out.worst_rank)].gradients), what.grads_path));
  return out;
}

}  // namespace spscope::session
