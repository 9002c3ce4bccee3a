// SPDX-License-Identifier: Apache-2.0
// Collectives of all ranks, matched by group and sequence number, never by time: how long each rank waited for the last
// one to arrive, how long the transfer then took, at which bandwidth, and who made the others wait.
//
// All of it compares times of different ranks: align first (align.h).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "profiler/trace/trace.h"

namespace spscope::trace {

/// One rank's part.
struct CollectivePart {
  std::int32_t index = kNoIndex;  ///< into Trace::collectives
  std::int32_t rank = 0;          ///< into Trace::ranks
  std::int64_t start_ns = 0, end_ns = 0;
  /// Until the last rank had arrived, from this rank's arrival; then the transfer. They sum to end - start. kUnknown:
  /// see MatchedCollective::why_not.
  std::int64_t wait_ns = kUnknown, transfer_ns = kUnknown;
  std::int64_t blocked_ns = kUnknown;  ///< the host stood still for it; kUnknown where that is not recorded
};

struct MatchedCollective {
  StringId kind = 0, group = 0;
  std::int64_t sequence = kUnknown, bytes = kUnknown;  ///< bytes: sent by the rank that sends most; kUnknown as soon as one is
  std::int64_t group_size = kUnknown;
  bool group_size_at_least = false;
  std::vector<CollectivePart> parts;  ///< by rank
  std::string why_not;                ///< why waiting and transfer cannot be told apart; "" where they can
  std::int64_t last_arrival_ns = kUnknown;
  std::int32_t last_rank = kNoIndex;  ///< who arrived last; kNoIndex: unknown, or a group of one
  std::int64_t spread_ns = kUnknown;  ///< last arrival - first arrival
  /// GB/s as nccl-tests define it (the same number for all kinds of collectives when the wires are equally busy), over the
  /// longest transfer, or where that is not known the shortest duration. None: bytes or group size unknown, or no time.
  std::optional<double> bus_gbps;
};

/// `comparable`: whether the ranks are on one clock; otherwise waiting and transfer are not told apart, and `why` goes
/// into why_not. In the order of their first start. O(n log n).
std::vector<MatchedCollective> matchCollectives(const Trace& trace, bool comparable = true, const std::string& why = {});

/// Groups whose collectives bear no numbers in their file and were counted in order (Collective::sequence_by_order), but not
/// alike on all ranks: other counts, or another kind of collective under one number. Their numbers prove nothing.
std::set<StringId> miscountedGroups(const Trace& trace);

/// Of the algorithm's bandwidth (bytes / time), by nccl-tests' table: all-reduce 2(n-1)/n; all-gather, reduce-scatter,
/// all-to-all (n-1)/n; the rest 1. Its "bytes" are those of the whole buffer: for all-gather n times what a rank sends.
struct BusFactor {
  double bytes = 1, bandwidth = 1;
};
BusFactor busFactor(std::string_view kind, std::int64_t ranks);

/// How much a rank made the others wait.
struct Straggler {
  std::int32_t rank = 0;
  std::int64_t collectives = 0;     ///< that it took part in and that could be judged
  std::int64_t last = 0;            ///< in how many it arrived last
  std::int64_t caused_wait_ns = 0;  ///< sum of what all others waited for it
  std::int64_t margin_ns = 0;       ///< sum of: its arrival - that of the last but one
  std::int64_t own_wait_ns = 0;     ///< what it waited itself
};
/// The one that cost most first. Empty: nothing could be judged.
std::vector<Straggler> stragglers(const std::vector<MatchedCollective>& collectives);

/// Sums per kind and group.
struct CollectiveTotal {
  StringId kind = 0, group = 0;
  std::int64_t count = 0, parts = 0;
  std::int64_t bytes = 0, bytes_unknown = 0;            ///< sum over the known parts; parts without
  std::int64_t wait_ns = 0, transfer_ns = 0, judged = 0;///< over `judged` parts
  std::int64_t duration_ns = 0;                         ///< over all parts
  std::optional<double> bus_gbps;                       ///< median over the collectives that have one
};
/// The longest first.
std::vector<CollectiveTotal> collectiveTotals(const Trace& trace, const std::vector<MatchedCollective>& collectives);

}  // namespace spscope::trace
