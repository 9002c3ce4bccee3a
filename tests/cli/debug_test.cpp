// SPDX-License-Identifier: Apache-2.0
// spscope debug as scripts use it: commands from a file or a pipe, one JSON object a line, exit codes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "tests/support/processes.h"
#include "tests/support/temp_folder.h"

namespace spscope {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

class DebugCommand : public ::testing::Test {
 protected:
  struct Answer {
    int code = -1;
    std::string out;
    std::vector<Json> lines;  ///< of standard output, where they are objects
  };
  /// `commands` is the script; `how` stands behind the model.
  Answer debug(const std::string& commands, const std::string& how, bool by_pipe = false) const {
    const std::string script = tmp_.file("commands", commands);
    const std::string sample = std::string(SPSCOPE_SOURCE_DIR) + "/resources/samples/llama_gqa.pt2 --seq 64 --threads 1";
    const std::string given = by_pipe ? " < " + script : " --commands " + script;
    Answer answer;
    FILE* pipe = ::popen(("'" SPSCOPE_PROGRAM "' debug " + sample + " " + how + given + " 2>" + tmp_.path() + "/err").c_str(), "r");
    std::array<char, 4096> buffer{};
    for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) answer.out.append(buffer.data(), n);
    const int status = ::pclose(pipe);
    answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    std::istringstream in(answer.out);
    for (std::string line; std::getline(in, line);) answer.lines.push_back(Json::parse(line, nullptr, false));
    return answer;
  }
  TempFolder tmp_;
};

TEST_F(DebugCommand, EachCommandIsAnObjectOfOneLine) {
  const std::string script = "# to the first exchange, and a look at what it brings\n"
                             "break collective all_to_all\n\ncontinue\nwhere\nprint %input_ids\ndiff %input_ids\nwhy %input_ids\nback 2\nhelp step\n";
  for (const bool by_pipe : {false, true}) {
    const Answer a = debug(script, "--sp 2 --json -", by_pipe);
    EXPECT_EQ(a.code, 0) << a.out;
    ASSERT_EQ(a.lines.size(), 9U) << a.out;
    for (const Json& line : a.lines) ASSERT_TRUE(line.is_object());
    EXPECT_EQ(a.lines[0]["breakpoints"][0]["at"], "collective all_to_all");
    EXPECT_EQ(a.lines[1]["command"], "continue");
    EXPECT_EQ(a.lines[1]["reason"], "breakpoint");
    ASSERT_EQ(a.lines[1]["stopped"].size(), 2U);
    EXPECT_EQ(a.lines[1]["stopped"][1]["rank"], 1);
    EXPECT_EQ(a.lines[1]["stopped"][1]["node"], a.lines[1]["node"]);
    EXPECT_EQ(a.lines[1]["stopped"][0]["reason"], "breakpoint");
    EXPECT_EQ(a.lines[3]["value"]["ranks"].size(), 2U);
    EXPECT_EQ(a.lines[3]["value"]["nan"], 0);
    EXPECT_TRUE(a.lines[3]["value"].contains("placement"));
    EXPECT_EQ(a.lines[4]["difference"]["equal"], true);
    EXPECT_FALSE(a.lines[5]["why"].empty());
    EXPECT_EQ(a.lines[6]["moves"], -2);
    EXPECT_EQ(a.lines[7]["help"][0]["name"], "step");
    const Json& last = a.lines[8];
    EXPECT_EQ(last["command"], "debug");
    EXPECT_EQ(last["ranks"], 2);
    EXPECT_TRUE(last["seconds"].is_number());
    EXPECT_TRUE(last["warnings"].is_array());
  }
}

