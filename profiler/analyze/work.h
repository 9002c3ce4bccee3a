// SPDX-License-Identifier: Apache-2.0
// What each event counts as (compute, communication, memory) and for whom: the lanes whose busy time is one question.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "profiler/trace/trace.h"

namespace spscope::trace {

enum class Work : std::uint8_t { kNone, kCompute, kCommunication, kMemory };
std::string_view nameOf(Work work);

/// A device of a rank that did something; or a rank's host, where the rank has no device work but operators.
struct Lane {
  std::int32_t rank = 0;           ///< index into Trace::ranks
  std::int64_t device = kUnknown;  ///< kUnknown: the host
  bool host = false;
};

/// The classes of one trace.
///   Device lanes: kernels are compute, or communication where a collective names them or their name is a communication
///   library's (NCCL, RCCL, HCCL); copies and sets are memory.
///   Host lanes: operators are compute, collectives and their waits communication. There an operator that waits for a
///   collective is not computing: see breakdown.cpp.
struct WorkMap {
  std::vector<Lane> lanes;         ///< by rank, then device
  std::vector<Work> work;          ///< by event
  std::vector<std::int32_t> lane;  ///< by event: index into lanes; -1: counted nowhere
};
WorkMap classifyWork(const Trace& trace);

/// Whether a kernel of this name is a communication library's.
bool isCommunicationName(std::string_view kernel);

/// Why compute and communication of these events cannot be told; "" where they can. An Nsight export may lack its table of
/// kernels or of their names.
std::string kernelsUnknown(const Trace& trace, const std::vector<EventIndex>& events);
/// The property of a trace whose file has no table of kernels.
inline constexpr const char* kNoKernelTable = "kernels.absent";

/// The events of each lane. O(n).
std::vector<std::vector<EventIndex>> eventsByLane(const WorkMap& map);

}  // namespace spscope::trace
