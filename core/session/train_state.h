// SPDX-License-Identifier: Apache-2.0
// What changes while training: weights and optimizer. Made from the model or from a saved step, updated, saved.
//
// On disk: FOLDER/step-000010/{weights,optimizer}.safetensors, and FOLDER/latest with the name of the newest. A step's
// folder appears whole or not at all.
#pragma once

#include <memory>
#include <string>

#include "core/dist/collectives.h"
#include "core/session/run.h"
#include "core/torch/executor.h"
#include "core/torch/optimizer.h"

namespace spscope::session {

/// Makes the folder of --save-to and tries it, so that no run finds out after its last step. Errors: file-unwritable.
Status prepareFolder(const std::string& folder);

class TrainState {
 public:
  /// Errors: those of loadState and Optimizer::create; resume-missing, resume-mismatch.
  /// With ZeRO the states are those of the blocks of the ranks [first, first + count): of one rank, or of all where they are
  /// in this process. Without, there is one set of states, whatever the ranks.
  static Result<TrainState> create(const Model& model, const RunRequest& what, const Request& request, int first = 0, int count = 1);

  /// From weights that are there already; they are changed in place. Errors: those of Optimizer::create.
  static Result<TrainState> of(std::shared_ptr<const ir::Graph> graph, exec::TensorBag weights, const passes::Settings& settings, double lr, double clip, int first = 0,
                               int count = 1);

  const exec::TensorBag& weights() const { return weights_; }
  /// Steps that were made, those before a resume included.
  std::int64_t stepsMade() const { return optimizers_.front().steps(); }
  bool sharded() const { return sharded_; }
  /// Spent so far in the collectives of updates, nanoseconds.
  std::int64_t commNs() const { return comm_ns_; }
  /// One update. `gradients`: of each rank whose states are here; without ZeRO the first one's. `group`: the other ranks,
  /// where blocks of the states are theirs (null: all are here). Also returns when every rank has the new parameters.
  Result<exec::OptimizerReport> apply(const std::vector<exec::TensorBag>& gradients, dist::Collectives* group);
  /// Weights and one rank's optimizer states: there before a step and after it. `index` counts the ranks whose states are here.
  std::int64_t residentBytes(std::size_t index = 0) const { return weights_.bytes() + optimizers_[sharded_ ? index : 0].stateBytes(); }
  /// The whole states, from the blocks of all ranks. With ZeRO every rank of the group must call it.
  Result<exec::TensorBag> wholeStates(dist::Collectives* group) const;
  /// Writes a step's folder and returns it. Errors: file-unwritable, those of saveBag.
  Result<std::string> save(const std::string& folder, const exec::TensorBag& states) const;

 private:
  /// The saved weights in place of the model's.
  static Status resume(const ir::Graph& graph, const std::string& folder, exec::TensorBag& weights);

  std::shared_ptr<const ir::Graph> graph_;
  exec::TensorBag weights_;
  std::vector<exec::Optimizer> optimizers_;  ///< by rank of [first, first + count); one where nothing is sharded
  bool sharded_ = false;
  std::int64_t bucket_bytes_ = 0, comm_ns_ = 0;
};

}  // namespace spscope::session
