// SPDX-License-Identifier: Apache-2.0
// Ranks that talk through c10d's Gloo process group: one process each, on any machine. No libtorch in this header.
//
// Every collective is made of Gloo's point-to-point messages rather than of its collectives: uneven and empty blocks then
// need no padding, each wait knows which peer it waits for (an error can name it), nothing is queued to worker threads
// (so nothing can hang at shutdown), any element type can be moved, and sums are made in rank order, so that they are the
// same bits on all ranks and in every run. Half-precision sums are accumulated in float32 and rounded once.
//
// With every collective each rank tells each peer what it is doing (number, kind, type, sizes): a difference is the error
// collective-mismatch on the ranks that see it, never a hang.
//
// Memory: an all-reduce needs a scratch buffer of 4 MiB at most, a reduce-scatter one of its input's size; outside
// libtorch's allocator.
// Threads: one thread at a time may use a group.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/dist/call_log.h"
#include "core/dist/collectives.h"

namespace spscope::dist {

struct Rendezvous {
  int rank = 0;
  int size = 1;
  std::string file;          ///< local runs: a file in a private 0700 directory; excludes `host`
  std::string host;          ///< existing launches: MASTER_ADDR
  int port = 0;              ///< MASTER_PORT
  bool store_exists = false; ///< a launcher (torchrun) already serves the store; otherwise rank 0 does
  std::string prefix;        ///< keeps runs and restarts apart that share one store
  std::vector<int> known_as; ///< how messages name the ranks; empty: 0, 1 ... (a row of a mesh has others)
  std::string interface;     ///< network interface; empty: loopback for `file`, the one that reaches `host` otherwise
  std::chrono::milliseconds timeout{60'000};          ///< of each collective
  std::chrono::milliseconds connect_timeout{60'000};  ///< until all ranks have come
  /// Called when a collective begins (true) and ends well (false); must not throw. For the rank's state table. Meeting
  /// the other ranks counts as collective 0, "rendezvous".
  std::function<void(std::string_view op, std::int64_t sequence, bool inside)> on_collective;
  std::string group;         ///< name, for on_call; empty: all ranks
  std::function<void(const CallNotice&)> on_call;  ///< the same with sizes, by group; must not throw
};

/// Connects this rank; blocks until all ranks have come or connect_timeout is over.
/// Errors: rendezvous-failed, rendezvous-timeout. The group's own: collective-timeout, peer-lost, collective-mismatch,
/// collective-dtype. After an error the group answers every call with that error and is abandoned, not torn down.
Result<std::unique_ptr<Collectives>> connectGloo(const Rendezvous& at);

/// "2.15.0": of the libtorch that this program was built with; all ranks must have the same.
std::string libtorchVersion();

}  // namespace spscope::dist
