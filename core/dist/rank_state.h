// SPDX-License-Identifier: Apache-2.0
// Where a rank is: a small block of memory in a file of the run directory, written by the rank, read by its launcher.
//
// It outlives the rank: after kill -9 the launcher still knows the last node. Writing costs a few stores and no system
// call. Texts are written into the half that is not current, then made current, so that they are never seen half-written.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/dist/call_log.h"

namespace spscope::dist {

/// What the block says at one moment.
struct RankSnapshot {
  std::string phase;               ///< "starting", "connecting", "step" …, as the rank names it
  std::string node;                ///< the node that began last
  std::int64_t step = -1;          ///< -1: none yet
  std::string collective;          ///< the collective that began last, "" before the first
  std::int64_t sequence = 0;       ///< its number
  bool inside_collective = false;  ///< it has not ended
  std::int64_t progress = 0;       ///< grows with every note
  std::int64_t patience = 1;       ///< how many deadlines the phase may take without a note
  std::int64_t heartbeat_ns = 0;   ///< CLOCK_MONOTONIC of the rank's last sign of life; 0: none
};

/// One text of up to kTextBytes - 1 bytes (longer ones are cut). One writer.
class SharedText {
 public:
  void set(std::string_view text) noexcept;
  std::string get() const;

 private:
  static constexpr std::size_t kTextBytes = 192;
  std::atomic<std::uint32_t> current_{0};
  char half_[2][kTextBytes] = {};
};

/// The block itself. All zero is a valid beginning.
struct RankBlock {
  SharedText phase, node, collective;
  std::atomic<std::int64_t> step{-1}, sequence{0}, inside{0}, progress{0}, patience{1}, heartbeat_ns{0};
  CallLog calls;
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

class RankState {
 public:
  /// The launcher's side: makes the file. Error run-directory.
  static Result<RankState> create(const std::string& path);
  /// The rank's side.
  static Result<RankState> open(const std::string& path);
  /// A block of its own, for ranks without a launcher of ours.
  static RankState detached();

  RankBlock& block() { return *block_; }
  RankSnapshot snapshot() const;
  std::vector<RecordedCall> calls() const { return block_->calls.read(); }

 private:
  std::shared_ptr<RankBlock> block_;
};

}  // namespace spscope::dist
