// SPDX-License-Identifier: Apache-2.0
// The program as a script sees it: exit codes, the JSON object on every one of them, what goes to which stream.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/temp_folder.h"
#include "tests/support/zip_writer.h"

namespace spscope {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Answer {
  int code = -1;
  std::string out;
};

/// Runs the program; `redirect` is shell text ("2>&1", "2>/dev/null").
Answer spscope(const std::string& arguments, const std::string& redirect = "2>/dev/null") {
  Answer answer;
  FILE* pipe = ::popen((std::string(SPSCOPE_PROGRAM) + " " + arguments + " " + redirect).c_str(), "r");
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) answer.out.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return answer;
}

std::string zoo(const std::string& file) { return std::string(SPSCOPE_SOURCE_DIR) + "/../shared/zoo/" + file; }
std::string sample() { return std::string(SPSCOPE_SOURCE_DIR) + "/resources/samples/llama_gqa.pt2"; }

class CommandTest : public ::testing::Test {
 protected:
  Json json(const std::string& name = "out.json") {
    std::ifstream in(tmp_.path() + "/" + name);
    EXPECT_TRUE(in.good()) << "no JSON object was written";
    return Json::parse(in, nullptr, false);
  }
  std::string jsonFlag() const { return " --json " + tmp_.path() + "/out.json"; }
  TempFolder tmp_;
};

TEST_F(CommandTest, EveryExitCodeLeavesAnObject) {
  EXPECT_EQ(spscope("explain archive-truncated" + jsonFlag()).code, 0);
  Json j = json();
  EXPECT_EQ(j["code"], "archive-truncated");
  EXPECT_FALSE(j["remedy"].get<std::string>().empty());
  EXPECT_TRUE(j.contains("version") && j.contains("model") && j.contains("seconds") && j["warnings"].is_array());

  EXPECT_EQ(spscope("inspect --nonsense" + jsonFlag()).code, 2);
  EXPECT_EQ(json()["error"]["code"], "usage");
  EXPECT_EQ(spscope("inspct x" + jsonFlag()).code, 2);
  EXPECT_NE(json()["error"]["message"].get<std::string>().find("did you mean inspect"), std::string::npos);
  EXPECT_EQ(spscope("explain no-such-code" + jsonFlag()).code, 2);

  EXPECT_EQ(spscope("inspect " + tmp_.file("cut.pt2", "PK\x03\x04 and no more") + jsonFlag()).code, 3);
  j = json();
  EXPECT_EQ(j["refusals"][0]["code"], "archive-truncated");
  EXPECT_EQ(j["model"], tmp_.path() + "/cut.pt2");
  for (const char* field : {"message", "node", "source", "legal"}) EXPECT_TRUE(j["refusals"][0].contains(field));

  testing::ZipWriter zip;
  zip.add("m/models/model.json", "{}");
  std::string bytes = zip.bytes();
  bytes[bytes.find("{}")] = 'X';
  EXPECT_EQ(spscope("compile " + tmp_.file("bad.pt2", bytes) + jsonFlag()).code, 3);
  EXPECT_EQ(json()["refusals"][0]["code"], "json-syntax");
}

TEST_F(CommandTest, JsonOnStandardOutputMovesTheTextAway) {
  const Answer both = spscope("explain usage --json -");
  EXPECT_EQ(both.code, 0);
  const Json j = Json::parse(both.out, nullptr, false);
  ASSERT_FALSE(j.is_discarded()) << "standard output holds nothing but the object: " << both.out;
  EXPECT_EQ(j["code"], "usage");
  const Answer text = spscope("explain usage");
  EXPECT_NE(text.out.find("Remedy: "), std::string::npos);
}

TEST_F(CommandTest, AnObjectThatCannotBeWrittenIsAFailedAction) {
  EXPECT_EQ(spscope("explain usage --json " + tmp_.path() + "/no/such/folder/x.json").code, 1);
}

TEST_F(CommandTest, VersionAndHelp) {
  EXPECT_EQ(spscope("--version").out.substr(0, 8), "spscope ");
  const Answer help = spscope("compile --help");
  EXPECT_EQ(help.code, 0);
  // A manual page, whose sections ShellTest names: it says what the command is, and shows it at work.
  EXPECT_EQ(help.out.find("NAME\n    spscope compile"), 0U);
  EXPECT_NE(help.out.find("\nEXAMPLES\n    spscope compile "), std::string::npos) << help.out;
  EXPECT_EQ(spscope("").code, 2);
}

