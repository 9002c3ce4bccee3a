// SPDX-License-Identifier: Apache-2.0
#include "core/dist/collectives.h"

#include "core/base/clock.h"

namespace spscope::dist {
std::string_view collectiveName(CollectiveKind kind) {
  static constexpr std::string_view kNames[] = {"all_reduce", "all_to_all", "all_gather", "reduce_scatter"};
  return kNames[static_cast<std::size_t>(kind)];
}

Status Collectives::runAll(CollectiveKind kind, std::span<const CollectivePart> parts) {
  for (const CollectivePart& p : parts) {
    switch (kind) {
      case CollectiveKind::kAllReduce: SP_TRY(allReduceSum(p.recv)); break;
      case CollectiveKind::kAllToAll: SP_TRY(allToAll(p.send, p.send_counts, p.recv, p.recv_counts)); break;
      case CollectiveKind::kAllGather: SP_TRY(allGather(p.send, p.recv, p.recv_counts)); break;
      case CollectiveKind::kReduceScatter: SP_TRY(reduceScatterSum(p.send, p.recv, p.send_counts)); break;
    }
  }
  return {};
}

Result<std::int64_t> Collectives::start(CollectiveKind kind, std::vector<CollectivePart> parts, std::shared_ptr<const void>) {
  CollectiveTimes times;
  times.begin_ns = monotonicNs();
  SP_TRY(runAll(kind, parts));
  times.end_ns = monotonicNs();
  done_.push_back(times);
  return static_cast<std::int64_t>(done_.size()) - 1;
}

Result<CollectiveTimes> Collectives::wait(std::int64_t ticket) {
  if (ticket < 0 || static_cast<std::size_t>(ticket) >= done_.size())
    return makeError("internal", "a collective is waited for that was never started", Outcome::kRunFailed);
  return done_[static_cast<std::size_t>(ticket)];
}

}  // namespace spscope::dist
