// SPDX-License-Identifier: Apache-2.0
// The chain of work that decided when the trace ended, through all ranks: walked back from what ended last, at each step
// to what had to happen just before.
//
//   device work    <- the work before it on its stream, or its launch where that came later; whatever a flow names
//   a launch       <- the code before it on its thread
//   a synchronisation, a blocking copy  <- the device work that it waited for
//   a collective   <- the rank that arrived last: from there on it is transfer, before it the path is that rank's
//
// Launches are found by correlation id, collectives by group and sequence number. Only where nothing recorded tells why
// work started late (a stream that waited for another one's event, a thread that another one woke) the work that ended
// just before is taken, and the step is marked as inferred.
#pragma once

#include <array>
#include <vector>

#include "core/base/result.h"
#include "profiler/analyze/collectives.h"
#include "profiler/analyze/intervals.h"
#include "profiler/analyze/work.h"

namespace spscope::trace {

enum class PathKind : std::uint8_t {
  kCompute,
  kCommunication,  ///< the transfer: waiting for a rank is not on the path, that rank's work is
  kMemory,
  kLaunch,         ///< from the launch call to the start of the device work
  kHost,           ///< host code that was recorded
  kGap,            ///< nothing that was recorded: host code outside all ops, or a device between two works
};
inline constexpr int kPathKinds = static_cast<int>(PathKind::kGap) + 1;
std::string_view nameOf(PathKind kind);

struct PathStep {
  std::int64_t start_ns = 0, end_ns = 0;
  EventIndex event = kNoIndex;  ///< kGap: what came after it
  std::int32_t rank = 0;
  PathKind kind = PathKind::kGap;
  bool inferred = false;        ///< how the path got from here to the next step was inferred from times
};

struct CriticalPath {
  std::vector<PathStep> steps;  ///< in the order of time, without holes: they sum to end - start
  std::int64_t start_ns = 0, end_ns = 0;
  std::array<std::int64_t, kPathKinds> ns{};  ///< by kind
  std::int64_t rank_changes = 0, inferred = 0;
};

/// `collectives`: of matchCollectives(); without common clock (why_not) several ranks cannot be walked through.
/// Errors: trace-no-critical-path, with what stands in the way: nothing was recorded; the ranks are not on one clock; an
/// event depends on one that starts after its end (skew); the dependences form a cycle. O(n log n).
Result<CriticalPath> criticalPath(const Trace& trace, const WorkMap& map, const std::vector<MatchedCollective>& collectives,
                                  bool comparable = true);

/// How much of a lane's exposed communication lies on the path: the rest could be hidden or shortened without effect.
std::int64_t exposedOnPath(const CriticalPath& path, std::int32_t rank, const Intervals& exposed);

}  // namespace spscope::trace
