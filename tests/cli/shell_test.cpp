// SPDX-License-Identifier: Apache-2.0
// What the program says of itself: manual pages, completion scripts (run in the shells that are here), the log as JSON.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "tests/support/temp_folder.h"
#include "tests/support/zip_writer.h"

namespace spscope {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Answer {
  int code = -1;
  std::string out;
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::istringstream in(out);
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }
};

class ShellTest : public ::testing::Test {
 protected:
  /// Runs a script by `interpreter`; $S is the program, $T the test's own folder.
  Answer script(const std::string& text, const std::string& interpreter = "bash") const {
    const std::string file = tmp_.file("script", text);
    Answer answer;
    FILE* pipe = ::popen(("S='" SPSCOPE_PROGRAM "' T='" + tmp_.path() + "' timeout 120 " + interpreter + " " + file).c_str(), "r");
    std::array<char, 4096> buffer{};
    for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) answer.out.append(buffer.data(), n);
    const int status = ::pclose(pipe);
    answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return answer;
  }
  /// What bash offers for these words, of which the last is being typed.
  std::vector<std::string> bash(const std::string& words) const {
    return script("eval \"$(\"$S\" completion bash)\"\nCOMP_WORDS=(spscope " + words +
                  ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_spscope\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n").lines();
  }
  static bool has(const std::string& program) { return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0; }
  Json help(const std::string& command) const { return Json::parse(script("\"$S\" help " + command + " --json - 2>/dev/null").out, nullptr, false); }
  TempFolder tmp_;
};

TEST_F(ShellTest, EveryCommandHasAManualPage) {
  const Json all = help("");
  ASSERT_GE(all["commands"].size(), 9U);
  for (const Json& command : all["commands"]) {
    const std::string name = command["name"];
    const Answer page = script("\"$S\" help " + name);
    EXPECT_EQ(page.code, 0);
    EXPECT_EQ(page.out, script("\"$S\" " + name + " --help").out);
    for (const char* section : {"NAME\n    spscope ", "\nSYNOPSIS\n    spscope ", "\nDESCRIPTION\n", "\nEXAMPLES\n", "\nEXIT CODES\n", "\nENVIRONMENT\n", "\nOUTPUT OPTIONS\n"})
      EXPECT_THAT(page.out, HasSubstr(section)) << name;
    for (const Json& option : command["options"]) {
      EXPECT_THAT(page.out, HasSubstr(option["name"].get<std::string>())) << name;
      EXPECT_NE(option["text"], "") << name << " " << option["name"];
    }
    bool examples = false;
    for (const std::string& line : page.lines()) {
      examples = line == "EXAMPLES" || (examples && line != "EXIT CODES");
      EXPECT_TRUE(examples || line.size() <= 110) << name << ": " << line;
    }
  }
  EXPECT_THAT(script("\"$S\" help compile").out, HasSubstr("\n    --seq N          "));
  EXPECT_THAT(script("\"$S\" --help").out, HasSubstr("\nCOMMANDS\n    inspect "));
}

TEST_F(ShellTest, HelpOfWhatIsNotThereIsAUsageErrorWithAnObject) {
  const Answer answer = script("\"$S\" help complie --json - 2>/dev/null");
  EXPECT_EQ(answer.code, 2);
  const Json j = Json::parse(answer.out, nullptr, false);
  EXPECT_THAT(j["error"]["message"].get<std::string>(), HasSubstr("did you mean compile?"));
  EXPECT_EQ(script("\"$S\" completion tcsh --json - 2>/dev/null").code, 2);
}

