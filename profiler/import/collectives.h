// SPDX-License-Identifier: Apache-2.0
// What foreign traces know about a collective, from names, arguments and the host ranges around a launch, brought into the
// words of Trace::collectives. What no source gives stays unknown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "profiler/trace/trace.h"

namespace spscope::trace {

struct CollectiveFacts {
  std::string kind{}, group{};  ///< "": unknown
  std::int64_t sequence = kUnknown, bytes = kUnknown, group_size = kUnknown;
  bool group_size_at_least = false;
};

/// "allreduce", "AllReduce", "_allgather_base", "alltoall_base_" -> "all_reduce", "all_gather", "all_to_all"; a word that is
/// none of them comes back as it is.
std::string collectiveKind(std::string_view spelled);
/// "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)" -> "all_reduce"; "" where the name does not say.
std::string collectiveOfKernel(std::string_view name);
/// "gloo:all_to_all" -> backend "gloo", kind "all_to_all". False: the range is not one that torch puts around a collective.
bool collectiveOfRange(std::string_view name, std::string_view* backend, std::string* kind);
/// Of PyTorch's and NCCL's names of element types ("Float", "c10::BFloat16", "long int"); 0: unknown.
std::int64_t elementBytes(std::string_view dtype);
/// "[0, 1, 2]" -> 3; `cut`: the writer cut the list short ("..."), so there are at least so many.
std::int64_t ranksInList(std::string_view list, bool* cut);

/// A kernel that carries a collective, or a host backend's event; and the host's ranges ("nccl:all_to_all").
struct FoundCollective {
  EventIndex event = kNoIndex;
  CollectiveFacts facts{};
};

/// Appends Trace::collectives for `found`. What a kernel does not know it takes from the innermost of `ranges` around its
/// launch (found by correlation id). Sequence numbers that the file does not give are counted where that is sound: all
/// collectives of a rank and group lack them, and the group is named or uses a single stream.
void addCollectives(Trace& trace, std::vector<FoundCollective> found, std::vector<FoundCollective> ranges);

}  // namespace spscope::trace
