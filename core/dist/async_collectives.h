// SPDX-License-Identifier: Apache-2.0
// Lets a blocking process group work behind the back of the rank: started collectives run on a thread of their own, in
// their order, while the rank computes.
//
// The group below stays what it is: its deadlines, its comparison between ranks and its notices of what begins and ends
// hold for started collectives as for others (a deadline counts from when the operation before has ended). After the
// first error every call gives that error. Blocking calls wait until the queue is empty and run on the caller's thread.
// Memory of an operation that failed or was abandoned is kept for good: something might still write into it.
#pragma once

#include <memory>

#include "core/dist/collectives.h"

namespace spscope::dist {

std::unique_ptr<Collectives> makeAsync(std::unique_ptr<Collectives> group);

}  // namespace spscope::dist
