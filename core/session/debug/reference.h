// SPDX-License-Identifier: Apache-2.0
// What the values of a debugged step are held against: the unsharded step, in its own type or in float64; the same ranks under
// another memory policy; or the same ranks in another step of the training.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/session/first_difference.h"

namespace spscope::session::debug {

/// Where the debugged programs came from: needed by what compiles, loads or trains again.
struct Origin {
  std::shared_ptr<const Model> model;
  passes::Settings settings;
  DataRequest data;
};

/// Error debug-no-origin, where it is null or has no model.
Status haveOrigin(const Origin* origin);

struct ReferenceChoice {
  enum class Kind : std::uint8_t { kUnsharded, kFloat64, kSave, kStep };
  Kind kind = Kind::kUnsharded;
  std::string save;       ///< kSave: a memory policy
  std::int64_t step = 0;  ///< kStep
};

struct Reference {
  std::string words;      ///< "the unsharded step in float64"
  bool by_rank = false;   ///< a rank's value is held against the same rank's; else all of them, put together, against the whole
  bool wider = false;     ///< it computes in another type than the ranks
  std::vector<std::shared_ptr<const ir::Graph>> programs;  ///< of one rank, or of each
  exec::TensorBag state, inputs;
  exec::StepOptions step;
  exec::Tolerance tolerance;
  std::int64_t budget_bytes = 0;  ///< as Sides::budget_bytes
};

/// The unsharded step of `sides`.
Reference unshardedReference(const Sides& sides);
/// Compiles, and for kStep trains, what was chosen. `origin` may be null: only kUnsharded is to be had then. Errors: debug-no-origin, those
/// of compile, loadInputs, Optimizer and the executor.
Result<Reference> makeReference(const ReferenceChoice& choice, const Sides& sides, const Origin* origin, const Request& request);

}  // namespace spscope::session::debug
