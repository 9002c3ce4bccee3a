// SPDX-License-Identifier: Apache-2.0
// The outer search of the memory policies: choices of what to keep at many prices of recomputation, compared by the
// predicted peak of the step that the schedule makes of them.
//
//   sac     the lowest peak; equal peaks: the one that re-runs less.
//   layer-inputs  the same of the choices that make every layer again: what stands outside of layers is chosen.
//   budget  of all choices found, those that nothing beats in peak and cost at once; F says how far between the lowest
//           peak and that of keeping everything the step may go, and the cheapest choice within that is taken. What is
//           compared does not depend on F, so a larger F never takes a lower peak: the sets that F allows are nested.
#pragma once

#include "passes/memory/report.h"
#include "passes/memory/saving.h"

namespace spscope::passes {

/// A choice, and what explains it.
struct SavingChoice {
  Decisions decisions;
  std::vector<SavingReason> rules;  ///< by storage: why it may not be made again; kNone: it may
  MemoryReport report;              ///< without `values`
  int segments = 1;                 ///< prelude + layers
  int distinct_segments = 1;        ///< of different structure: what had to be solved
};

/// Errors: cancelled. `model` is of the graph that `schedule` will see.
Result<SavingChoice> searchSaving(const StepModel& model, const std::vector<bool>& long_values, const CancelToken& cancel,
                                  SavingRules rules = SavingRules::kSac);
Result<SavingChoice> searchBudget(const StepModel& model, const std::vector<bool>& long_values, double budget, const CancelToken& cancel);

/// The point of decisions that no search found, as schedule will run them.
SavingPoint measureChoice(const StepModel& model, const Decisions& decisions, ClassBytes* at_peak);

}  // namespace spscope::passes
