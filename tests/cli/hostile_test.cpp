// SPDX-License-Identifier: Apache-2.0
// What went wrong once: outputs that are no plain files, pipes nobody writes to or reads from, numbers that are none,
// folders that turn out unwritable only at the end.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
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

class HostileTest : public ::testing::Test {
 protected:
  /// Runs a shell line in which $S is the program and $T the test's own folder. A hang ends with 124.
  Answer shell(const std::string& line) const {
    const std::string whole = "S='timeout 60 " SPSCOPE_PROGRAM "'; T='" + tmp_.path() + "'; " + line;
    Answer answer;
    FILE* pipe = ::popen(("exec bash -c \"" + whole + "\"").c_str(), "r");
    std::array<char, 4096> buffer{};
    for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) answer.out.append(buffer.data(), n);
    const int status = ::pclose(pipe);
    answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return answer;
  }
  std::string at(const std::string& name) const { return tmp_.path() + "/" + name; }
  Json json() const { return Json::parse(std::ifstream(at("out.json")), nullptr, false); }
  static std::string sample() { return SPSCOPE_SOURCE_DIR "/resources/samples/llama_gqa.pt2"; }
  TempFolder tmp_;
};

TEST_F(HostileTest, NoOutputTakesThePlaceOfAnInputOrOfAnotherOutput) {
  fs::copy(sample(), at("m.pt2"));
  const auto before = fs::file_size(at("m.pt2"));
  EXPECT_EQ(shell("\\$S run \\$T/m.pt2 --steps 1 --profile \\$T/m.pt2").code, 2);
  EXPECT_EQ(shell("cd \\$T && \\$S compile m.pt2 --json ./m.pt2").code, 2);
  EXPECT_EQ(shell("\\$S verify \\$T/m.pt2 --grads=\\$T/./m.pt2").code, 2);
  EXPECT_EQ(fs::file_size(at("m.pt2")), before);
  EXPECT_EQ(shell("cd \\$T && \\$S run m.pt2 --steps 1 --profile x --json x").code, 2);
  EXPECT_FALSE(fs::exists(at("x")));
  EXPECT_EQ(shell("\\$S explain usage --json \\$T/out.json > \\$T/text").code, 0);
}

TEST_F(HostileTest, AProfileThatCannotBeWrittenIsANoAndLeavesOthersAlone) {
  fs::create_directory(at("t.ranks"));
  std::ofstream(at("t.ranks/mine")) << "kept";
  const std::string small = std::string("\\$S run ") + SPSCOPE_SOURCE_DIR + "/tests/data/zoo/nanogpt.pt2 --ranks virtual --steps 2 --profile ";
  EXPECT_EQ(shell(small + "\\$T/t > /dev/null").code, 0);
  EXPECT_TRUE(fs::exists(at("t")));
  EXPECT_TRUE(fs::exists(at("t.ranks/mine"))) << "a folder of the user's";
  for (const auto& entry : fs::directory_iterator(tmp_.path())) EXPECT_FALSE(entry.path().filename().string().starts_with("t.ranks-")) << entry.path();
  EXPECT_EQ(shell(small + "\\$T/none/t > /dev/null").code, 3);
  EXPECT_EQ(shell(small + "'' > /dev/null").code, 2);
  // Two at once into one file: both are whole, the last one stays.
  EXPECT_EQ(shell("(" + small + "\\$T/two > /dev/null; echo \\$? > \\$T/first) & " + small + "\\$T/two > /dev/null; second=\\$?; wait; test \\$second -eq 0 && grep -qx 0 \\$T/first").code, 0);
  EXPECT_EQ(shell("\\$S trace info \\$T/two > /dev/null").code, 0);
}

TEST_F(HostileTest, JsonGoesIntoAPipeAndThroughALinkWithoutReplacingThem) {
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  const Answer piped = shell("(\\$S explain usage --json \\$T/pipe >/dev/null &) ; timeout 20 cat \\$T/pipe");
  EXPECT_EQ(Json::parse(piped.out, nullptr, false)["code"], "usage");
  EXPECT_TRUE(fs::is_fifo(at("pipe")));

  std::ofstream(at("real.json")) << "old";
  fs::create_symlink(at("real.json"), at("link.json"));
  EXPECT_EQ(shell("\\$S explain usage --json \\$T/link.json >/dev/null").code, 0);
  EXPECT_TRUE(fs::is_symlink(at("link.json")));
  EXPECT_EQ(Json::parse(std::ifstream(at("real.json")), nullptr, false)["code"], "usage");
}

