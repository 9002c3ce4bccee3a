// SPDX-License-Identifier: Apache-2.0
// What a planner knows of a device, from a small TOML file: how much memory there is, what of it is not ours, and nominal
// rates of links and kernels. Every figure is an interval with its source: nobody knows a driver's share to the byte.
//
//   name = "H100-80"
//   summary = "NVIDIA H100 SXM5, 80 GB"
//   device = "cuda"                        # which kernels the pipeline chooses: cpu or cuda
//   shared = false                         # true: the ranks of a node share the capacity (a CPU's memory)
//   [memory.capacity]
//   low = "79.1 GiB"
//   high = "79.6 GiB"
//   source = "..."
//
// The other figures: memory.outside (a process's share that no allocator sees), memory.host (of a node, for what is offloaded), communication.per_group,
// communication.all_to_all (buffers), compute.matmul, compute.matmul_float32, compute.memory, compute.launch, links.node,
// links.network, links.host, links.node_latency, links.network_latency, attention.NAME.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"

namespace spscope::session {

/// low <= high, both finite and not negative. Bytes, bytes per ns, floating-point operations per ns, or ns.
struct Figure {
  double low = 0, high = 0;
  std::string source;
  double middle() const { return (low + high) / 2; }
};

struct DeviceProfile {
  std::string path, name, summary;
  std::string device;     ///< "cpu" or "cuda"
  bool shared = false;    ///< capacity is that of a node, not of a rank
  Figure capacity;        ///< bytes that a process can have at most
  Figure outside;         ///< bytes per process outside of torch's allocator: context, code, what libraries take by themselves
  Figure host;            ///< bytes of a node's memory that its ranks can have together for what is offloaded; without a source: not known
  Figure per_group;       ///< bytes of buffers per communicator that a rank is in
  Figure all_to_all;      ///< bytes more once all-to-alls were used
  Figure matmul;          ///< flop per ns, in the precision that the device is bought for
  Figure matmul_float32;  ///< the same in float32; {0, 0}: as matmul
  Figure memory;          ///< bytes per ns
  Figure launch;          ///< ns that a kernel takes however small it is
  Figure node_link;       ///< bytes per ns that a rank sends to others of its node
  Figure network_link;    ///< ... to other nodes; {0, 0}: not known, one node only
  Figure host_link;       ///< bytes per ns between a device and its host, in one direction; {0, 0}: not known, nothing can be offloaded
  Figure node_latency, network_latency;  ///< ns of a collective however small it is, per step of its algorithm
  std::vector<std::pair<std::string, Figure>> attention;  ///< flop per ns of the forward, by kernel
};

/// A file's name (it ends in .toml), or that of a profile that comes with the program. Errors: profile-missing (with those
/// that there are), file-missing, file-unreadable, profile-syntax, profile-key (with what is known), profile-value.
Result<DeviceProfile> readDeviceProfile(const std::string& name_or_path);
/// The same from text; `path` only names it.
Result<DeviceProfile> parseDeviceProfile(const std::string& path, const std::string& text);
/// A profile as the text of such a file: parseDeviceProfile reads the same figures from it, to four digits. What is {0, 0} is left out.
std::string deviceProfileText(const DeviceProfile& profile, const std::string& comment);
/// Files of the profiles that come with the program (resources/devices, or share/spscope/devices), by name.
std::vector<std::pair<std::string, std::string>> deviceProfiles();

}  // namespace spscope::session
