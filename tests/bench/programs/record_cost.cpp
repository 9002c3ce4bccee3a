// SPDX-License-Identifier: Apache-2.0
// What one recorded event costs the rank's thread: nodes, allocations and collectives into a spool, as the executor tells of
// them, writing to the disk included. Prints a JSON object a round.
//
//   record_cost SPOOL ROUNDS EVENTS
#include <cstdio>
#include <cstdlib>

#include "core/base/clock.h"
#include "profiler/record/host_recorder.h"

using namespace spscope::trace;

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int rounds = std::atoi(argv[2]), events = std::atoi(argv[3]);
  for (int round = 0; round < rounds; ++round) {
    auto made = HostRecorder::create(argv[1], {.rank = 0, .world = 2, .backend = "gloo", .properties = {}}, {}, std::int64_t{1} << 40);
    if (!made) {
      std::fprintf(stderr, "record_cost: %s\n", made.error().format().c_str());
      return 1;
    }
    HostRecorder& recorder = **made;
    const std::uint16_t group = recorder.name("sp:all_to_all");
    const std::int64_t begin = spscope::monotonicNs();
    for (int i = 0; i < events; i += 5) {  // of a node: its two time stamps, the node, an allocation and a free; and a collective
      const std::int64_t start = spscope::monotonicNs();
      recorder.allocation(i, start, 4096, i);
      const std::int64_t end = spscope::monotonicNs();
      recorder.node(i, start, end);
      recorder.allocation(i, end, -4096, i);
      recorder.collective(i, start, end, 4096, i, group);
      recorder.wait(i, start, end, i, group);
    }
    if (const auto written = recorder.finish(); !written) return 1;
    std::printf("{\"events\": %d, \"ns\": %lld}\n", events, static_cast<long long>(spscope::monotonicNs() - begin));
  }
  return 0;
}
