// SPDX-License-Identifier: Apache-2.0
// The tables of a stored trace. Those of Nsight Systems' export (schema 3.7) hold what Nsight has a place for, so that
// its reports and everything else that reads such files reads ours; those that begin with SPSCOPE_ hold the rest. An
// event is one row in one of Nsight's tables and one in SPSCOPE_EVENTS, with the same rowid: its index + 1.
// docs/traces.md is the page on it.
#pragma once

#include <string_view>

namespace spscope::trace {

/// Of the SPSCOPE_ tables. Raised when an older reader would misread a newer file.
inline constexpr int kStoreVersion = 1;

/// Tables and the fixed rows of the ENUM_ tables.
std::string_view storeSchema();

/// Of NVTX_EVENTS.eventType.
inline constexpr int kNvtxMark = 34, kNvtxCategory = 33, kNvtxPushPop = 59, kNvtxStartEnd = 60, kNvtxDomain = 75;

}  // namespace spscope::trace
