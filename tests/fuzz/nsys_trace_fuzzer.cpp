// SPDX-License-Identifier: Apache-2.0
// Databases of Nsight Systems: SQLite pages, schemas and rows of any kind.
#include "profiler/import/nsys_reader.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_trace.h"

using namespace spscope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::requireSound(trace::readNsysBytes(std::as_bytes(std::span(data, size)), "fuzz.sqlite", {}));
  return 0;
}
