// SPDX-License-Identifier: Apache-2.0
#include "core/hang/pairs.h"

#include <algorithm>

namespace spscope::hang {
namespace {

bool sameSize(const io::RecordedOp& a, const io::RecordedOp& b) {
  const io::RecordedOp &send = a.op == "send" ? a : b, &recv = a.op == "send" ? b : a;
  const auto sent = elementsOf({&send}), received = elementsOf({&recv});
  const bool same_type = send.input_dtypes.empty() || recv.output_dtypes.empty() || send.input_dtypes == recv.output_dtypes;
  return sent.first == received.second && same_type;
}

}  // namespace

std::vector<OpenPair> openPairs(const Group& group) {
  struct Queues {
    std::vector<OpenPair> sends, recvs;
  };
  std::map<std::pair<int, int>, Queues> pairs;  // (source, target)
  const auto global = [&](int rank) { return rank >= 0 && static_cast<std::size_t>(rank) < group.members.size() ? group.members[static_cast<std::size_t>(rank)] : -1; };
  for (const auto& [rank, ops] : group.p2p)
    for (const io::RecordedOp* op : ops) {
      const int source = global(op->source), target = global(op->target);
      if (op->completed || source < 0 || target < 0) continue;
      if (op->op == "send" && rank == source) pairs[{source, target}].sends.push_back({op, nullptr, rank, target});
      if (op->op == "recv" && rank == target) pairs[{source, target}].recvs.push_back({op, nullptr, rank, source});
    }
  std::vector<OpenPair> out;
  for (auto& [key, queues] : pairs) {
    for (std::size_t i = 0; i < std::min(queues.sends.size(), queues.recvs.size()); ++i) {
      OpenPair &send = queues.sends[i], &recv = queues.recvs[i];
      send.other = recv.op;
      recv.other = send.op;
      send.same_size = recv.same_size = sameSize(*send.op, *recv.op);
    }
    out.insert(out.end(), queues.sends.begin(), queues.sends.end());
    out.insert(out.end(), queues.recvs.begin(), queues.recvs.end());
  }
  return out;
}

}  // namespace spscope::hang
