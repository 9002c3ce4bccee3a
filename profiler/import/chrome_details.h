// SPDX-License-Identifier: Apache-2.0
// The parts of Chrome JSON that are rare enough for a document parser: metadata of the trace, arguments of metadata events,
// counters and collectives.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/import/collectives.h"

namespace spscope::trace {

/// args.name or args.labels of an event "M"; "" where there is none.
std::string metadataArgument(std::string_view event);
/// The series of a counter event and their values; what is no number is left out and counted.
std::vector<std::pair<std::string, double>> counterValues(std::string_view event, std::string_view where, Problems& problems);
/// Arguments of a kernel, op or range that say something about a collective. Counts lists that were cut short.
CollectiveFacts collectiveFacts(std::string_view event, std::string_view where, Problems& problems);

/// The graph's node that our own export put beside an event; texts are interned.
GraphNode graphNode(std::string_view event, StringPool& strings);

/// What a Chrome trace says outside of its events.
struct ChromeHeader {
  bool has_rank = false;
  Rank rank;                    ///< number, world, host, backend, base_ns
  std::string only_group;       ///< the name of the process group, where there is just one
  std::map<std::string, std::int64_t> group_sizes;  ///< by name
  std::int64_t dropped = 0;     ///< records that Kineto says it left out
  std::map<std::string, std::string> properties;
};
/// Takes one member of the top-level object. Nothing in it is trusted.
void readHeader(std::string_view key, std::string_view value, std::string_view where, ChromeHeader& header, Problems& problems);

}  // namespace spscope::trace
