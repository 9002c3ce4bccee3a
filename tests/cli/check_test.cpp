// SPDX-License-Identifier: Apache-2.0
// spscope check: for every rule a model that keeps it and one that breaks it, budgets that are wrong, and what CI reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/shell.h"
#include "tests/support/temp_folder.h"
#include "tests/support/zip_writer.h"

namespace spscope {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

std::string data(const std::string& name) { return std::string(SPSCOPE_SOURCE_DIR) + "/tests/data/" + name; }

class CheckTest : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    const std::string path = tmp_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  std::string read(const std::string& name) {
    std::ifstream in(tmp_.path() + "/" + name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// Standard output and error, and the exit code.
  ShellResult check(const std::string& model, const std::string& budget, const std::string& more = {}) {
    return shell(std::string(SPSCOPE_PROGRAM) + " check " + data(model) + " --budget " + file("budget.toml", budget) + " " + more + " 2>&1");
  }
  Json answer(const std::string& model, const std::string& budget, int code, const std::string& more = {}) {
    const ShellResult done = check(model, budget, more + " --json " + tmp_.path() + "/out.json");
    EXPECT_EQ(done.code, code) << done.output;
    return Json::parse(read("out.json"), nullptr, false);
  }
  TempFolder tmp_;
};

struct Fixture {
  const char *measure, *model, *more;
};

class CheckRule : public CheckTest, public ::testing::WithParamInterface<Fixture> {};

TEST_P(CheckRule, IsKeptAtItsLimitAndBrokenOneBelowWithNodeAndSource) {
  const Fixture f = GetParam();
  const std::string rule = std::string("[limits]\n") + f.measure + " = ";
  const Json broken = answer(f.model, rule + "0\n", 1, f.more);
  ASSERT_EQ(broken["rules"].size(), 1u);
  const Json& row = broken["rules"][0];
  EXPECT_EQ(row["name"], f.measure);
  EXPECT_EQ(row["limit"], 0);
  EXPECT_EQ(row["ok"], false);
  EXPECT_FALSE(row["node"].get<std::string>().empty());
  EXPECT_THAT(row["source"].get<std::string>(), HasSubstr(".py:"));
  const std::int64_t value = row["value"];
  ASSERT_GT(value, 0);
  EXPECT_EQ(broken["measures"][f.measure], value);
  EXPECT_EQ(answer(f.model, rule + std::to_string(value) + "\n", 0, f.more)["rules"][0]["ok"], true);
  EXPECT_EQ(answer(f.model, rule + std::to_string(value - 1) + "\n", 1, f.more)["rules"][0]["ok"], false);
}

INSTANTIATE_TEST_SUITE_P(Measures, CheckRule,
                         ::testing::Values(Fixture{"gathers", "stress/s_q_chunks.pt2", ""}, Fixture{"all_to_all", "stress/s_rel_bias.pt2", ""},
                                           Fixture{"all_gather", "stress/s_q_chunks.pt2", ""}, Fixture{"all_reduce", "stress/s_rel_bias.pt2", ""},
                                           Fixture{"reduce_scatter", "stress/s_token_mixer_rs.pt2", ""}, Fixture{"sent", "stress/s_rel_bias.pt2", ""},
                                           Fixture{"peak", "stress/s_rel_bias.pt2", ""}, Fixture{"saved", "stress/s_rel_bias.pt2", ""},
                                           Fixture{"largest_value", "stress/s_rel_bias.pt2", ""}, Fixture{"unrecognised_masks", "stress/s_rel_bias.pt2", ""},
                                           Fixture{"recomputed_attention", "zoo/llama_ckpt_pos.pt2", "--save budget=0"}),
                         [](const auto& fixture) { return std::string(fixture.param.measure); });

TEST_F(CheckTest, GradientsAreProvedWhereTheBudgetAsksForIt) {
  const Json json = answer("stress/s_rel_bias.pt2", "[proof]\ngradients = \"equal\"\n", 0, "--dtype float64");
  EXPECT_EQ(json["rules"][0]["name"], "gradients");
  EXPECT_EQ(json["rules"][0]["ok"], true);
  EXPECT_THAT(json["rules"][0]["value"].get<std::string>(), HasSubstr("worst gradient"));
}

TEST_F(CheckTest, GrowthIsMeasuredFromTheBaseline) {
  const std::string model = "zoo/llama_gqa_pos.pt2";
  const std::string baseline = tmp_.path() + "/baseline.json";
  ASSERT_EQ(check(model, "[limits]\ngathers = 0\n", "--json " + baseline).code, 0);
  const std::string budget = "[growth]\npeak = \"2 %\"\nsaved = 0\n";
  EXPECT_EQ(check(model, budget, "--baseline " + baseline).code, 0);

  Json smaller = Json::parse(std::ifstream(baseline));
  const std::int64_t peak = smaller["measures"]["peak"];
  smaller["measures"]["peak"] = peak * 100 / 103;  // 3 % less: now it has grown too much
  const Json json = answer(model, budget, 1, "--baseline " + file("smaller.json", smaller.dump()));
  EXPECT_EQ(json["rules"][0]["name"], "peak growth");
  EXPECT_EQ(json["rules"][0]["ok"], false);
  EXPECT_EQ(json["rules"][0]["value"], peak);
  EXPECT_EQ(json["rules"][0]["limit"].get<std::int64_t>(), static_cast<std::int64_t>(static_cast<double>(peak * 100 / 103) * 1.02 + 1e-6));
  EXPECT_EQ(json["rules"][1]["ok"], true);

  EXPECT_EQ(check(model, budget).code, 2);  // nothing to grow from
  const ShellResult other = check(model, budget, "--sp 4 --baseline " + baseline);
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.output, HasSubstr("sp 2, now 4"));
  EXPECT_THAT(check(model, budget, "--baseline " + file("no.json", "[1]")).output, HasSubstr("baseline-unreadable"));
}

TEST_F(CheckTest, JUnitAndMarkdownSayTheSame) {
  const std::string outputs = "--junit " + tmp_.path() + "/check.xml --markdown " + tmp_.path() + "/check.md";
  ASSERT_EQ(check("stress/s_rel_bias.pt2", "[limits]\ngathers = 0\npeak = \"1 KiB\"\n", outputs).code, 1);
  const std::string xml = read("check.xml");
  EXPECT_THAT(xml, HasSubstr("tests=\"2\" failures=\"1\""));
  EXPECT_THAT(xml, HasSubstr("name=\"gathers\"></testcase>"));
  EXPECT_THAT(xml, HasSubstr("<failure message=\"peak is "));
  EXPECT_THAT(read("check.md"), HasSubstr("| peak |"));
}

TEST_F(CheckTest, MarkdownToStandardOutputStandsInPlaceOfTheTextAndIsNoFile) {
  const std::string model = data("stress/s_rel_bias.pt2"), budget = file("budget.toml", "[limits]\ngathers = 0\n");
  const std::string command = "cd " + tmp_.path() + " && " + SPSCOPE_PROGRAM + " check " + model + " --budget " + budget + " --markdown - --report page.md";
  const ShellResult done = shell(command + " 2>/dev/null");
  EXPECT_EQ(done.code, 0);
  EXPECT_EQ(done.output.rfind("# spscope check ", 0), 0U) << done.output;
  EXPECT_THAT(done.output, HasSubstr("| gathers |"));
  EXPECT_THAT(done.output, ::testing::Not(HasSubstr("\n  rule "))) << "in place of the text";
  EXPECT_THAT(read("page.md"), HasSubstr("| gathers |")) << "the report has it as well";
  EXPECT_FALSE(std::filesystem::exists(tmp_.path() + "/-"));
  const ShellResult json = shell(command + " --json - 2>/dev/null");
  EXPECT_EQ(Json::parse(json.output, nullptr, false)["rules"].size(), 1U) << "standard output is the object's: " << json.output;
}

TEST_F(CheckTest, JUnitToStandardOutputStandsInPlaceOfTheTextToo) {
  const std::string model = data("stress/s_rel_bias.pt2"), budget = file("budget.toml", "[limits]\ngathers = 0\n");
  const std::string command = "cd " + tmp_.path() + " && " + SPSCOPE_PROGRAM + " check " + model + " --budget " + budget;
  const ShellResult xml = shell(command + " --junit - --markdown check.md 2>/dev/null");
  EXPECT_EQ(xml.code, 0);
  EXPECT_EQ(xml.output.rfind("<?xml", 0), 0U) << xml.output;
  EXPECT_THAT(xml.output, HasSubstr("</testsuites>\n"));
  EXPECT_THAT(xml.output, ::testing::Not(HasSubstr("keeps all"))) << "in place of the text";
  EXPECT_THAT(read("check.md"), HasSubstr("| gathers |"));
  // One of them at a time, and pages go to files only: said before anything is computed, and the object is written all the same.
  const ShellResult both = shell(command + " --junit - --markdown - 2>&1");
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.output, HasSubstr("--junit and --markdown both ask for standard output"));
  const ShellResult page = shell(command + " --report - --json out.json 2>&1");
  EXPECT_EQ(page.code, 2);
  EXPECT_THAT(page.output, HasSubstr("a page is written as .html or .md, not as -"));
  EXPECT_EQ(Json::parse(read("out.json"), nullptr, false)["error"]["code"], "usage");
  EXPECT_FALSE(std::filesystem::exists(tmp_.path() + "/-"));
}

