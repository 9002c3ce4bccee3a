// SPDX-License-Identifier: Apache-2.0
// Kineto's and other Chrome JSON, plain and in gzip; with the block size out of the input, so that events lie across blocks.
#include "profiler/import/import.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_trace.h"

using namespace spscope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trace::ImportOptions options;
  options.block_bytes = size == 0 ? 64 : 64 + 16 * (data[size - 1] % 64u);
  fuzz::requireSound(trace::importBytes(std::as_bytes(std::span(data, size)), "fuzz.json", options));
  return 0;
}
