// SPDX-License-Identifier: Apache-2.0
// The rank processes of a debugged step: started and supervised by the launcher (on a thread of its own), each with a control line
// to here. Whatever happens to one, who waits for its answer hears of it at once, and none outlives this object.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/dist/control_line.h"
#include "core/dist/launcher.h"
#include "core/ir/graph.h"
#include "core/session/run.h"

namespace spscope::session::debug {

class RankProcesses {
 public:
  /// Starts them and waits until all are ready; their steps have not begun. `what.ranks` is "gloo" or "nccl". Errors: those of the
  /// launcher and of the ranks; cancelled.
  static Result<std::unique_ptr<RankProcesses>> start(const RunRequest& what, const std::vector<std::shared_ptr<const ir::Graph>>& programs, const Request& request);
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  int size() const { return static_cast<int>(lines_.size()); }
  const std::vector<int>& pids() const { return pids_; }
  /// Why they are no longer there; nullopt while they are.
  std::optional<Error> gone();

  /// Errors: as those of answer().
  Status tell(int rank, const dist::Message& what, std::string_view body = {});
  /// What one of the ranks says next; nullopt: nothing within `wait`. Errors: what ended the ranks.
  struct News {
    int rank = 0;
    dist::Packet packet;
  };
  Result<std::optional<News>> news(std::chrono::milliseconds wait);
  /// Tells one rank and waits for what it answers; other ranks have nothing to say meanwhile. Errors: also the rank's own;
  /// rank-stalled, where none comes before the deadline of the run; cancelled.
  Result<dist::Packet> ask(int rank, const dist::Message& what, const CancelToken& cancel);
  /// The same of all of them at once; answers by rank.
  Result<std::vector<dist::Packet>> askAll(const std::vector<dist::Message>& what, const CancelToken& cancel);
  std::chrono::milliseconds deadline() const { return deadline_; }
  /// Ends them at once, for that reason; it is what gone() says from here on.
  void abandon(Error why);

 private:
  RankProcesses() = default;
  /// The answers of ranks that have been told something; by rank, empty for the others.
  Result<std::vector<dist::Packet>> answersOf(const std::vector<bool>& told, const CancelToken& cancel);
  /// Gives each its program and waits until it is ready.
  Status awaitReady(const std::vector<std::shared_ptr<const ir::Graph>>& programs, const Request& request);
  /// The line of the rank has ended, or does not work: the launcher knows better why, in a moment.
  Error causeOf(int rank, const Error& symptom);

  std::vector<std::unique_ptr<dist::ControlLine>> lines_;
  std::vector<int> pids_;
  std::chrono::milliseconds deadline_{};
  CancelToken end_;             ///< ends the launcher's run
  std::thread launcher_;
  std::atomic<bool> ended_{false};
  std::mutex mutex_;
  std::optional<Error> why_;    ///< guarded by mutex_; set before ended_
  std::optional<Error> abandoned_;
};

}  // namespace spscope::session::debug
