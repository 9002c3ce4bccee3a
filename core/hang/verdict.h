// SPDX-License-Identifier: Apache-2.0
// Whose fault was it, in a run of which only the Flight Recorder's dumps are left. The words are those of core/dist/blame.h,
// which answers the same for our own runs: a rank did not come to a collective, in which others waited for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/hang/meetings.h"

namespace spscope::hang {

enum class Certainty : std::uint8_t {
  kCertain,   ///< nothing else explains what the dumps say
  kLikely,    ///< the majority speaks for it, or one thing is not known
  kPossible,  ///< as good a guess as the dumps allow
};
std::string_view nameOf(Certainty certainty);

struct Verdict {
  std::string code;            ///< of core/base/codes.h; "": nobody waits and nothing differs
  std::vector<int> culprits;   ///< ranks, ascending; empty: cannot be told
  Certainty certainty = Certainty::kCertain;
  std::string why;             ///< one sentence
  std::string group;           ///< title of the group
  std::optional<std::int64_t> seq;  ///< number of the collective in it
  std::string op;
  std::vector<int> waiting;    ///< who is inside it
  std::vector<int> missing;    ///< who has not come, or may not have
  const io::RecordedOp* where = nullptr;  ///< the culprit's call, or else that of a rank that waits
};

/// Where one rank is in one group.
struct Place {
  int rank = 0;
  const Group* group = nullptr;
  const io::RecordedOp* last_completed = nullptr;
  const io::RecordedOp* first_open = nullptr;  ///< the first that has not completed
  std::int64_t since_ns = 0;                   ///< when it was called, before the last thing that any dump knows; 0: not known
};

struct Finding {
  const std::vector<io::RecorderDump>* dumps = nullptr;
  std::vector<Group> groups;
  std::vector<Place> places;      ///< by rank, then group
  Verdict verdict;
  std::vector<std::string> other; ///< what else is odd, a sentence each
  std::vector<std::string> unknown;  ///< what the dumps cannot tell, a sentence each
};

/// Points into `dumps`.
Finding analyse(const std::vector<io::RecorderDump>& dumps);

/// The user's own line: the first frame that is not torch's; nullptr where no frames were recorded.
const io::RecordedFrame* userFrame(const io::RecordedOp& op);

/// "rank 2", "ranks 0, 1 and 3"
std::string ranksText(const std::vector<int>& ranks);

}  // namespace spscope::hang
