// SPDX-License-Identifier: Apache-2.0
// What an accumulated step (--accumulate K) is held against. Best is one batch of all K batches' rows, unsharded: then the weights
// of the batches are proved, too. Where there is no such batch, or it would rightly differ, the same K batches one after the
// other, unsharded: that proves what the ranks do, but takes the rule by which batches are weighted as given.
#pragma once

#include <functional>
#include <string>

#include "core/session/verify.h"

namespace spscope::session {

struct AccumulatedReference {
  exec::StepResult step;
  std::string text;   ///< for reports: "one unsharded batch of 4 rows"
};

/// Needs settings.accumulate > 1. Errors: those of loadInputs, compile and the executor.
Result<AccumulatedReference> accumulatedReference(const Model& model, const VerifyRequest& what, const exec::TensorBag& state, const Request& request);

/// The batches one after the other: what each holds is `batch(index)`. Also for one batch.
using BatchOf = std::function<Result<exec::TensorBag>(std::int64_t index)>;
Result<exec::StepResult> runUnshardedBatches(const Model& model, const passes::Settings& settings, const exec::TensorBag& state,
                                             const BatchOf& batch, const Request& request, std::uint64_t seed);

}  // namespace spscope::session
