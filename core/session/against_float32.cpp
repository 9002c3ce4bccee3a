// SPDX-License-Identifier: Apache-2.0
#include "core/session/against_float32.h"

#include <cmath>

#include "core/session/accumulated_proof.h"
#include "core/session/wider_model.h"
#include "core/torch/compare.h"
#include "core/torch/tensor_store.h"

namespace spscope::session {
namespace {

/// Of all gradients together: single ones may be all rounding.
Result<double> gradientError(const exec::StepResult& got, const exec::StepResult& wanted) {
  SP_ASSIGN(const exec::GradientComparison c, exec::compareGradients(got.gradients, wanted.gradients, 0.0));
  double squares = 0.0;
  for (const exec::ParameterDifference& p : c.parameters) squares += p.error * p.error;
  return std::sqrt(squares) / c.total_norm;
}

/// The larger, and what is no number before all.
double worse(double a, double b) { return std::isnan(a) || b <= a ? a : b; }

}  // namespace

Result<std::optional<AgainstFloat32>> againstFloat32(const Model& model, const passes::Settings& settings, const DataRequest& data,
                                                     const exec::StepResult& unsharded, const std::vector<exec::StepResult>& sharded,
                                                     const Request& request) {
  if (model.computing_dtype != ir::DType::kBF16 && model.computing_dtype != ir::DType::kF16) return std::optional<AgainstFloat32>();
  request.report("float32 step");
  SP_ASSIGN(const std::shared_ptr<const Model> wide, widerModel(model, ir::DType::kF32));
  const Model& twin = *wide;
  DiagnosticSink quiet;  // loading said it once
  Request inner = request;
  inner.diagnostics = &quiet;
  // The same numbers: a weight that was rounded to 16 bits for the model under proof is rounded for its twin.
  SP_ASSIGN(const exec::TensorBag rounded, loadState(model, data, inner));
  const exec::TensorBag state = exec::inTypeOf(rounded, *twin.graph);
  const BatchOf batch = [&](std::int64_t index) -> Result<exec::TensorBag> {
    SP_ASSIGN(const exec::TensorBag given, loadInputs(model, data, index, inner));
    return exec::inTypeOf(given, *twin.graph);
  };
  SP_ASSIGN(const exec::StepResult reference, runUnshardedBatches(twin, settings, state, batch, inner, data.seed));
  AgainstFloat32 out;
  out.loss = reference.loss;
  out.unsharded_loss = exec::relativeError(unsharded.loss, reference.loss);
  SP_ASSIGN(out.unsharded_gradient, gradientError(unsharded, reference));
  for (const exec::StepResult& rank : sharded) {
    out.sharded_loss = worse(out.sharded_loss, exec::relativeError(rank.loss, reference.loss));
    SP_ASSIGN(const double gradient, gradientError(rank, reference));
    out.sharded_gradient = worse(out.sharded_gradient, gradient);
  }
  return std::optional<AgainstFloat32>(out);
}

}  // namespace spscope::session
