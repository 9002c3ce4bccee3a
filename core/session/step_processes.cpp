// SPDX-License-Identifier: Apache-2.0
#include "core/session/step_processes.h"

#include "core/dist/run_directory.h"
#include "core/session/rank_loop.h"
#include "core/session/run.h"
#include "core/torch/tensor_store.h"

namespace spscope::session {
namespace {

/// Gradients go through files of a private directory, which ends with this call.
struct Scratch {
  dist::RunDirectory directory;
  ~Scratch() { directory.remove(); }
};

}  // namespace

Result<std::vector<exec::StepResult>> stepOnProcesses(const VerifyRequest& proof, const Request& request) {
  SP_ASSIGN(dist::RunDirectory directory, dist::RunDirectory::create());
  const Scratch scratch{std::move(directory)};
  RunRequest what;
  what.open = proof.open;
  what.settings = proof.settings;
  what.data = proof.data;
  what.ranks = proof.ranks;
  what.timeout_seconds = proof.timeout_seconds;
  what.grads_to = scratch.directory.path() + "/grads";
  what.allow_replicated = true;  // a proof holds for replicated programs, too
  DiagnosticSink quiet;          // the caller has compiled, and said what there is to say
  Request inner = request;
  inner.diagnostics = &quiet;
  SP_ASSIGN(const RunOutcome run, session::run(what, inner));
  if (run.failure) return run.failure->error;
  if (run.cancelled) return makeError("cancelled", "cancelled on request", Outcome::kNo);
  std::vector<exec::StepResult> out(static_cast<std::size_t>(proof.settings.ranks()));
  for (int r = 0; r < proof.settings.ranks(); ++r) {
    exec::StepResult& result = out[static_cast<std::size_t>(r)];
    result.has_loss = true;
    result.loss = run.last_loss[static_cast<std::size_t>(r)];
    result.peak_bytes = run.step_peak_bytes[static_cast<std::size_t>(r)];
    SP_ASSIGN(result.gradients, exec::loadBag(gradsFile(what.grads_to, r)));
  }
  return out;
}

}  // namespace spscope::session
