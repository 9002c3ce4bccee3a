// SPDX-License-Identifier: Apache-2.0
// A step of ranks that are processes. Moves are planned (schedule.h) and made by settle(): every rank is told how far it may run, and
// runs there on its own; so a step that stops nowhere costs nothing more than a few messages. Wherever they stop, no rank is inside a
// collective, and they may stand there for as long as it takes: no deadline runs. To go back they begin the step again.
#pragma once

#include "core/session/debug/rank_processes.h"
#include "core/session/debug/schedule.h"
#include "core/session/debug/tape.h"
#include "core/torch/executor.h"

namespace spscope::session::debug {

class ProcessTape final : public Tape {
 public:
  struct Setup {
    std::vector<std::shared_ptr<const ir::Graph>> programs;  ///< of each rank
    RunRequest run;         ///< from where the ranks take weights and inputs; its kind of ranks and its deadline
    exec::StepOptions step; ///< step and seed
  };
  /// The step has begun, nothing has run. Errors: those of Schedule::create and RankProcesses::start.
  static Result<std::unique_ptr<ProcessTape>> create(Setup setup, const Request& request);

  bool meets(int rank) const override { return schedule_.meets(rank, places_[static_cast<std::size_t>(rank)]); }
  Status move() override;
  Status move(int rank) override;
  Result<bool> settle() override;
  Status backTo(std::size_t index) override;
  Result<exec::TensorBag> value(int rank, ir::ValueId value) override;
  Result<bool> live(int rank, ir::ValueId value) override;
  Result<exec::ValueScan> scan(int rank, ir::ValueId value, std::size_t places) override;
  Result<std::vector<exec::TensorBag>> again(const std::vector<ir::ValueId>& values) override;
  bool lost() const override;
  Figures figures() const override { return figures_; }
  /// The whole step in the same processes as a run without a debugger makes it, to measure what that costs more; the tape is at its beginning.
  Status runPlain();
  std::vector<int> processes() const override { return processes_ ? processes_->pids() : std::vector<int>(); }

 private:
  ProcessTape(Setup setup, Schedule schedule, const Request& request)
      : Tape(setup.programs), setup_(std::move(setup)), schedule_(std::move(schedule)), request_(request), reached_(programs_.size(), 0) {}
  Status start();
  /// The processes can be asked. Errors: why not.
  Status there() const;
  /// The step from its beginning, in processes that are there; `keep`: by rank, values to remember.
  Status begin(const std::vector<ir::ValueId>& keep = {});
  /// From the beginning of the step to `target`, in new processes where the old ones are of no use.
  Status runAgain(const Places& target);

  struct Run;
  /// All ranks to `target`. False: paused or cancelled, and they stand at `target` as it was changed.
  Result<bool> runTo(Places& target, bool pausable);
  Status settleForValue();
  /// An answer about a value, which `what` is to name. Errors: value-not-live.
  Result<dist::Packet> askFor(int rank, ir::ValueId value, dist::Message what);
  /// Holds all ranks and finds out where they can stop together: of the moves that are remembered, the first behind which none has run.
  Result<Places> hold(Run& run);
  Status hear(Run& run, const RankProcesses::News& news);
  Status recover(const Run& run);
  std::string nameOf(int rank, ir::ValueId value) const { return graph(rank).value(value).name; }

  Setup setup_;
  Schedule schedule_;
  Request request_;
  std::unique_ptr<RankProcesses> processes_;
  Places reached_;             ///< where the processes stand; behind places_ while moves are put off
  std::int64_t serial_ = 0;    ///< of the last order to run
  bool adrift_ = false;        ///< an order to run has ended in an error: where they stand is not known, nor whether their group is of use
  bool recovering_ = false;
  Figures figures_;
};

}  // namespace spscope::session::debug
