// SPDX-License-Identifier: Apache-2.0
// How Nsight Systems numbers processes and threads, and how a trace's ranks and tracks get such numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/trace/trace.h"

namespace spscope::trace {

/// vm << 48 | pid << 24 | tid. Reports of Nsight compare only the pid where they look up domains: no two ranks may share
/// one, though ranks of two hosts (or of one process) can.
struct NsightIds {
  std::vector<std::int64_t> process;  ///< of each rank
  std::vector<std::int64_t> thread;   ///< of each track; streams have one too, for ranges that were drawn on them
};
NsightIds nsightIds(const Trace& trace);

/// "void at::native::(anonymous namespace)::softmax<int, 4>(float*)" -> "softmax"
std::string shortKernelName(std::string_view demangled);
/// Of the driver API ("cuLaunchKernel"), not of the runtime ("cudaLaunchKernel").
bool isDriverCall(std::string_view name);
/// ENUM_CUPTI_SYNC_TYPE by the name of a synchronisation ("Stream Wait Event", "cudaEventSynchronize"); 0: unknown.
int syncTypeOf(std::string_view name);

}  // namespace spscope::trace
