// SPDX-License-Identifier: Apache-2.0
// Names of copies, fills and waits, as Kineto writes them, and Nsight's numbers for the same.
#pragma once

#include <string>
#include <string_view>

#include "profiler/trace/trace.h"

namespace spscope::trace {

/// "Memcpy HtoD (Pageable -> Device)", "Memset (Device)" -> their numbers; unknown kinds where the name does not say.
Copy copyOfName(std::string_view name);
/// The other way round.
std::string memcpyName(const Copy& copy);
std::string memsetName(const Copy& copy);
/// ENUM_CUPTI_SYNC_TYPE: 1 "Event Sync", 2 "Stream Wait Event", 3 "Stream Sync", 4 "Context Sync".
std::string_view syncName(std::int64_t type);

}  // namespace spscope::trace
