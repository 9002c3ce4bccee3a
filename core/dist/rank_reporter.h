// SPDX-License-Identifier: Apache-2.0
// A rank's line to whoever started it: says where it is, reports results and errors, hears that it should stop.
//
// A rank of our own launcher is told by environment variables (docs/launching.md); a rank of torchrun, Slurm or Open MPI
// has no such line: its reporter keeps the same state and sends nothing.
// A thread of its own watches the line. When it ends, the launcher is gone, and the process ends at once: no rank outlives
// its run, whatever it is doing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "core/base/cancel.h"
#include "core/base/result.h"
#include "core/dist/message.h"
#include "core/dist/rank_state.h"

namespace spscope::dist {

/// Exit code of a rank whose launcher has gone.
inline constexpr int kOrphanExit = 75;

class RankReporter {
 public:
  /// Connects to the launcher named by SPSCOPE_RANK … of the environment. Error launch-env where they are not all set.
  static Result<std::unique_ptr<RankReporter>> attach();
  /// For a rank that another launcher started.
  static std::unique_ptr<RankReporter> detached(int rank, int size);
  ~RankReporter();
  RankReporter(const RankReporter&) = delete;
  RankReporter& operator=(const RankReporter&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Private directory of this run, shared by its ranks; "" when detached.
  const std::string& runDirectory() const { return directory_; }
  /// The file at which the ranks of this run meet (Rendezvous::file); "" when detached.
  std::string storeFile() const { return directory_.empty() ? "" : directory_ + "/store"; }
  /// LaunchSpec::request; "" when detached.
  std::string request() const;

  // --- where the rank is; one thread; a few nanoseconds each --------------------------------------------------------
  /// `patience`: how many times the launcher's deadline it may take without a word: reading or writing much, without others
  /// waiting.
  void phase(std::string_view name, int patience = 1) noexcept;
  void step(std::int64_t number) noexcept;
  void note(std::string_view node) noexcept;
  /// Made to be Rendezvous::on_collective.
  void collective(std::string_view op, std::int64_t sequence, bool inside) noexcept;
  /// Made to be Rendezvous::on_call.
  void call(const CallNotice& notice) noexcept;
  RankSnapshot snapshot() const { return state_.snapshot(); }

  // --- messages; any thread; written before the call returns --------------------------------------------------------
  void send(const Message& message);
  /// Adds the last node where the error names none.
  void reportError(Error error);
  /// The rank has done all it should; its exit code 0 is then expected.
  void done();

  /// Set when the launcher asks for a stop.
  const CancelToken& cancel() const { return cancel_; }

 private:
  RankReporter(int rank, int size, std::string directory, int fd, RankState state);
  void watch();

  int rank_, size_;
  std::string directory_;
  int fd_;  ///< -1: detached
  RankState state_;
  CancelToken cancel_;
  std::mutex write_mutex_;
  std::atomic<bool> stop_{false};
  std::thread watcher_;
};

}  // namespace spscope::dist