TEST_F(CommandTest, InspectShowsWhatTheSampleHolds) {
  if (!fs::exists(sample())) GTEST_SKIP() << "no sample in resources/samples";
  ASSERT_EQ(spscope("inspect " + sample() + " --check" + jsonFlag()).code, 0);
  const Json j = json();
  EXPECT_EQ(j["checked"], true);
  EXPECT_GT(j["nodes"].get<int>(), 50);
  EXPECT_GE(j["attention"].size(), 1U);
  EXPECT_LT(j["attention"][0]["kv_heads"].get<int>(), j["attention"][0]["heads"].get<int>()) << "grouped queries";
  EXPECT_EQ(j["parameter_bytes"].get<std::int64_t>() % 2, 0);
  EXPECT_EQ(j["sequence"]["dim"], 1);
  std::int64_t ops = 0;
  for (const auto& [op, count] : j["ops"].items()) ops += count.get<std::int64_t>();
  EXPECT_EQ(ops, j["nodes"].get<std::int64_t>());
}

TEST_F(CommandTest, StagesCanBeWrittenComparedAndCompiledAgain) {
  if (!fs::exists(sample())) GTEST_SKIP() << "no sample in resources/samples";
  const std::string stages = tmp_.path() + "/stages";
  ASSERT_EQ(spscope("compile " + sample() + " --sp 2 --threads 1 --stages " + stages + jsonFlag()).code, 0);
  const Json plan = json();
  ASSERT_GE(plan["files"].size(), 8U);
  EXPECT_EQ(plan["files"].size(), plan["stages"].size());
  EXPECT_EQ(plan["expected_all_to_all"], plan["inserted_all_to_all"]);
  std::int64_t classes = 0;
  for (const char* c : {"parameters", "gradients", "optimizer", "activations", "temporaries", "communication", "workspace"})
    classes += plan["memory"][c].get<std::int64_t>();
  EXPECT_EQ(classes, plan["memory"]["peak"].get<std::int64_t>()) << "the classes sum to the peak";

  const std::string first = plan["files"][0], second = plan["files"].back();
  ASSERT_EQ(spscope("diff " + first + " " + second + jsonFlag()).code, 0);
  const Json diff = json();
  EXPECT_GT(diff["added"].size() + diff["changed"].size() + diff["removed"].size(), 0U);
  EXPECT_EQ(spscope("diff " + first + " " + second + " --exit-code").code, 1);
  EXPECT_EQ(spscope("diff " + first + " " + first + " --exit-code").code, 0);
  EXPECT_EQ(spscope("diff " + first + " " + sample() + " --exit-code").code, 0) << "stage 0 is the file's graph";

  ASSERT_EQ(spscope("inspect " + second + jsonFlag()).code, 0);
  EXPECT_EQ(json()["header"]["sp"], "2");
  ASSERT_EQ(spscope("compile " + second + " --sp 2 --threads 1" + jsonFlag()).code, 0) << "a stage stands for its model";
  EXPECT_EQ(json()["plan_hash"], plan["plan_hash"]);

  std::ifstream in(first);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::size_t at = text.find("source-hash: ");
  ASSERT_NE(at, std::string::npos);
  text[at + 13] = text[at + 13] == '0' ? '1' : '0';
  EXPECT_EQ(spscope("compile " + tmp_.file("changed.txt", text) + jsonFlag()).code, 3);
  EXPECT_EQ(json()["refusals"][0]["code"], "stage-source");
}

TEST_F(CommandTest, TheEightBillionParameterGraphCompilesInTime) {
  if (!fs::exists(zoo("big/llama3_8b.pt2"))) GTEST_SKIP() << "no models beside the source tree (../shared/zoo)";
  ASSERT_EQ(spscope("compile " + zoo("big/llama3_8b.pt2") + " --sp 8 --threads 1" + jsonFlag()).code, 0);
  const Json j = json();
  std::printf("llama3_8b.pt2 --sp 8: %.3f s from opening to the scheduled graph\n", j["seconds"].get<double>());
  EXPECT_EQ(j["inserted_all_to_all"], 128) << "four for each of 32 layers";
  EXPECT_LT(j["seconds"].get<double>(), 10.0) << "a loaded machine may be slow, but not this slow";
}

}  // namespace
}  // namespace spscope
