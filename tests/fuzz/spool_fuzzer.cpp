// SPDX-License-Identifier: Apache-2.0
// Recordings of ranks: cut, mixed up, with any numbers in them.
#include "profiler/record/spool_reader.h"
#include "tests/fuzz/fuzz_file.h"
#include "tests/fuzz/fuzz_trace.h"

using namespace spscope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = fuzz::fileOf(data, size);
  fuzz::requireSound(trace::readSpools({path}));
  return 0;
}
