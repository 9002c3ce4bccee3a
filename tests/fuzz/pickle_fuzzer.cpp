// SPDX-License-Identifier: Apache-2.0
// The pickle in which torch 2.8 and older list their weights.
#include "core/io/pickle.h"
#include "tests/fuzz/fuzz_input.h"

using namespace spscope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto tensors = io::readTensorPickle(fuzz::bytesOf(data, size), "fuzz.pkl");
  if (!tensors) {
    fuzz::requireClear(tensors.error());
    return 0;
  }
  for (const auto& [name, tensor] : *tensors) {
    fuzz::require(tensor.meta.sizes.size() == tensor.meta.strides.size(), "sizes and strides are of one rank");
    fuzz::require(tensor.meta.offset >= 0, "offsets are not negative");
    fuzz::require(ir::sizeOf(tensor.meta.dtype) > 0, "the type is known");
  }
  return 0;
}
