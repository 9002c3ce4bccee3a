// SPDX-License-Identifier: Apache-2.0
// One buffer of CUPTI's activity records as our records. Reads memory only: works on hand-made buffers without a GPU.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "profiler/record/cuda/cupti_api.h"
#include "profiler/record/device_source.h"

namespace spscope::trace {

struct ParsedBuffer {
  std::vector<DeviceRecord> records;
  std::vector<ExternalRecord> externals;
  std::int64_t without_time = 0, unknown = 0;
  bool damaged = false;  ///< the library could not read on before the end
};

/// Fields that younger versions added are read only where the loaded version has them. `name` interns a text (kernel names come
/// demangled). Memory kinds and the like are mapped to Nsight's numbers.
ParsedBuffer parseBuffer(const CuptiApi& api, std::uint8_t* buffer, std::size_t valid_bytes,
                         const std::function<std::uint32_t(std::string_view)>& name);

}  // namespace spscope::trace
