// SPDX-License-Identifier: Apache-2.0
// Plants seeded faults in models of tests/data/zoo and says how each was found: a line of JSON for each, and one more of counts.
//
//   seeded_faults PER_CASE FIRST_SEED MODEL:RANKS...
//   seeded_faults plant FAULT MODEL:RANKS
#include <cstdio>
#include <cstdlib>
#include <map>

#include <nlohmann/json.hpp>

#include "core/base/clock.h"
#include "core/base/strings.h"
#include "core/torch/threads.h"
#include "tests/faults/seeded_faults.h"

namespace spscope::zoo {
namespace {

void print(const std::string& model, const Trial& t) {
  nlohmann::json row = {{"model", model}, {"fault", t.fault.text()}, {"planted", t.fault.planted}, {"ending", std::string(endingWord(t.ending))}, {"node", t.node},
                        {"pass", t.pass}, {"ranks", t.ranks}, {"wanted_ranks", t.wanted_ranks}, {"why", t.why}};
  std::printf("%s\n", row.dump().c_str());
  std::fflush(stdout);
}

Status run(int argc, char** argv) {
  exec::setThreads(1);
  const bool one = std::string(argv[1]) == "plant";
  std::map<std::string, int> counts;
  int nothing = 0;
  const std::int64_t begin = monotonicNs();
  for (int i = 3; i < argc; ++i) {
    const std::vector<std::string> parts = split(argv[i], ':');
    const std::string name = parts[0] + "_P" + parts.at(1);
    SP_ASSIGN(const auto bench, FaultBench::open(parts[0], std::atoi(parts[1].c_str())));
    SP_ASSIGN(const bool right, bench->findsNothing());
    nothing += right;
    if (one) {
      SP_ASSIGN(const passes::Fault fault, passes::parseFault(argv[2]));
      SP_ASSIGN(const Trial trial, bench->run(fault));
      print(name, trial);
      continue;
    }
    for (int n = 0; n < std::atoi(argv[1]); ++n) {
      std::vector<Trial> others;
      SP_ASSIGN(const Trial trial, bench->next(static_cast<std::uint64_t>(std::atoi(argv[2]) + 100 * (i - 3) + n), others));
      others.push_back(trial);
      for (const Trial& t : others) {
        ++counts[std::string(endingWord(t.ending))];
        print(name, t);
      }
    }
  }
  nlohmann::json summary = {{"cases", argc - 3}, {"right_without", nothing}, {"seconds", static_cast<double>(monotonicNs() - begin) / 1e9}, {"endings", counts}};
  std::printf("%s\n", summary.dump().c_str());
  return {};
}

}  // namespace
}  // namespace spscope::zoo

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "seeded_faults PER_CASE FIRST_SEED MODEL:RANKS... | plant FAULT MODEL:RANKS\n");
    return 2;
  }
  const auto status = spscope::zoo::run(argc, argv);
  if (!status) std::fprintf(stderr, "%s\n", status.error().format().c_str());
  return status ? 0 : 1;
}
