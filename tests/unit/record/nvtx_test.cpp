// SPDX-License-Identifier: Apache-2.0
// NVTX ranges as an injected tool sees them. The first NVTX call of a process decides who listens, so this is one test in a
// process of its own (CTest runs each test so; run by hand after others it may find NVTX initialised without the tool).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "profiler/record/nvtx_ranges.h"

namespace spscope::trace {
namespace {

TEST(Nvtx, ARangeTellsCategoryRegisteredNameAndNode) {
  const std::string log = (std::filesystem::temp_directory_path() / ("nvtx-test-" + std::to_string(getpid()))).string();
  setenv("FAKE_NVTX_LOG", log.c_str(), 1);
  setenv("NVTX_INJECTION64_PATH", SPSCOPE_FAKE_NVTX, 1);
  EXPECT_TRUE(NvtxRanges::toolPresent());
  {
    NvtxRanges ranges;
    ranges.push(NvtxRanges::Kind::kStep, "step 0");
    for (int i = 0; i < 2; ++i) {
      ranges.push(NvtxRanges::Kind::kNode, "mm", 7);
      ranges.pop();
    }
    ranges.pop();
    ranges.mark("end");
  }
  std::ifstream in(log);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(text, "domain spscope\nregister step 0\npush 1 step 0 -1\nregister mm\npush 4 mm 7\npop\npush 4 mm 7\npop\npop\nregister end\nmark end\n");
  std::filesystem::remove(log);
}

}  // namespace
}  // namespace spscope::trace
