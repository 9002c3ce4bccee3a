// SPDX-License-Identifier: Apache-2.0
// What a rank that is a process hears of its executor, profiled or not: where the rank is goes to its reporter, the time in
// collectives is added up, and everything is passed on to the recorder and to tools.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "core/dist/rank_reporter.h"
#include "core/torch/observer.h"

namespace spscope::session {

/// Tells the reporter of every node, adds up the time in collectives, and passes everything on.
class RankObserver final : public exec::ExecutionObserver {
 public:
  /// `next`: who hears of it, too; null ones are left out.
  RankObserver(dist::RankReporter& reporter, std::initializer_list<exec::ExecutionObserver*> next) : reporter_(reporter) {
    for (exec::ExecutionObserver* o : next)
      if (o != nullptr) next_.push_back(o);
  }
  std::int64_t comm_ns = 0, exposed_comm_ns = 0;

  void stepBegin(int rank, std::int64_t step, std::int64_t ns) override {
    for (auto* o : next_) o->stepBegin(rank, step, ns);
  }
  void stepEnd(int rank, std::int64_t step, std::int64_t ns) override {
    for (auto* o : next_) o->stepEnd(rank, step, ns);
  }
  bool nodeBegin(int rank, const ir::Node& node, std::int64_t ns) override {
    std::array<char, 192> text;  // no allocation: this runs before every node
    const std::size_t n = std::min(node.name.size(), text.size() - 1);
    text[0] = '%';
    std::memcpy(text.data() + 1, node.name.data(), n);
    reporter_.note({text.data(), n + 1});
    bool go_on = true;
    for (auto* o : next_) go_on = o->nodeBegin(rank, node, ns) && go_on;
    return go_on;
  }
  void nodeEnd(int rank, const ir::Node& node, std::int64_t ns) override {
    for (auto* o : next_) o->nodeEnd(rank, node, ns);
  }
  void onCollectiveStart(const exec::CollectiveEvent& collective, std::int64_t ns) override {
    for (auto* o : next_) o->onCollectiveStart(collective, ns);
  }
  void onCollectiveWait(const exec::CollectiveEvent& collective, const exec::CollectiveSpan& times) override {
    for (auto* o : next_) o->onCollectiveWait(collective, times);
    comm_ns += times.end_ns - times.begin_ns;
    // Blocked while it was under way; that this thread was woken late is no communication.
    exposed_comm_ns += std::max<std::int64_t>(0, std::min(times.end_ns, times.wait_end_ns) - times.wait_begin_ns);
  }
  void allocation(int rank, const ir::Node* node, std::int64_t bytes, std::int64_t live, std::int64_t ns) override {
    for (auto* o : next_) o->allocation(rank, node, bytes, live, ns);
  }

 private:
  dist::RankReporter& reporter_;
  std::vector<exec::ExecutionObserver*> next_;
};

}  // namespace spscope::session
