// SPDX-License-Identifier: Apache-2.0
// NCCL ranks: in the GPU library, which is loaded only when a CUDA driver answers. No CUDA header here.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/dist/collectives.h"

namespace spscope::dist {

/// Number of CUDA devices. Error nccl-unavailable with the reason: no libcuda.so.1, no device, a driver's error code.
/// Loads the driver's library (never the GPU library) and initialises it.
Result<int> cudaDevices();

struct NcclOptions {
  int device = 0;  ///< CUDA device of this rank: its local rank, normally
  std::chrono::milliseconds timeout{60'000};          ///< of each collective
  std::chrono::milliseconds connect_timeout{120'000};
  std::function<void(std::string_view op, std::int64_t sequence, bool inside)> on_collective;  ///< see Rendezvous
};

/// Makes NCCL collectives over device memory. `bootstrap` (Gloo) carries NCCL's id to all ranks, and texts ever after; all
/// ranks call this together. Collectives run on the current stream of the device and block until they have ended.
/// Errors: nccl-unavailable; nccl-failed.
Result<std::unique_ptr<Collectives>> connectNccl(std::unique_ptr<Collectives> bootstrap, const NcclOptions& options);

/// Where the GPU library is looked for: beside the program, then where the build and an installation put it.
std::string gpuLibraryPath();

}  // namespace spscope::dist
