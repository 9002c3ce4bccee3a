// SPDX-License-Identifier: Apache-2.0
// Ops of other libraries by a rule file: right rules shard exactly, wrong ones are refused with a counter-example. Models and
// references: tests/data/rules.py.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/session/rule_file.h"
#include "tests/support/zoo.h"

namespace spscope::zoo {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

const std::string kFolder = std::string(SPSCOPE_SOURCE_DIR) + "/tests/data/rules/";

std::string fileText(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

ir::OpRulesRef rulesOf(const std::string& text) {
  auto rules = session::parseRules("rules.toml", text);
  EXPECT_TRUE(rules) << rules.error().format();
  return rules ? *rules : nullptr;
}

/// The file of the tests with one text in it replaced by another.
ir::OpRulesRef rulesWith(const std::string& what, const std::string& with) {
  std::string text = fileText(kFolder + "mylib.toml");
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  if (at != std::string::npos) text.replace(at, what.size(), with);
  return rulesOf(text);
}

Case ruled(const std::string& name, int ranks, ir::OpRulesRef rules) {
  Case out;
  out.path = kFolder + name + ".pt2";
  out.inputs = {kFolder + name + ".inputs.safetensors"};
  out.sp = ranks;
  out.rules = std::move(rules);
  return out;
}




class Rules : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(Rules, GiveTheReference) {
  const auto& [name, ranks] = GetParam();
  const auto verified = verify(ruled(name, ranks, rulesOf(fileText(kFolder + "mylib.toml"))));
  ASSERT_TRUE(verified) << verified.error().format();
  EXPECT_TRUE(verified->outcome.equal) << verified->outcome.gradients.worst;
  const Distance far = distance(verified->outcome.loss, verified->gradients, Json::parse(std::ifstream(kFolder + name + ".ref.json")), "f64");
  EXPECT_GT(far.gradients, 0);
  EXPECT_LE(far.loss, 1e-10);
  EXPECT_LE(far.gradient, 1e-8) << far.worst;
  EXPECT_TRUE(verified->outcome.compiled.sharded);
  EXPECT_THAT(verified->warnings, testing::Not(Contains("rule-unchecked")));
  std::string list;
  for (const auto& g : verified->outcome.compiled.figures.gathers) list += "\n  " + g.node + ": " + g.reason;
  EXPECT_TRUE(verified->outcome.compiled.figures.gathers.empty()) << list;
}

INSTANTIATE_TEST_SUITE_P(All, Rules, testing::Combine(testing::Values("attend", "attend_odd", "energy", "scan", "logsum", "glu"), testing::Values(2, 3, 4)),
                         nameWithRanks);

// Attention of another library: what must be whole is the sequence, so q, k, v go to the heads and the output comes back.
TEST(RuleFile, AttentionOfAnotherLibraryBecomesUlysses) {
  const auto verified = verify(ruled("attend", 4, rulesOf(fileText(kFolder + "mylib.toml"))));
  ASSERT_TRUE(verified) << verified.error().format();
  std::int64_t exchanges = 0;
  for (const auto& c : verified->outcome.compiled.figures.collectives)
    if (c.kind == "all_to_all") exchanges = c.count;
  EXPECT_EQ(exchanges, 8);  // 4 in the forward, 4 in the backward
}

// A mixture of experts whose grouped product exists in Python only runs by the rule file that comes with the program.
TEST(RuleFile, GroupedExpertsOfTransformersGiveTheReference) {
  const auto rules = session::readRules(std::string(SPSCOPE_SOURCE_DIR) + "/resources/rules/transformers.toml");
  ASSERT_TRUE(rules) << rules.error().format();
  for (const int ranks : {2, 4}) {
    Case what = caseOf("mixtral_grouped_pos", ranks);
    what.rules = *rules;
    const auto verified = verify(what);
    ASSERT_TRUE(verified) << verified.error().format();
    expectEqual(*verified);
    const Distance far = distance(verified->outcome.loss, verified->gradients, reference("mixtral_grouped_pos"), "f64");
    EXPECT_GT(far.gradients, 0);
    EXPECT_LE(far.loss, 1e-10);
    EXPECT_LE(far.gradient, 1e-8) << far.worst;
  }
}

TEST(RuleFile, WithoutOneTheOpIsNamedInTheRefusal) {
  const auto verified = verify(ruled("scan", 2, nullptr));
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().code, "op-unknown");
  EXPECT_THAT(verified.error().message, HasSubstr("mylib.scan"));
  EXPECT_THAT(verified.error().format(), HasSubstr("--rules"));
}

/// What contradicts the rules on two ranks.
Error refusal(const std::string& model, ir::OpRulesRef rules) {
  const auto verified = verify(ruled(model, 2, std::move(rules)));
  EXPECT_FALSE(verified);
  return verified ? Error{} : verified.error();
}

TEST(RuleFile, ACumulativeOpThatIsSaidToBeElementwiseIsRefusedWithACounterExample) {
  const Error e = refusal("scan", rulesWith("ordered = [\"s\"]\nequivalent = \"\"\"\ndef scan", "equivalent = \"\"\"\ndef scan"));
  EXPECT_EQ(e.code, "rule-contradicted");
  EXPECT_EQ(e.outcome, Outcome::kRefused);
  // Rank 0 holds the first element, so the second one is the first that is wrong.
  EXPECT_THAT(e.message, AllOf(HasSubstr("mylib::scan"), HasSubstr("[2, 24, 16]"), HasSubstr("along s"), HasSubstr("result 1 at [0, 1, 0]"), HasSubstr("on rank 1")));
  EXPECT_EQ(e.node, "%scan");
  EXPECT_THAT(e.source, HasSubstr("rules.toml:"));
}

TEST(RuleFile, ADimensionThatTurnsIntoAnotherIsRefused) {
  const Error e = refusal("attend", rulesWith("whole = [\"d\"]                                  # one half", "# one half"));
  EXPECT_EQ(e.code, "rule-contradicted");
  EXPECT_THAT(e.message, AllOf(HasSubstr("mylib::fused_rope"), HasSubstr("along d")));
}

TEST(RuleFile, AnOpThatDoesNotAddUpIsRefused) {
  const Error e = refusal("logsum", rulesWith("whole = [\"s\"]\nequivalent = \"\"\"\ndef logsum", "sum = [\"s\"]\nequivalent = \"\"\"\ndef logsum"));
  EXPECT_EQ(e.code, "rule-contradicted");
  EXPECT_THAT(e.message, AllOf(HasSubstr("mylib::logsum"), HasSubstr("add up to")));
}

TEST(RuleFile, AKernelOfLibtorchIsPutToTheTestToo) {
  const Error e = refusal("glu", rulesWith("dims = \"... d -> ... e\"\nwhole = [\"d\"]", "dims = \"... d -> ... d\""));
  EXPECT_EQ(e.code, "rule-mismatch");  // 32 channels become 16
  const Error f = refusal("glu", rulesWith("\"... d -> ... e\"\nwhole = [\"d\"]", "\"b s d -> b d e\"\nwhole = [\"b\"]\nsum = [\"s\"]"));
  EXPECT_EQ(f.code, "rule-mismatch");
}

TEST(RuleFile, OtherTensorsThanTheOpHasAreRefused) {
  const Error e = refusal("attend", rulesWith("b h s d, s d, s d -> b h s d", "b h s d, s d -> b h s d"));
  EXPECT_EQ(e.code, "rule-mismatch");
  EXPECT_THAT(e.message, HasSubstr("3 tensors"));
}

TEST(RuleFile, ABuiltInRuleIsNotReplaced) {
  const Error e = refusal("scan", rulesOf(fileText(kFolder + "mylib.toml") + "[[op]]\nname = \"aten::linear\"\ndims = \"b s d, e d, e -> b s e\"\nwhole = [\"d\"]\n"));
  EXPECT_EQ(e.code, "rule-built-in");
}

TEST(RuleFile, AnEquivalentThatIsNoFunctionIsRefusedWithItsLine) {
  const Error e = refusal("scan", rulesWith("return x.cumsum(1) * 0.1", "return y.cumsum(1) * 0.1"));
  EXPECT_EQ(e.code, "rule-equivalent");
  EXPECT_THAT(e.message, AllOf(HasSubstr("mylib::scan"), HasSubstr("y")));
}

/// Errors of reading, which no model is needed for.
TEST(RuleFile, BadFilesAreRefusedWithTheirPlace) {
  struct {
    const char* text;
    const char* code;
    const char* says;
    const char* place;
  } cases[] = {
      {"[[op]]\nname = ", "rule-syntax", "", "bad.toml:2"},
      {"[op]\nname = \"a::b\"", "rule-key", "'op'", "bad.toml:1"},
      {"title = 1", "rule-key", "'title'", "bad.toml:1"},
      {"", "rule-value", "no rule", ""},
      {"op = [1]", "rule-value", "[[op]]", "bad.toml:1"},
      {"[[op]]\ndims = \"s -> s\"", "rule-value", "no name", "bad.toml:1"},
      {"[[op]]\nname = \"a::b\"", "rule-value", "no dims", "bad.toml:1"},
      {"[[op]]\nname = 7\ndims = \"s -> s\"", "rule-value", "name is no text", "bad.toml:2"},
      {"[[op]]\nname = \"b\"\ndims = \"s -> s\"", "rule-value", "library::op", "bad.toml:2"},
      {"[[op]]\nname = \"sp::vary\"\ndims = \"s -> s\"", "rule-value", "own", "bad.toml:2"},
      {"[[op]]\nname = \"a::b\"\ndims = \"s -> s\"\nhole = [\"s\"]", "rule-key", "'hole'", "bad.toml:4"},
      {"[[op]]\nname = \"a::b\"\ndims = \"s -> s\"\nwhole = \"s\"", "rule-value", "whole is no list", "bad.toml:4"},
      {"[[op]]\nname = \"a::b\"\ndims = \"s -> s\"\nwhole = [1]", "rule-value", "whole is no list", "bad.toml:4"},
      {"[[op]]\nname = \"a::b\"\ndims = \"s d\"", "rule-dims", "->", "bad.toml:3"},
      {"[[op]]\nname = \"a::b\"\ndims = \"s 7x -> s\"", "rule-dims", "'7x'", "bad.toml:3"},
      {"[[op]]\nname = \"a::b\"\ndims = \"s s -> s\"", "rule-dims", "twice", "bad.toml:3"},
      {"[[op]]\nname = \"a::b\"\ndims = \"s ... -> s\"", "rule-dims", "first", "bad.toml:3"},
      {"[[op]]\nname = \"a::b\"\ndims = \"s d -> s\"", "rule-dims", "lacks the dimension d", "bad.toml:3"},
      {"[[op]]\nname = \"a::b\"\ndims = \"s -> s\"\nsum = [\"s\"]", "rule-dims", "nothing adds up", "bad.toml:3"},
      {"[[op]]\nname = \"a::b\"\ndims = \"s -> s\"\nordered = [\"t\"]", "rule-dims", "dimension t", "bad.toml:3"},
      {"[[op]]\nname = \"a::b\"\ndims = \"s d -> s\"\nsum = [\"d\"]\nwhole = [\"d\"]", "rule-dims", "whole and add up", "bad.toml:3"},
      {"[[op]]\nname = \"a::b\"\ndims = \"s -> s\"\n[[op]]\nname = \"a::b.default\"\ndims = \"t -> t\"", "rule-value", "already", "bad.toml:4"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    const auto rules = session::parseRules("bad.toml", c.text);
    ASSERT_FALSE(rules);
    EXPECT_EQ(rules.error().code, c.code);
    EXPECT_EQ(rules.error().outcome, Outcome::kUsage);
    EXPECT_THAT(rules.error().message, HasSubstr(c.says));
    EXPECT_THAT(rules.error().source, testing::StartsWith(c.place));
  }
}

}  // namespace
}  // namespace spscope::zoo
