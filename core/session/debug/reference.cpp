// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/reference.h"

#include "core/base/strings.h"
#include "core/session/debug/training.h"
#include "core/session/verify.h"
#include "core/session/wider_model.h"
#include "core/torch/tensor_store.h"

namespace spscope::session::debug {

Status haveOrigin(const Origin* origin) {
  if (origin != nullptr && origin->model != nullptr) return {};
  return makeError("debug-no-origin", "the model that these programs were compiled from is not at hand", Outcome::kNo);
}

Reference unshardedReference(const Sides& sides) {
  Reference out;
  out.words = "the unsharded step";
  out.programs = {sides.reference};
  out.state = sides.state;
  out.inputs = sides.inputs;
  out.step = sides.step;
  out.tolerance = sides.tolerance;
  out.budget_bytes = sides.budget_bytes;
  return out;
}

Result<Reference> makeReference(const ReferenceChoice& choice, const Sides& sides, const Origin* origin, const Request& request) {
  Reference out = unshardedReference(sides);
  if (choice.kind == ReferenceChoice::Kind::kUnsharded) return out;
  SP_TRY(haveOrigin(origin));
  switch (choice.kind) {
    case ReferenceChoice::Kind::kUnsharded: break;
    case ReferenceChoice::Kind::kFloat64: {
      // The same numbers: what was rounded to the working type for the ranks is what the twin begins with.
      SP_ASSIGN(const std::shared_ptr<const Model> wide, widerModel(*origin->model, ir::DType::kF64));
      request.report("compile the step in float64");
      SP_ASSIGN(auto program, compileUnsharded(*wide, origin->settings, request));
      out.words = "the unsharded step in float64";
      out.wider = true;
      out.programs = {std::move(program)};
      out.state = exec::inTypeOf(sides.state, *wide->graph);
      out.inputs = exec::inTypeOf(sides.inputs, *wide->graph);
      break;
    }
    case ReferenceChoice::Kind::kSave: {
      CompileRequest what;
      what.settings = origin->settings;
      what.settings.save = choice.save;
      what.keep_graphs = false;
      DiagnosticSink quiet;  // the debugged compilation said it
      Request inner = request;
      inner.diagnostics = &quiet;
      request.report("compile with --save " + choice.save);
      SP_ASSIGN(const CompileOutcome outcome, compile(*origin->model, what, inner));
      out.words = "the ranks with --save " + choice.save;
      out.by_rank = true;
      out.programs = programsOf(outcome.compiled);
      break;
    }
    case ReferenceChoice::Kind::kStep: {
      SP_ASSIGN(Training training, Training::create(sides, *origin));
      while (training.stepsMade() < choice.step) {
        request.report("train to step " + std::to_string(choice.step), training.stepsMade(), choice.step);
        SP_TRY(training.step(request));
      }
      out.words = strf("the ranks in step %lld of the training", static_cast<long long>(choice.step));
      out.by_rank = true;
      out.programs = sides.programs;
      out.state = training.weights();
      SP_ASSIGN(out.inputs, training.batch(choice.step, request));
      out.step.step = sides.step.step + choice.step;
      break;
    }
  }
  return out;
}

}  // namespace spscope::session::debug
