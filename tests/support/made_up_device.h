// SPDX-License-Identifier: Apache-2.0
// A device that nobody has: all that a plan needs of it, every interval a point.
#pragma once

#include <string>

#include "core/session/plan/device_profile.h"

namespace spscope::session {

/// `capacity` bytes, nothing outside of torch; 100 flop per ns, memory of 10 bytes per ns, links of 1. `kind`: cpu or cuda.
inline DeviceProfile madeUpDevice(double capacity, const std::string& kind = "cpu") {
  DeviceProfile p;
  p.name = "made up";
  p.device = kind;
  p.capacity = {capacity, capacity, "made up"};
  p.matmul = {100, 100, "made up"};
  p.memory = {10, 10, "made up"};
  p.node_link = {1, 1, "made up"};
  return p;
}

}  // namespace spscope::session
