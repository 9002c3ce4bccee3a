// SPDX-License-Identifier: Apache-2.0
// Work off the window's thread: results come back on it, newer requests supersede older ones, the end waits for nothing long.
#include "ui/model/state/job_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/pump.h"
#include "ui/model/state/selection.h"

namespace spscope::ui {
namespace {

using namespace std::chrono_literals;

TEST(JobQueue, AResultComesBackOnTheWindowsThread) {
  Pump pump;
  JobQueue jobs(pump.post());
  const auto window = std::this_thread::get_id();
  std::thread::id worked, delivered;
  jobs.submit("compile", [&](const JobContext&) {
    worked = std::this_thread::get_id();
    return [&] { delivered = std::this_thread::get_id(); };
  });
  EXPECT_TRUE(jobs.busy("compile"));
  ASSERT_TRUE(pump.until([&] { return !jobs.busy(); }));
  EXPECT_NE(worked, window);
  EXPECT_EQ(delivered, window);
}

TEST(JobQueue, ANewerRequestSupersedesTheOneThatRunsAndTheOneThatWaits) {
  Pump pump;
  JobQueue jobs(pump.post());
  std::atomic<bool> began{false};
  std::atomic<int> cancelled{0}, second{0};
  std::vector<int> delivered;
  jobs.submit("compile", [&](const JobContext& c) {
    began = true;
    while (!c.cancel.cancelled()) std::this_thread::sleep_for(1ms);
    ++cancelled;
    return [&] { delivered.push_back(1); };
  });
  while (!began) std::this_thread::sleep_for(1ms);
  jobs.submit("compile", [&](const JobContext&) {
    ++second;
    return [&] { delivered.push_back(2); };
  });
  jobs.submit("compile", [&](const JobContext&) { return [&] { delivered.push_back(3); }; });
  ASSERT_TRUE(pump.until([&] { return !jobs.busy(); }));
  EXPECT_EQ(cancelled, 1);
  EXPECT_EQ(delivered, (std::vector<int>{3}));
  EXPECT_LE(second, 1) << "it may have begun before the third came; its result is dropped all the same";
}

TEST(JobQueue, LanesDoNotWaitForEachOther) {
  Pump pump;
  JobQueue jobs(pump.post());
  std::atomic<bool> release{false};
  bool layout = false;
  jobs.submit("run", [&](const JobContext&) {
    while (!release) std::this_thread::sleep_for(1ms);
    return std::function<void()>();
  });
  jobs.submit("layout", [&](const JobContext&) { return [&] { layout = true; }; });
  EXPECT_TRUE(pump.until([&] { return layout; }));
  EXPECT_TRUE(jobs.busy("run"));
  release = true;
  EXPECT_TRUE(pump.until([&] { return !jobs.busy(); }));
}

TEST(JobQueue, AnInterruptedJobStillTellsWhatItHas) {
  Pump pump;
  JobQueue jobs(pump.post());
  std::atomic<bool> began{false};
  bool told = false;
  jobs.submit("run", [&](const JobContext& c) {
    began = true;
    while (!c.cancel.cancelled()) std::this_thread::sleep_for(1ms);
    return [&] { told = true; };
  });
  while (!began) std::this_thread::sleep_for(1ms);
  jobs.interrupt("run");
  ASSERT_TRUE(pump.until([&] { return !jobs.busy(); }));
  EXPECT_TRUE(told);
}

TEST(JobQueue, ACancelledJobsResultIsDropped) {
  Pump pump;
  JobQueue jobs(pump.post());
  std::atomic<bool> began{false};
  bool told = false;
  jobs.submit("open", [&](const JobContext& c) {
    began = true;
    while (!c.cancel.cancelled()) std::this_thread::sleep_for(1ms);
    return [&] { told = true; };
  });
  while (!began) std::this_thread::sleep_for(1ms);
  jobs.cancel("open");
  ASSERT_TRUE(pump.until([&] { return !jobs.busy(); }));
  EXPECT_FALSE(told);
}

TEST(JobQueue, ProgressOfTheNewestRequestArrives) {
  Pump pump;
  JobQueue jobs(pump.post());
  std::vector<std::int64_t> seen;
  jobs.on_progress = [&](const JobProgress& p) { seen.push_back(p.done); };
  jobs.submit("open", [](const JobContext& c) {
    for (int i = 1; i <= 1000; ++i) c.progress({"read", i, 1000});
    return std::function<void()>();
  });
  ASSERT_TRUE(pump.until([&] { return !jobs.busy(); }));
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back(), 1000);
  EXPECT_LT(seen.size(), 200u) << "not a message for each";
}

TEST(JobQueue, TheEndCancelsAndNothingRunsAfterwards) {
  Pump pump;
  bool delivered = false;
  {
    JobQueue jobs(pump.post());
    jobs.submit("run", [&](const JobContext& c) {
      while (!c.cancel.cancelled()) std::this_thread::sleep_for(1ms);
      return [&] { delivered = true; };
    });
    jobs.post([&] { delivered = true; });
  }
  bool end = false;
  pump.post()([&] { end = true; });
  EXPECT_TRUE(pump.until([&] { return end; }));
  EXPECT_FALSE(delivered);
}

TEST(SelectionHistory, WalksBackAndForwardAndANewOneDropsWhatLayAhead) {
  SelectionHistory h;
  const auto node = [](int n) {
    Selection s;
    s.node = n;
    return s;
  };
  EXPECT_TRUE(h.current().empty());
  EXPECT_TRUE(h.set(node(1)));
  EXPECT_FALSE(h.set(node(1)));
  h.set(node(2));
  h.set(node(3));
  EXPECT_TRUE(h.back());
  EXPECT_TRUE(h.back());
  EXPECT_EQ(h.current().node, 1);
  EXPECT_TRUE(h.forward());
  EXPECT_EQ(h.current().node, 2);
  h.set(node(9));
  EXPECT_FALSE(h.canForward());
  for (int i = 0; i < 1000; ++i) h.set(node(i));
  int steps = 0;
  while (h.back()) ++steps;
  EXPECT_LT(steps, static_cast<int>(SelectionHistory::kKept));
}

}  // namespace
}  // namespace spscope::ui
