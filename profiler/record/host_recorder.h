// SPDX-License-Identifier: Apache-2.0
// What one rank did on the host, event by event, into its spool. Called on the rank's thread for every node and every
// allocation: a call is a store of 40 bytes, and a write of 256 KiB every few thousand of them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "profiler/record/spool.h"
#include "profiler/trace/trace.h"

namespace spscope::trace {

/// Who records: goes into the head of the spool.
struct RecordedRank {
  int rank = 0, world = 1;
  std::string backend;                            ///< "gloo", "nccl", "virtual"
  std::map<std::string, std::string> properties;  ///< see Trace::properties
  std::map<std::string, int> groups{};            ///< ranks of each group that collectives are named by
};
/// A node of the program that runs.
struct RecordedNode {
  std::int32_t id = -1;
  std::string name{}, op{}, module{}, source{}, stage{};
  std::string memory_class{};  ///< of what it allocates and leaves behind: "saved activations", "gradients", ...
  Phase phase = Phase::kUnknownPhase;
  std::int64_t flops = kUnknown, predicted_ns = kUnknown;
};

/// Not thread-safe: one rank, one thread. All times: CLOCK_MONOTONIC nanoseconds.
class HostRecorder {
 public:
  /// Writes the head. `cap_bytes` bounds the records of this rank; beyond it they are counted and dropped.
  /// Errors: file-unwritable.
  static Result<std::unique_ptr<HostRecorder>> create(const std::string& path, const RecordedRank& rank,
                                                      const std::vector<RecordedNode>& nodes, std::int64_t cap_bytes);
  ~HostRecorder();

  void node(std::int32_t node, std::int64_t start, std::int64_t end) { add({start, end, 0, 0, node, HostKind::kNode, 0}); }
  /// From its start until it was complete. `group`: name("sp:all_to_all"), the group and the kind.
  void collective(std::int32_t node, std::int64_t start, std::int64_t end, std::int64_t bytes, std::int64_t sequence,
                  std::uint16_t group) {
    add({start, end, bytes, sequence, node, HostKind::kCollective, group});
  }
  /// The rank stood still for it.
  void wait(std::int32_t node, std::int64_t start, std::int64_t end, std::int64_t sequence, std::uint16_t group) {
    add({start, end, 0, sequence, node, HostKind::kWait, group});
  }
  void range(std::uint16_t name, std::int64_t start, std::int64_t end) { add({start, end, 0, 0, -1, HostKind::kRange, name}); }
  void call(std::uint16_t name, std::int64_t start, std::int64_t end) { add({start, end, 0, 0, -1, HostKind::kCall, name}); }
  /// `memory_class`: from name(), for what no node made.
  void allocation(std::int32_t node, std::int64_t time, std::int64_t bytes, std::int64_t live, std::uint16_t memory_class = 0) {
    add({time, time, bytes, live, node, HostKind::kAllocation, memory_class});
  }
  void barrier(std::int64_t time) { add({time, time, 0, 0, -1, HostKind::kBarrier, 0}); }
  /// The number of a name. A few hundred at most: steps, phases, groups.
  std::uint16_t name(std::string_view text) { return static_cast<std::uint16_t>(spool_->string(text, 1u << 16)); }

  /// Writes what is buffered and the trailer; afterwards nothing more is recorded. Error file-unwritable: the disk was full (what
  /// was written before is there, and the rest counted as dropped where that could still be written).
  Status finish();
  std::int64_t dropped() const;
  /// Records of the device that were lost; into the trailer.
  void countDevice(std::int64_t dropped) { device_dropped_ += dropped; }
  SpoolWriter& spool() { return *spool_; }  ///< for records of the device

 private:
  static constexpr std::size_t kBuffered = 6553;  // 256 KiB
  explicit HostRecorder(std::unique_ptr<SpoolWriter> spool) : spool_(std::move(spool)) { buffer_.reserve(kBuffered); }
  void add(const HostRecord& record) {
    buffer_.push_back(record);
    if (buffer_.size() == kBuffered) flush();
  }
  void flush();

  std::unique_ptr<SpoolWriter> spool_;
  std::vector<HostRecord> buffer_;
  std::array<std::int64_t, kHostKinds> dropped_{};
  std::int64_t device_dropped_ = 0;
  bool finished_ = false;
};

}  // namespace spscope::trace
