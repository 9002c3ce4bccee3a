// SPDX-License-Identifier: Apache-2.0
// Work off the window's thread: named lanes, each with one thread; in a lane the newest request counts, older ones are
// cancelled and their results dropped. Results come back through `post`, which runs them on the window's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/base/cancel.h"

namespace spscope::ui {

/// Runs the function later, on the thread that owns the window; callable from any thread.
using Post = std::function<void(std::function<void()>)>;

struct JobContext {
  CancelToken cancel;
  ProgressFn progress;  ///< from the job's thread; reaches on_progress at most every 50 ms, and when done == total
};

/// How a lane stands, for the status line.
struct JobProgress {
  std::string lane;
  std::string what;
  std::int64_t done = 0, total = 0;
};

class JobQueue {
 public:
  /// `post` must outlive the queue's last job, and may drop functions once the queue is gone.
  explicit JobQueue(Post post);
  /// Cancels everything and waits for the threads: jobs look at their token at least every 100 ms.
  ~JobQueue();
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  /// `work` runs on the lane's thread and returns what the window's thread is to do with the result (may be empty). Neither
  /// is run when a newer request of the lane has come.
  using Work = std::function<std::function<void()>(const JobContext&)>;
  void submit(const std::string& lane, Work work);
  /// Like a newer request that does nothing.
  void cancel(const std::string& lane);
  /// Sets the token of what runs, but keeps its result: for work that has something to tell when it is stopped.
  void interrupt(const std::string& lane);
  /// Runs the function on the window's thread, unless the queue is gone by then. Any thread.
  void post(std::function<void()> function) const;
  bool busy(const std::string& lane) const;  ///< the window's thread
  bool busy() const;                         ///< any lane

  /// On the window's thread.
  std::function<void(const JobProgress&)> on_progress;
  /// A lane became idle or busy. On the window's thread.
  std::function<void()> on_busy;

 private:
  struct Lane;
  struct Shared;
  std::shared_ptr<Shared> shared_;  ///< with what was posted and not yet run
  std::map<std::string, std::unique_ptr<Lane>> lanes_;
};

}  // namespace spscope::ui