TEST_F(DebugCommand, QuestionsAboutTheWholeStepAreObjects) {
  const Answer a = debug("trouble\ncurve\ntwin float64\nuntil phase backward\ndiff %input_ids\nwhatif save all\nwhatif %input_ids shard 5\nfind stage shard-sequence\n", "--sp 2 --dtype bfloat16 --json -");
  ASSERT_EQ(a.code, 0) << a.out;
  ASSERT_EQ(a.lines.size(), 9U) << a.out;
  EXPECT_TRUE(a.lines[0]["trouble"]["first"].is_null()) << a.lines[0];
  EXPECT_GT(a.lines[0]["trouble"]["values"], 100);
  const Json& curve = a.lines[1]["curve"];
  EXPECT_EQ(curve["dtype"], "bfloat16");
  ASSERT_GT(curve["points"].size(), 50U);
  EXPECT_EQ(curve["points"][0]["rank_error"].size(), 2U);
  for (const char* field : {"node", "op", "value", "error", "error_before", "growth", "saturated", "flushed", "subnormal", "elements"}) EXPECT_TRUE(curve["points"][0].contains(field)) << field;
  for (const Json& place : curve["losers"]) EXPECT_LT(place.get<std::size_t>(), curve["points"].size());
  EXPECT_THAT(a.lines[2]["said"].get<std::string>(), HasSubstr("float64"));
  EXPECT_THAT(a.lines[4]["difference"]["with"].get<std::string>(), HasSubstr("float64"));
  const Json& what_if = a.lines[5]["what_if"];
  EXPECT_TRUE(what_if["refused"].is_null());
  EXPECT_GE(what_if["then"]["saved_bytes"], what_if["now"]["saved_bytes"]);
  EXPECT_EQ(what_if["then"]["recompute_nodes"], 0);
  EXPECT_TRUE(a.lines[6]["what_if"]["then"].is_null());
  EXPECT_EQ(a.lines[6]["what_if"]["refused"]["code"], "mark-dim");
  EXPECT_EQ(a.lines[6]["what_if"]["refused"]["message"], "%input_ids has 2 dims: there is no dim 5 to shard") << "nobody has said --sequence";
  EXPECT_FALSE(a.lines[7]["nodes"].empty());
}

TEST_F(DebugCommand, AFolderOrNothingIsNoScript) {
  EXPECT_EQ(debug("", "--sp 2 --commands /tmp", true).code, 2);
  EXPECT_EQ(debug("", "--sp 2 --commands /no/such/script", true).code, 2);
  EXPECT_EQ(debug("break loss\n", "--sp 2 --commands -", true).code, debug("break loss\n", "--sp 2", true).code) << "- is standard input";
}

TEST_F(DebugCommand, AFileOfAnswersAndTheTextOfThem) {
  const std::string file = tmp_.path() + "/answers.jsonl";
  const Answer a = debug("until op *scaled_dot_product*\nlist 1\nwrong\nquit\nstep\n", "--sp 2 --dtype float64 --json " + file);
  EXPECT_EQ(a.code, 0);
  EXPECT_THAT(a.out, HasSubstr("> until op *scaled_dot_product*"));
  EXPECT_THAT(a.out, HasSubstr("nothing is wrong"));
  std::ifstream in(file);
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  ASSERT_EQ(lines.size(), 5U);  // nothing behind quit
  EXPECT_TRUE(lines[2]["first_wrong"].is_null());
  EXPECT_EQ(lines[2]["equal"], true);
  EXPECT_EQ(lines[3]["command"], "quit");
}

TEST_F(DebugCommand, AFileThatCannotBeWrittenIsSaidOnce) {
  const Answer a = debug("step\nstep\n", "--sp 2 --json /dev/full");
  EXPECT_EQ(a.code, 1);
  const std::string said = tmp_.contents("err");
  const std::size_t first = said.find("error[file-unwritable]");
  ASSERT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("error[file-unwritable]", first + 1), std::string::npos) << said;
}

TEST_F(DebugCommand, WhatIsWrongWithACommandPointsAtItsHelp) {
  const Answer one = debug("print\n", "--json -");
  EXPECT_EQ(one.code, 1);
  EXPECT_EQ(one.lines.at(0)["error"]["remedy"], "See help print.") << one.out;
  EXPECT_EQ(debug("prnt %x\n", "--json -").lines.at(0)["error"]["remedy"], "help lists the commands.");
}

