// SPDX-License-Identifier: Apache-2.0
// The JSON of an exported program, without the archive's checks in the way: the input is models/model.json.
#include "core/io/program.h"
#include "core/ir/verifier.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/zip_writer.h"

using namespace spscope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  testing::ZipWriter zip;
  zip.add("r/models/model.json", std::string(fuzz::textOf(data, size)));
  const std::string whole = zip.bytes();
  const auto file = io::MappedFile::ofBytes(
      "fuzz.pt2", fuzz::bytesOf(reinterpret_cast<const std::uint8_t*>(whole.data()), whole.size()));
  DiagnosticSink sink;
  for (const std::int64_t seq : {0, 24}) {  // as exported, and at another length
    io::OpenOptions options;
    options.seq = seq;
    const auto model = io::openModel(file, options, sink);
    if (!model) {
      fuzz::requireClear(model.error());
    } else if (const auto status = ir::verifyGraph(model->graph); !status) {
      std::fprintf(stderr, "%s\n", status.error().format().c_str());
      fuzz::require(false, "an imported graph is well-formed");
    }
  }
  return 0;
}
