// SPDX-License-Identifier: Apache-2.0
// Safetensors files: inputs, gradients, checkpoints.
#include "core/io/safetensors.h"
#include "tests/fuzz/fuzz_input.h"

using namespace spscope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = io::SafetensorsFile::open(io::MappedFile::ofBytes("fuzz.safetensors", fuzz::bytesOf(data, size)));
  if (!file) {
    fuzz::requireClear(file.error());
    return 0;
  }
  unsigned sum = 0;
  for (const auto& [name, tensor] : file->tensors()) {
    fuzz::require(static_cast<std::int64_t>(tensor.bytes.size()) == ir::numel(tensor.shape) * ir::sizeOf(tensor.dtype),
                  "a tensor has the bytes that its shape says");
    for (const std::byte b : tensor.bytes) sum += static_cast<unsigned>(b);
  }
  volatile unsigned seen = sum;
  (void)seen;
  return 0;
}
