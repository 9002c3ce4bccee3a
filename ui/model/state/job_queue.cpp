// SPDX-License-Identifier: Apache-2.0
#include "ui/model/state/job_queue.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace spscope::ui {

using Clock = std::chrono::steady_clock;

/// What a function that was posted needs when it runs: the queue may be gone by then.
struct JobQueue::Shared {
  Post post;
  JobQueue* owner = nullptr;  ///< null: gone. Touched by the window's thread only.
};

struct JobQueue::Lane {
  struct Job {
    Work work;
    CancelToken cancel;
    std::int64_t number = 0;
  };
  std::mutex mutex;
  std::condition_variable wake;
  std::optional<Job> next;
  CancelToken running;
  bool stop = false;
  std::thread thread;
  // The window's thread only:
  std::int64_t newest = 0;    ///< number of the last request
  std::int64_t finished = 0;  ///< ... whose result has come
};

JobQueue::JobQueue(Post post) : shared_(std::make_shared<Shared>()) {
  shared_->post = std::move(post);
  shared_->owner = this;
}

JobQueue::~JobQueue() {
  shared_->owner = nullptr;
  for (auto& [name, lane] : lanes_) {
    const std::lock_guard lock(lane->mutex);
    lane->stop = true;
    lane->next.reset();
    lane->running.cancel();
    lane->wake.notify_one();
  }
  for (auto& [name, lane] : lanes_) lane->thread.join();
}

void JobQueue::submit(const std::string& name, Work work) {
  std::unique_ptr<Lane>& lane = lanes_[name];
  if (!lane) {
    lane = std::make_unique<Lane>();
    lane->thread = std::thread([name, l = lane.get(), shared = shared_] {
      for (;;) {
        Lane::Job job;
        {
          std::unique_lock lock(l->mutex);
          l->wake.wait(lock, [&] { return l->stop || l->next; });
          if (l->stop) return;
          job = std::move(*l->next);
          l->next.reset();
          l->running = job.cancel;
        }
        auto last = std::make_shared<Clock::time_point>();
        JobContext context{job.cancel, [shared, name, last, number = job.number](const Progress& p) {
          const auto now = Clock::now();
          if (now - *last < std::chrono::milliseconds(50) && p.done != p.total) return;
          *last = now;
          shared->post([shared, progress = JobProgress{name, std::string(p.what), p.done, p.total}, number] {
            if (shared->owner == nullptr || !shared->owner->on_progress) return;
            if (shared->owner->lanes_.at(progress.lane)->newest == number) shared->owner->on_progress(progress);
          });
        }};
        std::function<void()> deliver;
        deliver = job.work(context);  // even when cancelled by now: it looks at its token, and may have something to tell
        job.work = nullptr;  // what it holds goes before the result is told
        shared->post([shared, name, number = job.number, deliver = std::move(deliver)] {
          if (shared->owner == nullptr) return;
          Lane& at = *shared->owner->lanes_.at(name);
          if (at.newest != number) return;
          at.finished = number;
          if (deliver) deliver();
          if (shared->owner != nullptr && shared->owner->on_busy) shared->owner->on_busy();
        });
      }
    });
  }
  {
    const std::lock_guard lock(lane->mutex);
    lane->running.cancel();
    if (lane->next) lane->next->cancel.cancel();
    lane->next = Lane::Job{std::move(work), CancelToken(), ++lane->newest};
    lane->wake.notify_one();
  }
  if (on_busy) on_busy();
}

void JobQueue::cancel(const std::string& name) {
  if (!busy(name)) return;
  submit(name, [](const JobContext&) { return std::function<void()>(); });
}

void JobQueue::interrupt(const std::string& name) {
  const auto it = lanes_.find(name);
  if (it == lanes_.end()) return;
  const std::lock_guard lock(it->second->mutex);
  it->second->running.cancel();
  if (it->second->next) it->second->next->cancel.cancel();
}

void JobQueue::post(std::function<void()> function) const {
  shared_->post([shared = shared_, function = std::move(function)] {
    if (shared->owner != nullptr) function();
  });
}

bool JobQueue::busy(const std::string& name) const {
  const auto it = lanes_.find(name);
  return it != lanes_.end() && it->second->finished != it->second->newest;
}

bool JobQueue::busy() const {
  for (const auto& [name, lane] : lanes_)
    if (lane->finished != lane->newest) return true;
  return false;
}

}  // namespace spscope::ui
