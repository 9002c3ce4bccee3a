// SPDX-License-Identifier: Apache-2.0
// `run --nsys` with a stand-in for nsys (tests/support/fake_nsys.sh), which notes how it was called, runs the program as nsys
// does, and "exports" a database that is made here. With SPSCOPE_NSYS_IMPORTS=…/nsys the real one is used, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "profiler/store/store.h"
#include "tests/support/processes.h"
#include "tests/support/temp_folder.h"
#include "tests/support/trace_builder.h"

namespace spscope::dist {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::HasSubstr;
const std::string kSample = SPSCOPE_SOURCE_DIR "/resources/samples/llama_gqa.pt2";
const std::string kFake = SPSCOPE_SOURCE_DIR "/tests/support/fake_nsys.sh";

class RunUnderNsys : public TempFolderTest {
 protected:
  std::vector<std::string> arguments(std::vector<std::string> more = {}) const {
    std::vector<std::string> out{"run", kSample, "--ranks", "virtual", "--sp", "2", "--seq", "16", "--steps", "2", "--profile", path("here.spt"), "--nsys"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  std::map<std::string, std::string> fake(std::map<std::string, std::string> more = {}) const {
    more.insert({{"SPSCOPE_NSYS", kFake}, {"FAKE_NSYS_LOG", path("calls")}, {"FAKE_NSYS_EXPORT", path("export.sqlite")}});
    return more;
  }
  /// Two ranks, with ranges in our domain: three nodes and a step.
  void makeExport() const {
    trace::test::TraceBuilder b;
    for (int r = 0; r < 2; ++r) b.rank(r);
    const auto node = b.node("mm");
    b.host(0, trace::Category::kRange, "step 0", 0, 100);
    b.host(0, trace::Category::kRange, "mm", 10, 20, 1, node);
    b.host(0, trace::Category::kRange, "mm", 30, 40, 1, node);
    b.host(1, trace::Category::kRange, "mm", 10, 25, 1, node);
    b.trace.format = "spscope";
    const auto written = trace::writeStore(b.trace, path("export.sqlite"));
    ASSERT_TRUE(written) << written.error().format();
  }
};

TEST_F(RunUnderNsys, WrapsTheRunAndReadsItsReportBack) {
  makeExport();
  Spscope run(arguments(), fake());
  ASSERT_EQ(run.wait(), 0) << run.text();
  const Json said = run.json();
  EXPECT_EQ(said["losses"].size(), 2u) << "the answer of the run inside";
  EXPECT_EQ(said["profile"]["ranks"], 2);
  EXPECT_EQ(said["nsys"]["node_ranges"], 3);
  EXPECT_EQ(said["nsys"]["ranks"], 2);
  EXPECT_EQ(said["nsys"]["report"], path("here.nsys-rep"));
  EXPECT_EQ(said["nsys"]["database"], path("here.sqlite"));
  EXPECT_THAT(run.text(), HasSubstr("3 of them nodes of the graph, of 2 ranks"));
  const std::string calls = contents("calls");
  EXPECT_THAT(calls, HasSubstr("profile -t nvtx -s none --cpuctxsw=none -f true -o " + path("here") + " "));
  EXPECT_THAT(calls, HasSubstr("export --quiet true --type sqlite --force-overwrite true -o " + path("here.sqlite") + " " + path("here.nsys-rep") + "\n"));
  EXPECT_THAT(calls, testing::Not(HasSubstr("--nsys")));
  EXPECT_FALSE(fs::exists(path("here.run.json")));
}

TEST_F(RunUnderNsys, ThePageHoldsTheRunAndWhatNsysSaw) {
  makeExport();
  for (const char* name : {"page.html", "page.md"}) {
    std::ofstream(path(name)) << "# a page of before";
    Spscope run(arguments({"--report", path(name)}), fake());
    ASSERT_EQ(run.wait(), 0) << run.text();
    const std::string page = contents(name);
    for (const char* part : {"2 of 2 steps", "Stages", "Exit code 0", "Nsight Systems", "3 of them nodes of the graph"}) EXPECT_THAT(page, HasSubstr(part)) << name;
    EXPECT_LT(page.find("2 of 2 steps"), page.find("Nsight Systems"));
    EXPECT_THAT(page, testing::Not(HasSubstr("of before")));
    if (std::string(name) == "page.html") EXPECT_TRUE(page.ends_with("</body></html>\n") && page.find("</html>") == page.rfind("</html>"));
  }
}

TEST_F(RunUnderNsys, TheExitCodeOfTheRunPassesThrough) {
  makeExport();
  Spscope run(arguments({"--inputs", path("nothing.safetensors")}), fake());
  EXPECT_EQ(run.wait(), 3) << run.text();
  EXPECT_EQ(run.json()["refusals"][0]["code"], "file-missing") << run.json();
}

TEST_F(RunUnderNsys, WithoutNsysItIsRefusedWithARemedy) {
  Spscope run(arguments(), {{"PATH", path("")}, {"SPSCOPE_NSYS", ""}});
  EXPECT_EQ(run.wait(), 3) << run.text();
  EXPECT_EQ(run.json()["refusals"][0]["code"], "nsys-missing");
  EXPECT_THAT(run.json()["refusals"][0]["remedy"].get<std::string>(), HasSubstr("run --profile records without it"));
  Spscope wrong(arguments(), {{"SPSCOPE_NSYS", path("gone")}});
  EXPECT_EQ(wrong.wait(), 3) << wrong.text();
}

TEST_F(RunUnderNsys, NoReportIsAFailureThatSaysSo) {
  Spscope run(arguments(), fake({{"FAKE_NSYS_EXPORT", path("is-not-there")}}));
  EXPECT_EQ(run.wait(), 4) << run.text();
  EXPECT_EQ(run.json()["failure"]["code"], "nsys-failed");
  EXPECT_EQ(run.json()["losses"].size(), 2u) << "the run itself was well";
}

TEST_F(RunUnderNsys, LaunchedRanksAreToldWhereNsysBelongs) {
  Spscope run(arguments({"--launched"}), fake());
  EXPECT_EQ(run.wait(), 2) << run.text();
}

TEST_F(RunUnderNsys, TheRealOneSeesEveryNode) {
  const char* real = std::getenv("SPSCOPE_NSYS_IMPORTS");
  if (real == nullptr) GTEST_SKIP() << "needs SPSCOPE_NSYS_IMPORTS: an nsys that can import what it captures";
  Spscope run({"run", kSample, "--sp", "2", "--seq", "64", "--steps", "3", "--profile", path("real.spt"), "--nsys"}, {{"SPSCOPE_NSYS", real}});
  ASSERT_EQ(run.wait(), 0) << run.text();
  const Json said = run.json();
  EXPECT_EQ(said["nsys"]["ranks"], 2);
  EXPECT_GT(said["nsys"]["node_ranges"], 1000);
  EXPECT_GT(said["nsys"]["ranges"], said["nsys"]["node_ranges"]);
}

}  // namespace
}  // namespace spscope::dist
