// SPDX-License-Identifier: Apache-2.0
// The page of --report: whole in one file, well-formed, with what somebody needs who was not there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/temp_folder.h"
#include "tests/support/zip_writer.h"

namespace spscope {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class PageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(sample())) GTEST_SKIP() << "no sample in resources/samples";
  }
  static std::string sample() { return SPSCOPE_SOURCE_DIR "/resources/samples/llama_gqa.pt2"; }
  int run(const std::string& line) const {
    const int status = std::system(("T='" + tmp_.path() + "'; S='" SPSCOPE_PROGRAM "'; " + line).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string read(const std::string& name) const {
    std::ifstream in(tmp_.path() + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// The page of a command that must end with `code`: parsed by an XML parser, without a reference to anything outside.
  std::string page(const std::string& arguments, int code = 0) const {
    EXPECT_EQ(run("$S " + arguments + " --report $T/page.html >/dev/null 2>&1"), code) << arguments;
    EXPECT_EQ(run("python3 -c 'import sys, xml.etree.ElementTree as e; e.parse(sys.argv[1])' $T/page.html"), 0) << "not well-formed: " << arguments;
    const std::string html = read("page.html");
    EXPECT_THAT(html, Not(HasSubstr("<script")));
    EXPECT_THAT(html, Not(HasSubstr("src="))) << "one file";
    for (const char* part : {"What was asked", "Versions and machine", "libtorch 2.", "cores", "Exit code "}) EXPECT_THAT(html, HasSubstr(part)) << arguments;
    return html;
  }
  TempFolder tmp_;
};

std::size_t times(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST_F(PageTest, OfCompile) {
  const std::string html = page("compile " + sample() + " --sp 4 --threads 1");
  EXPECT_THAT(html, HasSubstr("$ spscope compile "));
  EXPECT_THAT(html, HasSubstr("<td>--sp</td><td>4</td>"));
  EXPECT_THAT(html, HasSubstr("<td>--optimizer</td><td>adamw (default)</td>"));
  EXPECT_EQ(times(html, "<polyline"), 2U) << "memory along the step, and peak against what is computed again";
  EXPECT_THAT(html, HasSubstr("taken: "));
}

TEST_F(PageTest, OfVerifyAndRunHoldThePlanToo) {
  const std::string verify = page("verify " + sample() + " --seq 64 --threads 1");
  EXPECT_THAT(verify, HasSubstr("EQUAL"));
  EXPECT_THAT(verify, HasSubstr("insert-all-to-all"));
  EXPECT_EQ(times(verify, "<polyline"), 2U);
  const std::string ran = page("run " + sample() + " --seq 64 --steps 3 --threads 1 --ranks virtual");
  EXPECT_THAT(ran, HasSubstr("Loss of each step"));
  EXPECT_THAT(ran, HasSubstr("insert-all-to-all"));
  EXPECT_EQ(times(ran, "<polyline"), 3U);
}

TEST_F(PageTest, OfARefusalAndWarningsInBothForms) {
  tmp_.file("cut <&>.pt2", "PK\x03\x04 and no more");
  const std::string html = page("compile \"$T/cut <&>.pt2\"", 3);
  EXPECT_THAT(html, HasSubstr("What went wrong"));
  EXPECT_THAT(html, HasSubstr("archive-truncated"));
  EXPECT_THAT(html, HasSubstr("cut &lt;&amp;&gt;.pt2"));
  EXPECT_THAT(html, HasSubstr("fetch the file again")) << "the remedy";
  EXPECT_EQ(run("$S compile \"$T/cut <&>.pt2\" --report $T/page.md 2>/dev/null"), 3);
  const std::string markdown = read("page.md");
  EXPECT_THAT(markdown, HasSubstr("\n## What went wrong\n"));
  EXPECT_THAT(markdown, HasSubstr("| error | archive-truncated |"));
}

TEST_F(PageTest, OfAFailedRunHoldsTheRankAndItsOutput) {
  // The second rank is killed once the first step is reported.
  tmp_.file("fail.sh",
            "\"$S\" run " + sample() + " --seq 64 --steps 1000000 --threads 1 --report $T/page.html >/dev/null 2>$T/err &\n"
            "pid=$!\nfor i in $(seq 600); do grep -q '^step ' $T/err && break; sleep 0.1; done\n"
            "set -- $(cat /proc/$pid/task/$pid/children)\nkill -9 $2\nwait $pid\n");
  ASSERT_EQ(run("export T S; bash $T/fail.sh"), 4) << read("err");
  const std::string html = read("page.html");
  EXPECT_EQ(run("python3 -c 'import sys, xml.etree.ElementTree as e; e.parse(sys.argv[1])' $T/page.html"), 0);
  EXPECT_THAT(html, HasSubstr("rank-died"));
  EXPECT_THAT(html, HasSubstr("Exit code 4"));
  EXPECT_THAT(html, HasSubstr("Versions and machine"));
}

}  // namespace
}  // namespace spscope
