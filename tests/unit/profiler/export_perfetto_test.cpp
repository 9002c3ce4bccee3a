// SPDX-License-Identifier: Apache-2.0
// Perfetto's own trace processor on our Chrome JSON: nothing dropped, nothing wrong. Where `node` is and SPSCOPE_PERFETTO
// names the folder of its web page's engine (docs/traces.md); the rules themselves are tested in export_chrome_test.cpp.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "profiler/export/chrome.h"
#include "profiler/import/import.h"
#include "tests/support/random_trace.h"
#include "tests/support/shell.h"
#include "tests/support/temp_folder.h"

namespace spscope::trace {
namespace {

class Perfetto : public TempFolderTest {
 protected:
  void SetUp() override {
    node_ = findProgram("SPSCOPE_NODE", "node");
    engine_ = findProgram("SPSCOPE_PERFETTO", "");
    if (node_.empty() || engine_.empty()) GTEST_SKIP() << "no node, or no SPSCOPE_PERFETTO: docs/traces.md says where both are";
  }
  nlohmann::json query(const std::string& sql) {
    const ShellResult result = shell(shellWord(node_) + " " + shellWord(SPSCOPE_SOURCE_DIR "/tests/tools/perfetto_query.mjs") + " " + shellWord(engine_) + " " + shellWord(path("t.json")) + " " + shellWord(sql) + " 2>&1");
    EXPECT_EQ(result.code, 0) << result.output;
    return nlohmann::json::parse(result.output, nullptr, false);
  }
  void check(const Trace& trace) {
    const auto problems = writeChrome(trace, path("t.json"));
    ASSERT_TRUE(problems) << problems.error().message;
    std::int64_t arrows = 0;  // as the text has them
    const std::string text = contents("t.json");
    for (std::size_t at = text.find("{\"ph\":\"s\""); at != std::string::npos; at = text.find("{\"ph\":\"s\"", at + 1)) ++arrows;
    // One question, since the engine takes seconds to start.
    const nlohmann::json found = query("SELECT (SELECT count(*) FROM slice), (SELECT count(*) FROM flow), (SELECT group_concat(name) FROM stats WHERE value != 0 AND severity != \"info\")");
    ASSERT_EQ(found.size(), 2u) << found;
    EXPECT_EQ(found[1][0], trace.events.size() + trace.memory.size());
    EXPECT_EQ(found[1][1], arrows);
    EXPECT_EQ(found[1][2], nullptr);
  }
  std::string node_, engine_;
};

TEST_F(Perfetto, TakesRandomTracesWhole) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) check(RandomTrace(seed).make(150));
}

TEST_F(Perfetto, TakesOurExportsOfForeignTracesWhole) {
  const std::string traces = SPSCOPE_SOURCE_DIR "/../shared/traces";
  if (!std::filesystem::exists(traces)) GTEST_SKIP() << "no " << traces;
  // In the original of the first, Perfetto drops 774 slices that overlap.
  for (const char* file : {"kineto/ns_resolution.json.gz", "kineto/overlap_47.json.gz", "nsys/sp_2gpu.sqlite"}) {
    SCOPED_TRACE(file);
    const auto trace = importTrace(traces + "/" + file);
    ASSERT_TRUE(trace) << trace.error().message;
    check(*trace);
  }
}

}  // namespace
}  // namespace spscope::trace