TEST_F(ShellTest, UsageErrorsAreSaidInWordsForPeople) {
  const auto message = [&](const std::string& arguments) {
    const Answer answer = script("\"$S\" " + arguments + " 2>/dev/null");
    EXPECT_EQ(answer.code, 2) << arguments;
    return Json::parse(answer.out, nullptr, false)["error"]["message"].get<std::string>();
  };
  EXPECT_EQ(message("--json -"), "no command is given");
  EXPECT_EQ(message("--sp 2 --json -"), "--sp stands where a command is expected");
  EXPECT_EQ(message("compile --json -"), "MODEL is required");
  EXPECT_EQ(message("compile m.pt2 --bucket -1 --json -"), "--bucket: -1 is no number from 0 to 1000000");
  EXPECT_EQ(message("compile m.pt2 --sp abc --json -"), "--sp: abc is no number that it takes");
  EXPECT_EQ(message("compile m.pt2 more --json -"), "more is one argument too many");
  EXPECT_EQ(message("compile m.pt2 --json - --sp"), "--sp needs a value");
}

TEST_F(ShellTest, BashCompletes) {
  EXPECT_THAT(bash("compi"), ElementsAre("compile"));
  EXPECT_THAT(bash("compile --sa"), ElementsAre("--save"));
  EXPECT_THAT(bash("run model.pt2 --ranks ''"), ElementsAre("virtual", "gloo", "nccl"));
  EXPECT_THAT(bash("run --ranks = g"), ElementsAre("gloo")) << "--ranks=g";
  EXPECT_THAT(bash("run --ranks ="), ElementsAre("virtual", "gloo", "nccl"));
  EXPECT_THAT(bash("explain file-un"), ElementsAre("file-unreadable", "file-unwritable"));
  EXPECT_THAT(bash("help doc"), ElementsAre("doctor"));
  EXPECT_THAT(bash("completion ''"), ElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(bash("compile m.pt2 --communication ''"), ElementsAre("overlap", "fused", "plain"));
  EXPECT_THAT(bash("trace ''"), ElementsAre("info", "report", "export"));
  EXPECT_THAT(bash("trace export a.spt --to ''"), ElementsAre("nsys", "chrome", "csv", "html"));
  EXPECT_THAT(bash("trace --to csv ''"), ElementsAre("info", "report", "export")) << "the value of an option is no argument";
  std::filesystem::create_directory(tmp_.path() + "/folder one");
  std::ofstream(tmp_.path() + "/model one.pt2") << "x";
  EXPECT_THAT(bash("compile \"$T/mod\""), ElementsAre(tmp_.path() + "/model one.pt2")) << "a model is a file";
  EXPECT_THAT(bash("trace report \"$T/mod\""), ElementsAre(tmp_.path() + "/model one.pt2")) << "then files";
  EXPECT_THAT(bash("trace report a.spt --top 3 b.spt \"$T/mod\""), ElementsAre(tmp_.path() + "/model one.pt2")) << "as many as there are";
  EXPECT_THAT(bash("trace export a.spt -o \"$T/mod\""), ElementsAre(tmp_.path() + "/model one.pt2"));
  EXPECT_THAT(bash("compile --stages \"$T/\""), ElementsAre(tmp_.path() + "/folder one")) << "stages go into a folder";
  EXPECT_THAT(bash("compile --seq ''"), ElementsAre("")) << "a number: nothing to offer";
}

TEST_F(ShellTest, EveryOptionStandsInEveryScript) {
  const Json all = help("");
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string text = script(std::string("\"$S\" completion ") + shell).out;
    for (const Json& command : all["commands"]) {
      EXPECT_THAT(text, HasSubstr(command["name"].get<std::string>()));
      for (const Json& option : command["options"]) {
        const std::string name = option["name"];
        if (name.compare(0, 2, "--") == 0) {
          EXPECT_THAT(text, HasSubstr(std::string(shell) == "fish" ? "-l " + name.substr(2) : name)) << shell << " " << command["name"];
        }
      }
    }
  }
}

