// SPDX-License-Identifier: Apache-2.0
// The doors of the GPU library, found by name after it is loaded. No CUDA, no NCCL, no libtorch in this header.
//
// C++ types go through them: the library and the program are always one build, which spscope_gpu_version checks.
#pragma once

#include <memory>

#include "core/base/result.h"
#include "core/dist/collectives.h"

namespace spscope::dist {

struct NcclOptions;

inline constexpr int kGpuInterfaceVersion = 1;

using spscope_gpu_version_fn = int (*)();
using spscope_nccl_connect_fn = Result<std::unique_ptr<Collectives>> (*)(std::unique_ptr<Collectives> bootstrap,
                                                                         const NcclOptions& options);

}  // namespace spscope::dist
