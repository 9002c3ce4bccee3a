// SPDX-License-Identifier: Apache-2.0
// What changes while training: weights and optimizer. Made from the model or from a saved step, updated, saved.
//
// On disk: FOLDER/step-000010/{weights,optimizer}.safetensors, and FOLDER/latest with the name of the newest. A step's
// folder appears whole or not at all.
#pragma once

#include <memory>
#include <string>

#include "core/session/run.h"
#include "core/torch/executor.h"
#include "core/torch/optimizer.h"

namespace spscope::session {

/// Makes the folder of --save-to and tries it, so that no run finds out after its last step. Errors: file-unwritable.
Status prepareFolder(const std::string& folder);

class TrainState {
 public:
  /// Errors: those of loadState and Optimizer::create; resume-missing, resume-mismatch.
  static Result<TrainState> create(const Model& model, const RunRequest& what, const Request& request);

  const exec::TensorBag& weights() const { return weights_; }
  /// Steps that were made, those before a resume included.
  std::int64_t stepsMade() const { return optimizer_->steps(); }
  Result<exec::OptimizerReport> apply(const exec::TensorBag& gradients) { return optimizer_->apply(gradients); }
  /// Weights and optimizer states: there before a step and after it.
  std::int64_t residentBytes() const { return weights_.bytes() + optimizer_->stateBytes(); }
  /// Writes a step's folder and returns it. Errors: file-unwritable, those of saveBag.
  Result<std::string> save(const std::string& folder) const;

 private:
  Status resume(const std::string& folder);

  std::shared_ptr<const ir::Graph> graph_;
  exec::TensorBag weights_;
  std::unique_ptr<exec::Optimizer> optimizer_;
};

}  // namespace spscope::session
