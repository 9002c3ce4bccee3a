// SPDX-License-Identifier: Apache-2.0
#include "core/dist/async_collectives.h"

#include <signal.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "core/base/clock.h"

namespace spscope::dist {
namespace {

struct Job {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::vector<CollectivePart> parts;
  std::shared_ptr<const void> keep;
  CollectiveTimes times;
  bool ended = false;
};

/// What the rank's thread and the worker share; outlives the group where the worker cannot be stopped.
struct Shared {
  std::unique_ptr<Collectives> group;  ///< used by the worker while `queue` is not empty, by the rank otherwise
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Job>> queue;  ///< the first one is being worked on
  std::optional<Error> failed;
  bool stop = false;

  void work() {
    // Signals belong to the program's own threads.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stop || !queue.empty(); });
      if (stop) return;
      Job& job = *queue.front();
      lock.unlock();
      job.times.begin_ns = monotonicNs();
      Status status;
      try {
        status = group->runAll(job.kind, job.parts);
      } catch (const std::exception& e) {
        status = makeError("internal", e.what(), Outcome::kRunFailed);
      }
      job.times.end_ns = monotonicNs();
      lock.lock();
      if (!status) {
        failed = std::move(status).error();
        changed.notify_all();
        return;  // the queue is left as it is, and with it the memory
      }
      job.ended = true;
      queue.pop_front();  // the rank still holds it: the memory goes on the rank's thread, when it has waited
      changed.notify_all();
    }
  }
};

/// Memory that Gloo's threads may still write into: it stays until the process ends, and a leak checker can see why.
void keepForGood(std::shared_ptr<Shared> shared) {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::shared_ptr<Shared>>;  // never destroyed
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(shared));
}

class AsyncCollectives final : public Collectives {
 public:
  explicit AsyncCollectives(std::unique_ptr<Collectives> group) : shared_(std::make_shared<Shared>()) {
    shared_->group = std::move(group);
  }

  ~AsyncCollectives() override {
    if (!worker_.joinable()) return;
    bool idle = false;
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->stop = true;
      idle = shared_->queue.empty() || shared_->failed.has_value();
      shared_->changed.notify_all();
    }
    if (idle) {
      worker_.join();
      if (!shared_->failed) return;
    } else {
      worker_.detach();  // inside the group until its deadline; what it needs is its own
    }
    keepForGood(shared_);
  }

  int rank() const override { return shared_->group->rank(); }
  int size() const override { return shared_->group->size(); }
  std::int64_t sequence() const override { return sequence_; }

  Status allReduceSum(Buffer buffer) override {
    return now([&](Collectives& g) { return g.allReduceSum(buffer); });
  }
  Status allToAll(Buffer send, std::span<const std::int64_t> send_counts, Buffer recv, std::span<const std::int64_t> recv_counts) override {
    return now([&](Collectives& g) { return g.allToAll(send, send_counts, recv, recv_counts); });
  }
  Status allGather(Buffer send, Buffer recv, std::span<const std::int64_t> counts) override {
    return now([&](Collectives& g) { return g.allGather(send, recv, counts); });
  }
  Status reduceScatterSum(Buffer send, Buffer recv, std::span<const std::int64_t> counts) override {
    return now([&](Collectives& g) { return g.reduceScatterSum(send, recv, counts); });
  }
  Status runAll(CollectiveKind kind, std::span<const CollectivePart> parts) override {
    return now([&](Collectives& g) { return g.runAll(kind, parts); });
  }
  Status barrier() override {
    return now([](Collectives& g) { return g.barrier(); });
  }
  Result<std::vector<std::string>> allGatherText(const std::string& text) override {
    std::vector<std::string> texts;
    SP_TRY(now([&](Collectives& g) -> Status {
      SP_ASSIGN(texts, g.allGatherText(text));
      return {};
    }));
    return texts;
  }

  Result<std::int64_t> start(CollectiveKind kind, std::vector<CollectivePart> parts, std::shared_ptr<const void> keep) override {
    auto job = std::make_shared<Job>();
    job->kind = kind;
    job->parts = std::move(parts);
    job->keep = std::move(keep);
    const std::lock_guard lock(shared_->mutex);
    if (shared_->failed) return *shared_->failed;
    ++sequence_;
    jobs_[sequence_] = job;
    shared_->queue.push_back(std::move(job));
    if (!worker_.joinable()) worker_ = std::thread([shared = shared_] { shared->work(); });
    shared_->changed.notify_all();
    return sequence_;
  }

  Result<CollectiveTimes> wait(std::int64_t ticket) override {
    const auto entry = jobs_.find(ticket);
    if (entry == jobs_.end())
      return makeError("internal", "a collective is waited for that was not started, or that was waited for", Outcome::kRunFailed);
    const std::shared_ptr<Job> job = std::move(entry->second);
    jobs_.erase(entry);
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait(lock, [&] { return job->ended || shared_->failed.has_value(); });
    if (!job->ended) return *shared_->failed;
    return job->times;
  }

 private:
  template <typename Call>
  Status now(Call call) {
    {
      std::unique_lock lock(shared_->mutex);
      shared_->changed.wait(lock, [&] { return shared_->queue.empty() || shared_->failed.has_value(); });
      if (shared_->failed) return *shared_->failed;
    }
    ++sequence_;
    return call(*shared_->group);
  }

  std::shared_ptr<Shared> shared_;
  std::map<std::int64_t, std::shared_ptr<Job>> jobs_;  ///< started, not waited for
  std::int64_t sequence_ = 0;
  std::thread worker_;
};

}  // namespace

std::unique_ptr<Collectives> makeAsync(std::unique_ptr<Collectives> group) {
  return std::make_unique<AsyncCollectives>(std::move(group));
}

}  // namespace spscope::dist
