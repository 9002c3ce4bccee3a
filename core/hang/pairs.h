// SPDX-License-Identifier: Apache-2.0
// Sends and recvs that have not completed, each with its counterpart, where there is one.
#pragma once

#include <vector>

#include "core/hang/meetings.h"

namespace spscope::hang {

struct OpenPair {
  const io::RecordedOp* op = nullptr;     ///< not completed
  const io::RecordedOp* other = nullptr;  ///< what the peer has open against it; nullptr: nothing
  int rank = 0, peer = 0;                 ///< global ranks
  bool same_size = true;                  ///< both move as many elements of one type
};

/// The k-th open send of a pair of ranks meets its k-th open recv: NCCL keeps their order. Recvs from anybody are left out,
/// as is what names ranks that the group does not have.
std::vector<OpenPair> openPairs(const Group& group);

}  // namespace spscope::hang
