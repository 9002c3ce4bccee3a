// SPDX-License-Identifier: Apache-2.0
// A build without the headers of CUPTI and NVTX: nothing of a device can be recorded, and it says so.
#ifndef SPSCOPE_HAVE_CUDA_HEADERS
#include "profiler/record/device_source.h"
#include "profiler/record/nvtx_ranges.h"

namespace spscope::trace {

Result<std::unique_ptr<DeviceSource>> startDeviceSource(SpoolWriter&, const DeviceOptions&) {
  return makeError("cupti-unavailable", "this build was made without CUPTI's headers");
}

struct NvtxRanges::Impl {};
NvtxRanges::NvtxRanges() = default;
NvtxRanges::~NvtxRanges() = default;
void NvtxRanges::push(Kind, const std::string&, std::int64_t) {}
void NvtxRanges::pop() {}
void NvtxRanges::mark(const std::string&) {}
bool NvtxRanges::toolPresent() { return false; }

}  // namespace spscope::trace
#endif
