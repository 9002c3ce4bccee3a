// SPDX-License-Identifier: Apache-2.0
// Our own trace files: SQLite pages, tables and rows of any kind.
#include "profiler/store/store.h"
#include "tests/fuzz/fuzz_file.h"
#include "tests/fuzz/fuzz_trace.h"

using namespace spscope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = fuzz::fileOf(data, size);
  fuzz::requireSound(trace::readStore(path));
  return 0;
}
