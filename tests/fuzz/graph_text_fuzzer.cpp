// SPDX-License-Identifier: Apache-2.0
// The text form of graphs, in which stages are saved: what parses prints to text that parses to the same graph.
#include "core/ir/equal.h"
#include "core/ir/text.h"
#include "core/ir/verifier.h"
#include "tests/fuzz/fuzz_input.h"

using namespace spscope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = ir::parseGraphText(fuzz::textOf(data, size), "fuzz.txt");
  if (!parsed) {
    fuzz::requireClear(parsed.error());
    return 0;
  }
  if (const auto status = ir::verifyGraph(parsed->graph); !status) fuzz::requireClear(status.error());
  const std::string printed = ir::printGraph(parsed->graph, parsed->header);
  const auto again = ir::parseGraphText(printed, "printed.txt");
  if (!again) std::fprintf(stderr, "%s\n%s\n", again.error().format().c_str(), printed.c_str());
  fuzz::require(again.has_value(), "printed text parses");
  fuzz::require(ir::printGraph(again->graph, again->header) == printed, "print of parse is the identity on printed text");
  return 0;
}
