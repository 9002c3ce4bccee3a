// SPDX-License-Identifier: Apache-2.0
// A .pt2 file of any layout, opened as `inspect --check` and `compile` do: directory, program, weights, checksums.
#include "core/io/program.h"
#include "core/io/weights.h"
#include "core/ir/verifier.h"
#include "tests/fuzz/fuzz_input.h"

using namespace spscope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = io::MappedFile::ofBytes("fuzz.pt2", fuzz::bytesOf(data, size));
  const auto archive = io::Archive::open(file);
  if (!archive) {
    fuzz::requireClear(archive.error());
    return 0;
  }
  if (const auto status = (*archive)->checkCrcs(); !status) fuzz::requireClear(status.error());
  DiagnosticSink sink;
  io::OpenOptions options;
  if ((*archive)->programs().size() > 1) options.graph_name = (*archive)->programs()[0];
  const auto model = io::openModel(file, options, sink);
  if (!model) {
    fuzz::requireClear(model.error());
    return 0;
  }
  if (const auto status = ir::verifyGraph(model->graph); !status) {
    std::fprintf(stderr, "%s\n", status.error().format().c_str());
    fuzz::require(false, "an imported graph is well-formed");
  }
  const io::WeightSource weights(model->archive);
  unsigned sum = 0;
  for (const ir::Input& input : model->graph.inputs) {
    if (input.kind == ir::InputKind::kUser) continue;
    const auto window = weights.window(model->graph, input);
    if (!window) fuzz::requireClear(window.error());
    else
      for (const std::byte b : *window) sum += static_cast<unsigned>(b);  // every byte may be read
  }
  volatile unsigned seen = sum;
  (void)seen;
  return 0;
}
