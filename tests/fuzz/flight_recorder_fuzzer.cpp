// SPDX-License-Identifier: Apache-2.0
// A Flight Recorder's dump, alone and beside one that is in order, through the reader and the analysis.
#include "core/hang/verdict.h"
#include "tests/fuzz/fuzz_input.h"

using namespace spscope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::bytesOf(data, size);
  auto dump = io::readFlightRecorder(bytes, "rank_0", 0);
  if (!dump) {
    fuzz::requireClear(dump.error());
    return 0;
  }
  std::vector<io::RecorderDump> dumps{*dump};
  dumps.push_back(std::move(*dump));
  dumps[1].rank = dumps[0].rank + 1;
  // The second rank is one op behind: somebody is missing wherever an op is left open.
  if (!dumps[1].ops.empty()) dumps[1].ops.pop_back();
  const hang::Finding found = hang::analyse(dumps);
  fuzz::require(found.verdict.code.empty() || findCode(found.verdict.code), "a verdict is explained");
  fuzz::require(found.verdict.code.empty() || !found.verdict.why.empty(), "a verdict has a reason");
  for (const auto& place : found.places) fuzz::require(place.since_ns >= 0, "times do not run backwards");
  return 0;
}