TEST_F(DebugCommand, AScriptEndsAtTheFirstCommandThatFails) {
  const Answer a = debug("step\ncontineu\nstep\n", "--sp 2 --json -");
  EXPECT_EQ(a.code, 1);
  ASSERT_EQ(a.lines.size(), 3U) << a.out;
  EXPECT_EQ(a.lines[1]["error"]["legal"], "continue");
  EXPECT_THAT(a.lines[2]["error"]["message"].get<std::string>(), HasSubstr("line 2, contineu"));
  // What cannot be debugged at all is one object, as of every command.
  const Answer refused = debug("step\n", "--sp 3 --json - --sequence nothing:1");
  EXPECT_EQ(refused.code, 3);
  EXPECT_EQ(Json::parse(refused.out)["refusals"].size(), 1U);
}

TEST_F(DebugCommand, BlocksOfGradientsAreComparedAsTheWholeThatTheyMakeUp) {
  const Answer right = debug("wrong\nbisect\n", "--sp 2 --zero 1 --dtype float64 --json -");
  EXPECT_EQ(right.code, 0) << right.out;
  ASSERT_EQ(right.lines.size(), 3U) << right.out;
  EXPECT_TRUE(right.lines[0]["first_wrong"].is_null()) << right.lines[0];
  EXPECT_EQ(right.lines[0]["equal"], true);
  EXPECT_EQ(right.lines[1]["bisect"]["pass"], "") << right.lines[1];
  const Answer wrong = debug("wrong\n", "--sp 2 --zero 1 --dtype float64 --plant wrong-derivative --json -");
  EXPECT_EQ(wrong.code, 0) << wrong.out;
  ASSERT_EQ(wrong.lines.size(), 2U) << wrong.out;
  EXPECT_EQ(wrong.lines[0]["equal"], false);
  EXPECT_EQ(wrong.lines[0]["first_wrong"]["pass"], "build-joint") << wrong.lines[0];
}

TEST_F(DebugCommand, AScriptFailsByAFileOfABreakpointThatCannotBeWritten) {
  const Answer a = debug("break op aten.mm* do save /no/such/folder/x.npy\ncontinue\nwhere\n", "--sp 2 --json -");
  EXPECT_EQ(a.code, 1) << a.out;
  ASSERT_EQ(a.lines.size(), 3U) << a.out;
  EXPECT_EQ(a.lines[1]["reason"], "failed");
  EXPECT_EQ(a.lines[2]["error"]["code"], "debug-step-failed");
  EXPECT_THAT(a.lines[2]["error"]["message"].get<std::string>(), HasSubstr("[file-unwritable] /no/such/folder"));
}

/// The same but for how long it took and what was asked.
Json withoutTimes(Json answer) {
  for (const char* key : {"seconds", "asked", "flags", "argv", "peak_rss_bytes", "started", "machine", "command_line", "settings"}) answer.erase(key);
  return answer;
}

TEST_F(DebugCommand, RanksThatAreProcessesGiveTheSameAnswers) {
  const std::string script = "where\nbreak collective all_to_all\ncontinue\nlist 2\nstep 3\ndelete all\nuntil op *scaled_dot_product*\nback 4\nstep rank 1\n"
                             "break if abs>1e9\ncontinue\nprint %input_ids\nbreakpoints\n";
  const Answer here = debug(script, "--sp 2 --dtype float64 --json -"), there = debug(script, "--sp 2 --dtype float64 --ranks gloo --json -");
  EXPECT_EQ(here.code, 0) << here.out;
  EXPECT_EQ(there.code, 0) << there.out << tmp_.contents("err");
  ASSERT_EQ(here.lines.size(), 14U);
  ASSERT_EQ(there.lines.size(), here.lines.size()) << there.out;
  for (std::size_t i = 0; i + 1 < here.lines.size(); ++i) EXPECT_EQ(withoutTimes(there.lines[i]), withoutTimes(here.lines[i]));
  EXPECT_EQ(there.lines[10]["reason"], "end");
}

