// SPDX-License-Identifier: Apache-2.0
// The file into which one rank records while it runs: magic, then blocks of {kind, bytes, payload}, appended and never
// changed. So a rank that is killed leaves everything up to its last block, and what is recorded needs no memory.
//
// A spool is read on the machine that wrote it, right after the run (spool_reader.h): little-endian, no versions kept.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include "core/base/result.h"

namespace spscope::trace {

inline constexpr std::string_view kSpoolMagic = "SPSPOOL2";

enum class SpoolBlock : std::uint32_t {
  kHeader = 1,   ///< JSON: rank, world, host, clock, ...; properties; the first block
  kNodes = 2,    ///< JSON: the nodes of this rank's program
  kStrings = 3,  ///< {uint32 id, uint32 length, text}...
  kHost = 4,     ///< HostRecord...
  kDevice = 5,   ///< DeviceRecord...
  kTrailer = 6,  ///< JSON: dropped records by kind; the last block
  kExternal = 7, ///< ExternalRecord...
};
struct SpoolBlockHead {
  std::uint32_t kind = 0, bytes = 0;
};

enum class HostKind : std::uint16_t {
  kNode,             ///< start..end of a node; name: its category of work, or 0
  kCollective,       ///< start..end (complete); first: bytes sent, second: sequence number; name: "group:kind"
  kWait,             ///< start..end blocked in the wait of a collective; second: sequence number; name: as the collective's
  kRange,            ///< a step, phase or part of a step; name
  kAllocation,       ///< at start; first: bytes (negative: freed), second: live bytes after it; name: class, where no node has one
  kBarrier,          ///< at start: left the start barrier
  kCall,             ///< a host call that has no node (optimizer): start..end; name
};
inline constexpr int kHostKinds = static_cast<int>(HostKind::kCall) + 1;

/// Times: CLOCK_MONOTONIC nanoseconds.
struct HostRecord {
  std::int64_t start = 0, end = 0;
  std::int64_t first = 0, second = 0;
  std::int32_t node = -1;  ///< ir::NodeId
  HostKind kind = HostKind::kNode;
  std::uint16_t name = 0;  ///< spool string
};
static_assert(sizeof(HostRecord) == 40 && std::is_trivially_copyable_v<HostRecord>);

/// What a device or its driver did, as cupti_source.h found it. Times are already on the host's CLOCK_MONOTONIC.
struct DeviceRecord {
  std::int64_t start = 0, end = 0;
  std::int64_t correlation = 0, external = 0;  ///< external: node id + 1; 0: none
  std::int64_t bytes = 0, value = 0, address = 0;
  std::uint32_t name = 0;                      ///< spool string
  std::int32_t device = -1, context = -1, stream = -1;
  std::int32_t thread = 0;                     ///< of the call; 0: not a call
  std::int32_t grid[3] = {}, block[3] = {};
  std::int32_t registers = -1, static_shared = -1, dynamic_shared = -1;
  std::int32_t graph_node = 0;
  std::uint8_t category = 0;                   ///< trace::Category; kOther: a memory record
  std::uint8_t copy_kind = 0, source_kind = 7, target_kind = 7;
};
static_assert(sizeof(DeviceRecord) == 120 && std::is_trivially_copyable_v<DeviceRecord>);

/// Device work of that correlation id belongs to that external id; may come before or after the work itself.
struct ExternalRecord {
  std::int64_t correlation = 0, external = 0;
};

/// Appends blocks; any thread. After the cap, or when the disk is full, blocks of records are refused and the caller
/// counts what it drops; header, strings and trailer are always written where the disk allows.
class SpoolWriter {
 public:
  /// `cap_bytes`: how large records may let the file become (the trailer comes on top). Error file-unwritable.
  static Result<std::unique_ptr<SpoolWriter>> create(const std::string& path, std::int64_t cap_bytes);
  ~SpoolWriter();
  SpoolWriter(const SpoolWriter&) = delete;
  SpoolWriter& operator=(const SpoolWriter&) = delete;

  /// False: not written.
  bool append(SpoolBlock kind, const void* data, std::size_t bytes);
  bool append(SpoolBlock kind, std::string_view text) { return append(kind, text.data(), text.size()); }
  /// The number of a text in this file, written the first time it is asked for. 0 is the empty text. `limit`: texts beyond
  /// this many, and those first seen after the cap was reached, are all "..." (names that differ from event to event must
  /// not grow without bound).
  std::uint32_t string(std::string_view text, std::uint32_t limit = 1u << 20);
  std::int64_t bytesWritten() const;
  /// The first failure of the disk; empty: none.
  Status status() const;

 private:
  SpoolWriter(int file, std::int64_t cap) : file_(file), cap_(cap) {}
  bool write(SpoolBlock kind, const void* data, std::size_t bytes);

  mutable std::mutex mutex_;
  int file_;
  std::int64_t cap_;
  std::int64_t written_ = 0;
  int error_ = 0;  ///< errno
  bool full_ = false;  ///< records were refused
  std::unordered_map<std::string, std::uint32_t> strings_;
};

}  // namespace spscope::trace