TEST_F(ShellTest, ZshTakesItsScript) {
  if (!has("zsh")) GTEST_SKIP() << "no zsh here";
  // Loaded after compinit; then what _arguments is handed for `compile` is looked at.
  const Answer answer = script(
      "autoload -Uz compinit && compinit -D -d $T/dump\neval \"$($S completion zsh)\" || exit 1\n[[ $_comps[spscope] == _spscope ]] || exit 2\n"
      "_describe() { print -l -- ${(P)2} }\n_arguments() { [[ $1 == -C ]] && return; print -l -- $@ }\n"
      "state=command; local_state() { local words=(compile); eval \"${functions[_spscope]/local state/}\" }\n"
      "local_state | grep -c '^compile:'\nstate=argument; local_state | grep -c -- '--save='\n", "zsh -f");
  EXPECT_EQ(answer.code, 0) << answer.out;
  EXPECT_THAT(answer.lines(), ElementsAre("1", "1"));
}

TEST_F(ShellTest, FishCompletes) {
  if (!has("fish")) GTEST_SKIP() << "no fish here";
  const auto offered = [&](const std::string& line) {
    std::vector<std::string> words;
    for (const std::string& l : script("$S completion fish | source\ncomplete -C '" + line + "'\n", "env HOME=" + tmp_.path() + " fish --private").lines())
      words.push_back(l.substr(0, l.find('\t')));
    return words;
  };
  EXPECT_THAT(offered("spscope compi"), ElementsAre("compile"));
  EXPECT_THAT(offered("spscope compile --sav"), ElementsAre("--save"));
  EXPECT_THAT(offered("spscope run --ranks "), ::testing::UnorderedElementsAre("virtual", "gloo", "nccl"));
  EXPECT_THAT(offered("spscope trace re"), ElementsAre("report"));
  EXPECT_THAT(offered("spscope trace export --to c"), ::testing::UnorderedElementsAre("chrome", "csv"));
  EXPECT_THAT(offered("spscope compile --communication "), ::testing::UnorderedElementsAre("overlap", "fused", "plain"));
  EXPECT_THAT(offered("spscope explain archive-tr"), ElementsAre("archive-truncated"));
}

TEST_F(ShellTest, TheLogAsJsonHoldsNothingElse) {
  const std::string sample = SPSCOPE_SOURCE_DIR "/resources/samples/llama_gqa.pt2";
  if (!std::filesystem::exists(sample)) GTEST_SKIP() << "no sample in resources/samples";
  const std::string flags = " --log-format json --log-level info 2>&1 >/dev/null";
  std::vector<std::string> stages;
  for (const std::string& line : script("\"$S\" compile " + sample + " --threads 1" + flags).lines()) {
    const Json j = Json::parse(line, nullptr, false);
    ASSERT_TRUE(j.is_object()) << line;
    for (const char* field : {"time", "level", "rank", "category", "code", "message"}) EXPECT_TRUE(j.contains(field)) << line;
    const std::string message = j["message"];
    if (message.compare(0, 6, "stage ") == 0) stages.push_back(message);
  }
  EXPECT_GE(stages.size(), 8U);
  int steps = 0;
  for (const std::string& line : script("\"$S\" run " + sample + " --seq 64 --steps 2 --threads 1" + flags).lines()) {
    const Json j = Json::parse(line, nullptr, false);
    ASSERT_TRUE(j.is_object()) << line;
    steps += j["category"] == "run" && j["message"].get<std::string>().compare(0, 5, "step ") == 0;
  }
  EXPECT_EQ(steps, 2);
}

TEST_F(ShellTest, AnErrorIsALineOfTheJsonLog) {
  tmp_.file("cut.pt2", "PK\x03\x04 and no more");
  const std::vector<std::string> lines = script("\"$S\" inspect $T/cut.pt2 --log-format json 2>&1").lines();
  ASSERT_EQ(lines.size(), 1U);
  const Json j = Json::parse(lines[0], nullptr, false);
  EXPECT_EQ(j["level"], "error");
  EXPECT_EQ(j["code"], "archive-truncated");
  EXPECT_EQ(j["rank"], nullptr);
  EXPECT_EQ(script("\"$S\" doctor --log-format xml 2>/dev/null").code, 2);
}

}  // namespace
}  // namespace spscope