TEST_F(DebugCommand, WhereTheRanksAreIsOneOfThree) {
  const Answer a = debug("step\n", "--sp 2 --ranks elsewhere --json -");
  EXPECT_EQ(a.code, 2);
  EXPECT_THAT(a.out, HasSubstr("virtual, gloo or nccl"));
}

TEST_F(DebugCommand, ADebuggerThatIsKilledLeavesNoRankBehind) {
  const std::string commands = tmp_.path("commands.fifo");
  ASSERT_EQ(::mkfifo(commands.c_str(), 0600), 0);
  const int fifo = ::open(commands.c_str(), O_RDWR);  // both ends: neither open blocks, and the script does not end
  dist::Process debugger(SPSCOPE_PROGRAM, {"debug", std::string(SPSCOPE_SOURCE_DIR) + "/resources/samples/llama_gqa.pt2", "--seq", "64", "--threads", "1", "--sp", "2", "--ranks", "gloo",
                                           "--commands", commands});
  const std::string line = "until collective\n";
  ASSERT_EQ(::write(fifo, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  EXPECT_TRUE(debugger.awaitLine("> until collective")) << debugger.text();
  const std::vector<int> ranks = debugger.children();
  EXPECT_EQ(ranks.size(), 2U);
  ::kill(debugger.pid(), SIGKILL);
  debugger.wait();
  ::close(fifo);
  for (const int pid : ranks) {
    for (int i = 0; i < 1000 && dist::isRunning(pid); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_FALSE(dist::isRunning(pid)) << pid;
  }
}

TEST_F(DebugCommand, ASignalWhileItWaitsForTheNextLineIsNoEndOfTheScript) {
  const std::string commands = tmp_.path("commands.fifo");
  ASSERT_EQ(::mkfifo(commands.c_str(), 0600), 0);
  const int fifo = ::open(commands.c_str(), O_RDWR);
  dist::Process debugger(SPSCOPE_PROGRAM, {"debug", std::string(SPSCOPE_SOURCE_DIR) + "/resources/samples/llama_gqa.pt2", "--seq", "64", "--threads", "1", "--sp", "2", "--commands", commands});
  const std::string line = "where\n";
  ASSERT_EQ(::write(fifo, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  EXPECT_TRUE(debugger.awaitLine("> where")) << debugger.text();
  ::kill(debugger.pid(), SIGTERM);
  ::close(fifo);
  EXPECT_EQ(debugger.wait(), 1) << debugger.text();
}

TEST_F(DebugCommand, TheFirstSignalEndsTheWaitForTheNextLineOfAFifo) {
  const std::string commands = tmp_.path("commands.fifo");
  ASSERT_EQ(::mkfifo(commands.c_str(), 0600), 0);
  const int fifo = ::open(commands.c_str(), O_RDWR);  // open to the end: no line comes, nor does the script end
  dist::Spscope debugger({"debug", std::string(SPSCOPE_SOURCE_DIR) + "/resources/samples/llama_gqa.pt2", "--seq", "64", "--threads", "1", "--sp", "2", "--commands", commands});
  const std::string line = "where\nwhe";  // what is not a whole line yet is no command
  ASSERT_EQ(::write(fifo, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  EXPECT_TRUE(debugger.awaitLine("> where")) << debugger.text();
  ::kill(debugger.pid(), SIGINT);
  for (int i = 0; i < 1000 && dist::isRunning(debugger.pid()); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const bool ended = !dist::isRunning(debugger.pid());
  EXPECT_TRUE(ended) << "one Ctrl-C is enough";
  if (!ended) ::kill(debugger.pid(), SIGKILL);
  EXPECT_EQ(debugger.wait(), 1) << debugger.text();
  ::close(fifo);
  std::ifstream in(debugger.folder() + "/out.json");
  Json last;
  for (std::string text; std::getline(in, text);) last = Json::parse(text, nullptr, false);
  EXPECT_EQ(last["error"]["code"], "cancelled") << "the last line is the command's own";
}

}  // namespace
}  // namespace spscope