TEST_F(HostileTest, APipeWithoutAWriterIsNoModelAndNoWait) {
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  for (const char* command : {"inspect", "compile", "verify"}) {
    EXPECT_EQ(shell(std::string("\\$S ") + command + " \\$T/pipe --json \\$T/out.json 2>/dev/null").code, 3) << command;
    EXPECT_EQ(json()["refusals"][0]["code"], "file-unreadable");
  }
}

TEST_F(HostileTest, AReaderThatLeavesDoesNotCostTheObject) {
  const Answer answer = shell("set -o pipefail; \\$S explain --json \\$T/out.json | true");
  EXPECT_EQ(answer.code, 0) << "the pipe is the reader's business";
  EXPECT_TRUE(json().is_object());
}

TEST_F(HostileTest, NumbersThatAreNoneAreUsageErrors) {
  for (const char* flag : {"--lr nan", "--clip nan", "--timeout nan", "--lr inf", "--lr -1", "--lr 1x", "--timeout 0.01", "--seed-weights -1"}) {
    EXPECT_EQ(shell(std::string("\\$S run none.pt2 ") + flag + " --json \\$T/out.json 2>/dev/null").code, 2) << flag;
    const std::string message = json()["error"]["message"];
    EXPECT_LT(message.size(), 100U) << message;
  }
  EXPECT_EQ(shell("\\$S run none.pt2 --lr 1e-3 --clip 0 --timeout .5 2>/dev/null").code, 3) << "these are numbers";
}

TEST_F(HostileTest, AFolderThatCannotBeWrittenIsNoticedBeforeTheFirstStep) {
  if (!fs::exists(sample())) GTEST_SKIP() << "no sample in resources/samples";
  std::ofstream(at("file")) << "in the way";
  for (const char* ranks : {"virtual", "gloo"}) {
    EXPECT_EQ(shell("\\$S run " + sample() + " --seq 64 --sp 2 --save-to \\$T/file --json \\$T/out.json --ranks " + ranks + " 2>/dev/null").code, 1);
    EXPECT_EQ(json()["error"]["code"], "file-unwritable");
    EXPECT_FALSE(json().contains("losses")) << "no step was made";
  }
}

TEST_F(HostileTest, ALossThatIsNoNumberIsSaidAndNothingIsProvedFromIt) {
  if (!fs::exists(sample())) GTEST_SKIP() << "no sample in resources/samples";
  ASSERT_EQ(shell("\\$S inspect " + sample() + " --seq 64 --batch 1 --json \\$T/out.json >/dev/null").code, 0);
  Json header;
  std::string payload;
  const Json model = json();
  for (const Json& input : model["inputs"]) {
    const std::string name = input["name"];
    const std::vector<std::int64_t> values(64, name == "labels" ? -100 : 3);
    header[name] = {{"dtype", "I64"}, {"shape", {1, 64}}, {"data_offsets", {payload.size(), payload.size() + 512}}};
    payload.append(reinterpret_cast<const char*>(values.data()), 512);
  }
  const std::string text = header.dump();
  const std::uint64_t size = text.size();
  tmp_.file("in.safetensors", std::string(reinterpret_cast<const char*>(&size), 8) + text + payload);
  const std::string rest = " " + sample() + " --seq 64 --batch 1 --sp 2 --inputs \\$T/in.safetensors --json \\$T/out.json >/dev/null 2>&1";
  EXPECT_EQ(shell("\\$S verify" + rest).code, 3);
  EXPECT_EQ(json()["refusals"][0]["code"], "reference-not-finite");
  EXPECT_EQ(json()["verdict"], "refused");
  EXPECT_EQ(shell("\\$S run --ranks virtual" + rest).code, 0);
  bool said = false;
  const Json after = json();
  for (const Json& w : after["warnings"]) said = said || w["code"] == "loss-not-finite";
  EXPECT_TRUE(said);
}

}  // namespace
}  // namespace spscope
