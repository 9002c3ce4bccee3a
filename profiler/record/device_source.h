// SPDX-License-Identifier: Apache-2.0
// What the GPU of this process does, into the rank's spool: kernels, copies, driver and runtime calls, memory, through CUPTI.
// No CUDA header here. Nothing of CUPTI is touched before a driver has answered (13.2 overflows the stack without one).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "profiler/record/spool.h"

namespace spscope::trace {

struct DeviceOptions {
  std::string driver = "libcuda.so.1";  ///< tests put a stand-in here
  std::string cupti{};                  ///< path of libcupti; empty: looked for (see findCupti)
  std::size_t buffer_bytes = 4u << 20;  ///< of one activity buffer
  std::size_t buffers = 64;             ///< at most so many at once; records that find none are dropped and counted
};

/// What was recorded; complete after stop().
struct DeviceCounts {
  std::int64_t records = 0;     ///< written to the spool
  std::int64_t dropped = 0;     ///< by CUPTI (its own count), or for want of a buffer or of room in the spool
  std::int64_t without_time = 0;///< CUPTI had no time stamps for them: left out
  std::int64_t unknown = 0;     ///< of kinds that are not read
  std::int64_t damaged = 0;     ///< buffers that ended in the middle of a record
  std::int64_t late_buffers = 0;///< came after stop(): not read
  std::vector<std::string> missing; ///< kinds that could not be enabled, with CUPTI's reason
  std::string version;          ///< of CUPTI, "13.0 (130001)"
};

class DeviceSource {
 public:
  virtual ~DeviceSource() = default;
  /// Device work that this thread launches from now on belongs to the node, until pop().
  virtual void push(std::int32_t node) = 0;
  virtual void pop() = 0;
  /// Asks CUPTI for what it has; between steps.
  virtual void flush() = 0;
  /// Stops, flushes, and writes the trailer's figures. Call once.
  virtual DeviceCounts stop() = 0;
};

/// Starts recording into the spool, which must outlive the source. One at a time in a process (CUPTI's callbacks have no
/// user data). Errors (kRefused): cupti-unavailable with what was tried: no driver, no libcupti, no kind could be enabled.
Result<std::unique_ptr<DeviceSource>> startDeviceSource(SpoolWriter& spool, const DeviceOptions& options = {});

/// The libcupti that this process would use: one that is loaded already, SPSCOPE_CUPTI, the wheel's beside libtorch, the
/// system's. Empty: none. Does not load anything.
std::string findCupti();

}  // namespace spscope::trace