TEST_F(CheckTest, ABudgetThatIsWrongIsNamedWithItsPlace) {
  struct Case {
    const char *budget, *code, *says;
  };
  for (const Case& c : {Case{"[limits]\ngather = 0\n", "budget-key", "did you mean gathers?"}, Case{"[limit]\ngathers = 0\n", "budget-key", "did you mean limits?"},
                        Case{"[limits]\npeak = \"24 GB\"\n", "budget-value", "budget.toml:2:8"}, Case{"[limits]\npeak = \"x GiB\"\n", "budget-value", "GiB"},
                        Case{"[limits]\ngathers = -1\n", "budget-value", "whole number"}, Case{"[limits]\ngathers = \"2 MiB\"\n", "budget-value", "whole number"},
                        Case{"[limits]\npeak = nan\n", "budget-value", "24 GiB"}, Case{"[growth]\npeak = \"2\"\n", "budget-value", "2 %"},
                        Case{"[proof]\ngradients = \"close\"\n", "budget-value", "equal"}, Case{"limits = 3\n", "budget-value", "[limits]"},
                        Case{"[limits\n", "budget-syntax", "budget.toml:1:"}, Case{"# nothing\n", "budget-empty", "everything would pass"}, Case{"", "file-empty", ""},
                        Case{"[limits]\ngathers = 0\ngathers = 1\n", "budget-syntax", "budget.toml:3:"}}) {
    const ShellResult done = check("stress/s_rel_bias.pt2", c.budget);
    EXPECT_NE(done.code, 0) << c.budget;
    EXPECT_NE(done.code, 1) << c.budget;
    EXPECT_THAT(done.output, HasSubstr(std::string("error[") + c.code + "]")) << c.budget;
    EXPECT_THAT(done.output, HasSubstr(c.says)) << c.budget;
  }
}

TEST_F(CheckTest, SP_60_what_cannot_be_sharded_is_refused) {
  EXPECT_EQ(check("zoo/vit.pt2", "[limits]\ngathers = 0\n").code, 3);
  EXPECT_EQ(check("zoo/vit.pt2", "[limits]\ngathers = 0\n", "--allow-replicated").code, 0);
}

}  // namespace
}  // namespace spscope
