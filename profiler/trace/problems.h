// SPDX-License-Identifier: Apache-2.0
// What a reader mended, dropped or found missing: declared kinds, counted, with the first place. Never silent.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace spscope::trace {

/// Every kind that may be counted. Each has a row in problemInfo().
enum class Problem : std::uint8_t {
  kBadEvent,          ///< an event that could not be read: left out
  kBadNumber,         ///< NaN, N/A, Infinity where a number belongs: unknown
  kControlCharacter,  ///< raw control characters in a text: kept, escaped on export
  kBadEscape,         ///< an unknown escape in a text: taken literally
  kBadUtf8,           ///< invalid UTF-8: replaced by U+FFFD
  kTruncated,         ///< the file ends early
  kNegativeDuration,  ///< end before start: end = start
  kOutOfRange,        ///< a time or size beyond what 64 bits can add up: event left out, or the number bounded
  kOutlier,           ///< an impossible duration: flagged, kept
  kUnmatchedLaunch,   ///< device work without the call that launched it, or the other way round
  kEarlyStart,        ///< device work that starts before its launch (clock skew): linked by id all the same
  kBeforeCapture,     ///< events from before the start of the capture: kept
  kDroppedRecords,    ///< records that the recorder or the driver dropped
  kCutList,           ///< a list of ranks that the file cut short: "at least"
  kUnknownSchema,     ///< a schema version that this program does not know
  kMissingTable,      ///< a table or field that is absent: its analyses answer "absent"
  kUnmatchedCollective, ///< a collective that other ranks do not have
  kOverlapSplit,      ///< events that overlap without nesting: put on lanes of their own
  kLostMetadata,      ///< something that the target format cannot hold
};
inline constexpr int kProblems = static_cast<int>(Problem::kLostMetadata) + 1;

struct ProblemInfo {
  std::string_view name;     ///< "bad-event"
  bool loses_data = false;   ///< something was left out (a repair otherwise)
  std::string_view meaning;
};
const ProblemInfo& problemInfo(Problem problem);

class Problems {
 public:
  void count(Problem problem, std::string_view where = {}, std::int64_t times = 1);
  void append(const Problems& other);
  std::int64_t countOf(Problem problem) const;
  bool empty() const { return seen_.empty(); }
  struct Seen {
    std::int64_t count = 0;
    std::string first;  ///< place of the first: "byte 4711", "NVTX_EVENTS row 3"
    bool operator==(const Seen&) const = default;
  };
  const std::map<Problem, Seen>& all() const { return seen_; }

 private:
  std::map<Problem, Seen> seen_;
};

}  // namespace spscope::trace
