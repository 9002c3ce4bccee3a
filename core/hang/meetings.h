// SPDX-License-Identifier: Apache-2.0
// Who met whom: the ranks' records of one group put side by side, by the numbers of the collectives. What follows from it
// is core/hang/verdict.h's.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/io/flight_recorder.h"

namespace spscope::hang {

/// What a rank recorded under one number: one op, or the members of a coalesced one.
using Calls = std::vector<const io::RecordedOp*>;

/// One process group, as all dumps together tell it. Points into the dumps.
struct Group {
  std::string name, desc;
  std::vector<int> members;   ///< global ranks, ascending
  bool members_known = false; ///< by the recorder; otherwise those that have used it; of the default group, all ranks
  std::vector<int> present, without_dump;  ///< the members, by whether there is a dump of theirs
  std::map<int, std::map<std::int64_t, Calls>> calls;    ///< rank → number → what it called
  std::map<int, std::vector<const io::RecordedOp*>> p2p; ///< rank → its sends and recvs, in order

  std::string title() const;  ///< "default_pg", "1 (loss)"
};

/// One number of one group.
struct Meeting {
  const Group* group = nullptr;
  std::int64_t seq = 0;
  std::vector<int> came;      ///< have called it
  std::vector<int> inside;    ///< of those: not done with it
  std::vector<int> absent;    ///< members with a dump that have not called it
  std::vector<int> forgotten; ///< members whose record of it was overwritten
};

std::vector<Group> groupsOf(const std::vector<io::RecorderDump>& dumps);
/// Of every number that some rank has recorded, ascending.
std::vector<Meeting> meetingsOf(const Group& group);

bool completed(const Calls& calls);
/// "all_reduce", "all_gather + all_gather + coalesced"
std::string opOf(const Calls& calls);
/// "[8] Float" or "[8] Float -> [32] Float", several tensors by commas.
std::string shapeOf(const Calls& calls);

/// What all ranks have to have in common, as text: the op, then sizes, then types; parts that may differ from rank to rank
/// (an all-to-all's sizes, a scatter's inputs, …) are left out.
struct Signature {
  std::string op, sizes, dtypes;
  bool operator==(const Signature&) const = default;
  auto operator<=>(const Signature&) const = default;
};
Signature signatureOf(const Calls& calls);

/// Elements of all inputs and outputs: an all-to-all's have to agree in sum over the ranks.
std::pair<std::int64_t, std::int64_t> elementsOf(const Calls& calls);
bool isAllToAll(const Calls& calls);

}  // namespace spscope::hang
