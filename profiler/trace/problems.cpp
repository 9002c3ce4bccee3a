// SPDX-License-Identifier: Apache-2.0
#include "profiler/trace/problems.h"

#include <algorithm>
#include <array>
#include <limits>

namespace spscope::trace {

const ProblemInfo& problemInfo(Problem problem) {
  static const std::array<ProblemInfo, kProblems> kInfo{{
      {"bad-event", true, "an event that could not be read was left out"},
      {"bad-number", false, "NaN, Infinity or N/A stood where a number belongs: it counts as unknown"},
      {"control-character", false, "a text held raw control characters: kept, and escaped on export"},
      {"bad-escape", false, "a text held an unknown escape: taken literally"},
      {"bad-utf8", false, "a text held invalid UTF-8: replaced by U+FFFD"},
      {"truncated", true, "the file ends early: what is there was read"},
      {"negative-duration", false, "an event ended before it started: its end was set to its start"},
      {"out-of-range", true, "a time or size beyond what 64 bits can add up: the event was left out, or the number bounded"},
      {"outlier", false, "a duration that cannot be: the event is flagged and kept"},
      {"unmatched-launch", false, "device work without the call that launched it, or a launch without its work"},
      {"early-start", false, "device work starts before its launch (clock skew): linked by its id all the same"},
      {"before-capture", false, "events from before the start of the capture were kept"},
      {"dropped-records", true, "the recorder or the driver dropped records"},
      {"cut-list", false, "a list of ranks was cut short by its writer: sizes are lower bounds"},
      {"unknown-schema", false, "a schema version that this program does not know: read as far as it agrees"},
      {"missing-table", false, "a table or field is absent: what needs it answers \"absent\""},
      {"unmatched-collective", false, "a collective that some ranks of its group do not have"},
      {"overlap-split", false, "events that overlap without nesting were put on lanes of their own"},
      {"lost-metadata", false, "something that the target format cannot hold was left out"},
  }};
  return kInfo[static_cast<std::size_t>(problem)];
}

void Problems::count(Problem problem, std::string_view where, std::int64_t times) {
  if (times <= 0) return;
  Seen& seen = seen_[problem];
  if (seen.count == 0) seen.first = where;
  seen.count += std::min(times, std::numeric_limits<std::int64_t>::max() - seen.count);  // a file may name any number
}

void Problems::append(const Problems& other) {
  for (const auto& [problem, seen] : other.seen_) count(problem, seen.first, seen.count);
}

std::int64_t Problems::countOf(Problem problem) const {
  const auto it = seen_.find(problem);
  return it == seen_.end() ? 0 : it->second.count;
}

}  // namespace spscope::trace
