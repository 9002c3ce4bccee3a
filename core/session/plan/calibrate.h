// SPDX-License-Identifier: Apache-2.0
// A device profile of the machine at hand, measured: kernels, links between ranks, what a rank takes besides its tensors, and
// how much memory there is. CPUs only: nothing here runs kernels on a GPU.
#pragma once

#include <string>

#include "core/session/model.h"
#include "core/session/plan/device_profile.h"

namespace spscope::session {

struct CalibrateRequest {
  std::string name = "this-machine";
  std::string device = "cpu";
  int ranks = 2;         ///< that talk to each other
  double seconds = 4;    ///< for the kernels
};

/// Every figure's source says how it was measured. Errors: calibrate-no-device (a GPU was asked for), those of measureKernels
/// and measureLinks, cancelled.
Result<DeviceProfile> calibrate(const CalibrateRequest& what, const Request& request);

}  // namespace spscope::session
