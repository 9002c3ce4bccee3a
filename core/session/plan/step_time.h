// SPDX-License-Identifier: Apache-2.0
// How long a compiled step takes on a device that is not there: a roofline per node at the profile's rates, a collective as
// latency + bytes / bandwidth, and the program's order on three streams (compute, communication, copies to the host), where
// a node waits for what it reads. It orders configurations. The interval is that of the profile's rates, and nothing more:
// kernels that miss their rates, stragglers and the host are not in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "core/session/plan/device_profile.h"
#include "core/session/plan/offload.h"
#include "core/session/plan/tiled_mlp.h"
#include "passes/pass.h"

namespace spscope::session {

/// Nanoseconds of one step of the optimizer: all batches, the update, the parameters' gather.
struct StepTime {
  double low = 0, middle = 0, high = 0;  ///< at the best, the middle and the worst of all rates
  double compute = 0;                    ///< at the middle: kernels, one after the other
  double communication = 0;              ///< ... collectives, one after the other
  double exposed = 0;                    ///< ... of the step, in which compute waits for a collective or a copy
};

/// "7.76 s (6.92 to 9.14)": never without its interval.
std::string timeText(const StepTime& time);

/// What a step does that its program does not say.
struct StepExtras {
  int gpus_per_node = 1;
  bool gathers_layers = false;          ///< zero 3: a layer's parameters are gathered before its forward and its backward
  int replicas = 1;                     ///< further replicas of a program of one rank, which take a share of every gradient
  bool ring = false;                    ///< keys and values go round the sequence ranks; the exchanges of attention are not made
  std::int64_t passing_states = 0;      ///< bytes of the optimizer's states that come from the host for the update, and go back
  TiledMlps tiled;                      ///< MLPs whose nodes run once a tile, and what runs again
  std::vector<Checkpoint> offloaded;    ///< copied to the host after their forward and back before they are needed
};

/// `program`: a joint graph, scheduled; `settings`: those it was compiled with. O(program).
StepTime estimateStep(const ir::Graph& program, const passes::Settings& settings, const DeviceProfile& profile, const StepExtras& extras);

}  // namespace spscope::session
