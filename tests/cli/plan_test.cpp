// SPDX-License-Identifier: Apache-2.0
// spscope plan, as scripts and people use it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include <nlohmann/json.hpp>

#include "tests/support/shell.h"
#include "tests/support/temp_folder.h"

namespace spscope {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

class PlanCommand : public ::testing::Test {
 protected:
  ShellResult plan(const std::string& more) {
    return shell("cd " + std::string(SPSCOPE_SOURCE_DIR) + " && " + SPSCOPE_PROGRAM + " plan resources/samples/llama_gqa.pt2 " + more + " 2>&1");
  }
  Json answer(const std::string& more, int code) {
    const ShellResult done = plan(more + " --json " + tmp_.path() + "/out.json");
    EXPECT_EQ(done.code, code) << done.output;
    output_ = done.output;
    return Json::parse(tmp_.contents("out.json"), nullptr, false);
  }
  std::string profile(const std::string& capacity) {
    return tmp_.file("small.toml", "name = \"small\"\ndevice = \"cpu\"\n[memory]\ncapacity = { low = \"" + capacity + "\", high = \"" + capacity +
                               "\", source = \"t\" }\noutside = { low = \"1 MB\", high = \"2 MB\", source = \"t\" }\n[communication]\nper_group = { low = \"0 B\", high = \"0 B\", source = \"t\" }\n"
                               "[compute]\nmatmul = { low = \"1 GFLOP/s\", high = \"1 GFLOP/s\", source = \"t\" }\nmemory = { low = \"1 GB/s\", high = \"1 GB/s\", source = \"t\" }\n[links]\n"
                               "node = { low = \"1 GB/s\", high = \"1 GB/s\", source = \"t\" }\n");
  }
  TempFolder tmp_;
  std::string output_;
};

TEST_F(PlanCommand, TheFieldsOfEveryRow) {
  const Json out = answer("--on " + profile("64 MB") + " --gpus 2 --save sac,all --zero 0,1,3 --whole-loss --sp 2,4 --row 1", 0);
  ASSERT_TRUE(out.is_object()) << output_;
  EXPECT_EQ(out["rows"].size(), 12U);
  EXPECT_EQ(out["rows"].back()["verdict"], "illegal") << "sp 4 on two devices";
  EXPECT_EQ(out["rows"].back()["reason"]["code"], "plan-illegal");
  std::int64_t last = INT64_MAX;
  bool modelled = false;
  for (const Json& row : out["rows"]) {
    if (row["verdict"] == "illegal") continue;
    for (const char* field : {"config", "max_seq", "peak_bytes", "interval", "classes", "modelled", "possible_seq"}) EXPECT_TRUE(row.contains(field)) << field;
    const double seconds = row["seconds_estimate"];
    EXPECT_GT(seconds, 0);
    EXPECT_LE(row["seconds_interval"][0].get<double>(), seconds);
    EXPECT_GE(row["seconds_interval"][1].get<double>(), seconds);
    EXPECT_LE(row["max_seq"].get<std::int64_t>(), last);
    last = row["max_seq"];
    std::int64_t classes = 0;
    for (const auto& [name, bytes] : row["classes"].items()) classes += bytes.get<std::int64_t>();
    EXPECT_EQ(classes, row["compiled_peak_bytes"].get<std::int64_t>());
    const std::int64_t width = row["interval"][1].get<std::int64_t>() - row["interval"][0].get<std::int64_t>();
    EXPECT_EQ(width == 1000000, row["config"]["zero"] != 3) << "what lies outside, and what is modelled";
    EXPECT_EQ(row["modelled"].empty(), row["config"]["zero"] != 3);
    modelled = modelled || row["config"]["zero"] == 3;
  }
  EXPECT_TRUE(modelled);
  EXPECT_FALSE(out["pareto"].empty());
  EXPECT_TRUE(out.contains("levers"));
  EXPECT_THAT(output_, HasSubstr("Row 1: "));
  EXPECT_THAT(output_, HasSubstr("Not legal\n"));
  EXPECT_THAT(output_, HasSubstr("nothing was run"));
}

TEST_F(PlanCommand, TheRunCommandOfARowCompilesToItsPeak) {
  const Json out = answer("--on " + profile("64 MB") + " --gpus 2 --save sac --zero 1 --tile-loss --sp 2 --row 1", 0);
  std::string command = out["run_command"];
  ASSERT_EQ(command.rfind("spscope run ", 0), 0U) << command;
  command = "cd " + std::string(SPSCOPE_SOURCE_DIR) + " && " + SPSCOPE_PROGRAM + " compile " + command.substr(12) + " --json " + tmp_.path() + "/compiled.json >/dev/null 2>&1";
  EXPECT_EQ(shell(command).code, 0) << command;
  const Json compiled = Json::parse(tmp_.contents("compiled.json"), nullptr, false);
  EXPECT_EQ(compiled["memory"]["peak"], out["rows"][0]["peak_bytes"]);
}

TEST_F(PlanCommand, TheRunCommandIsOfTheProgramThatWasPlanned) {
  const Json out = answer("--on " + profile("64 MB") + " --gpus 2 --save sac --zero 1 --tile-loss --sp 2 --row 1 --dtype float64 --sequence input_ids:1", 0);
  const std::string command = out["run_command"];
  EXPECT_THAT(command, HasSubstr(" --dtype float64"));
  EXPECT_THAT(command, HasSubstr(" --sequence input_ids:1"));
}

TEST_F(PlanCommand, WhetherAnythingFitsIsTheExitCode) {
  const std::string more = " --gpus 2 --want fits --seq 1024 --save sac --zero 1 --whole-loss --sp 2";
  EXPECT_EQ(answer("--on " + profile("1 GB") + more, 0)["rows"][0]["verdict"], "fits");
  EXPECT_EQ(answer("--on " + profile("10 MB") + more, 1)["rows"][0]["verdict"], "does-not-fit");
  EXPECT_EQ(answer("--on " + profile("10 MB") + " --gpus 2 --want table --seq 1024 --save sac --sp 2", 0)["rows"][0]["verdict"], "does-not-fit") << "a table is no question";
}

TEST_F(PlanCommand, MarkdownIsATable) {
  const ShellResult done = plan("--on CPU-24 --gpus 2 --want table --save sac --zero 0 --markdown " + tmp_.path() + "/plan.md");
  EXPECT_EQ(done.code, 0) << done.output;
  const std::string text = tmp_.contents("plan.md");
  EXPECT_THAT(text, HasSubstr("spscope plan"));
  EXPECT_THAT(text, HasSubstr("| row "));
}

TEST_F(PlanCommand, TheLongestIsRunBelowTheLimitAndALittleMoreAboveIt) {
  const std::string settings = " --sp 2 --dp 1 --zero 1 --save sac";
  const Json row = answer("--on " + profile("24 MB") + " --gpus 2 --whole-loss --step 16" + settings, 0)["rows"][0];
  const auto longest = row["max_seq"].get<std::int64_t>(), room = row["room"][0].get<std::int64_t>();
  ASSERT_GT(longest, 320) << output_;
  const auto measured = [&](std::int64_t seq) -> std::int64_t {
    const ShellResult done = shell("cd " + std::string(SPSCOPE_SOURCE_DIR) + " && " + SPSCOPE_PROGRAM + " run resources/samples/llama_gqa.pt2" + settings + " --steps 1 --threads 1 --seq " +
                                   std::to_string(seq) + " --json " + tmp_.path() + "/run.json 2>&1");
    EXPECT_EQ(done.code, 0) << done.output;
    const Json out = Json::parse(tmp_.contents("run.json"), nullptr, false);
    std::int64_t most = 0;
    for (const Json& bytes : out["peak_bytes"]) most = std::max(most, bytes.get<std::int64_t>());
    return most;
  };
  EXPECT_LE(measured(longest), room);
  EXPECT_GT(measured((longest * 21 / 20 + 15) / 16 * 16), room);
}

TEST_F(PlanCommand, OnAGpuTheAllocatorIsToldAndThePageHasTheCurves) {
  const Json out = answer("--on A100-40 --gpus 2 --save sac,all --zero 1 --sp 2 --whole-loss --row 1 --report " + tmp_.path() + "/plan.html", 0);
  ASSERT_TRUE(out.is_object()) << output_;
  for (const Json& row : out["rows"]) {
    const Json& a = row["allocator"];
    EXPECT_EQ(a["requested"], row["compiled_peak_bytes"]);
    EXPECT_LE(a["least"], row["peak_bytes"]) << "of the worst length that was compiled";
    EXPECT_LE(a["least"], a["reserved"]);
    EXPECT_GE(a["fragmentation"].get<std::int64_t>(), a["largest_free"].get<std::int64_t>());
    EXPECT_GT(a["segments"].get<std::int64_t>(), 0);
  }
  EXPECT_THAT(output_, HasSubstr("PyTorch's allocator reserves "));
  const std::string page = tmp_.contents("plan.html");
  EXPECT_THAT(page, HasSubstr("Peak of one rank against the length: sp 2, dp 1, zero 1, whole loss"));
  EXPECT_THAT(page, HasSubstr(">sac</text>"));
  EXPECT_THAT(page, HasSubstr(">all</text>"));
  EXPECT_THAT(page, HasSubstr("fits below: "));
  EXPECT_THAT(page, HasSubstr(">" + std::to_string(out["rows"][0]["max_seq"].get<std::int64_t>()) + "</text>")) << "where the best curve ends";
  EXPECT_EQ(answer("--on " + profile("64 MB") + " --gpus 1 --save sac --zero 0 --whole-loss", 0)["rows"][0].count("allocator"), 0U) << "of a GPU only";
}

TEST_F(PlanCommand, MarkdownToStandardOutputIsNoFile) {
  const ShellResult done = plan("--on cpu-24 --gpus 2 --want table --save sac --zero 0 --sp 2 --markdown - --report " + tmp_.path() + "/page.md");
  EXPECT_EQ(done.code, 0) << done.output;
  EXPECT_THAT(done.output, HasSubstr("| row "));
  EXPECT_THAT(done.output, ::testing::Not(HasSubstr("  row "))) << "in place of the text";
  EXPECT_THAT(tmp_.contents("page.md"), HasSubstr("| row ")) << "the report has it as well";
  EXPECT_NE(shell("test -e " + std::string(SPSCOPE_SOURCE_DIR) + "/-").code, 0);
}

TEST_F(PlanCommand, RivalsOffloadAndGridInOneAnswer) {
  const Json out = answer("--on H100-80 --gpus 2 --want table --seq 512 --rivals --whole-loss --grid --longest 1024 --master-weights off --grad-dtype param --row 1", 0);
  ASSERT_TRUE(out.is_object()) << output_;
  std::map<std::string, int> ways;
  for (const Json& row : out["rows"]) {
    ++ways[row["config"]["rival"]];
    if (row["verdict"] == "illegal") continue;
    EXPECT_EQ(row["grid"].size(), 2U);
    EXPECT_EQ(row["host_bytes"].get<std::int64_t>() > 0, row["config"]["offload"].get<bool>());
  }
  EXPECT_EQ(ways.size(), 5U);
  EXPECT_EQ(ways["ring"], 2);
  EXPECT_THAT(out["run_command"].get<std::string>(), HasSubstr("--master-weights off --grad-dtype param"));
  EXPECT_THAT(output_, HasSubstr("Peak and step by length"));
  EXPECT_THAT(output_, HasSubstr("ring modelled"));
}

TEST_F(PlanCommand, OffloadIsAListAndAloneItIsThatOfCheckpoints) {
  const std::string more = "--on H100-80 --gpus 2 --want table --seq 512 --save sac --zero 1 --sp 2 --whole-loss ";
  const auto sets = [&](const std::string& flag) {
    std::vector<std::pair<bool, bool>> out;
    const Json rows = answer(more + flag, 0)["rows"];
    for (const Json& row : rows) out.emplace_back(row["config"]["offload"].get<bool>(), row["config"]["offload_optimizer"].get<bool>());
    return out;
  };
  using ::testing::UnorderedElementsAre;
  EXPECT_THAT(sets(""), UnorderedElementsAre(std::pair(false, false)));
  EXPECT_THAT(sets("--offload"), UnorderedElementsAre(std::pair(false, false), std::pair(true, false)));
  EXPECT_THAT(sets("--offload checkpoints,optimizer"), UnorderedElementsAre(std::pair(true, false), std::pair(false, true)));
  EXPECT_THAT(sets("--offload=all --row 1"), UnorderedElementsAre(std::pair(true, true)));
  EXPECT_THAT(output_, HasSubstr("a node has 1.73 TiB to 2.00 TiB for it"));
  EXPECT_THAT(output_, HasSubstr("(offload cannot be run yet: the command is without it)"));
  const Json row = Json::parse(tmp_.contents("out.json"), nullptr, false)["rows"][0];
  EXPECT_EQ(row["host_interval"][0].get<std::int64_t>(), 2 * row["host_bytes"].get<std::int64_t>());
  EXPECT_EQ(row["host_room"][0].get<std::int64_t>(), 1900000000000);
  EXPECT_TRUE(row["lacks"].empty());
  const ShellResult wrong = plan(more + "--offload disk");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.output, HasSubstr("'disk' is nothing that can lie on the host"));
}

TEST_F(PlanCommand, TiledMlpsAreRowsBesideTheWholeOnes) {
  const Json out = answer("--on " + profile("1 GB") + " --gpus 1 --want table --seq 4096 --save all --zero 0 --whole-loss --tile-mlp --row 1", 0);
  ASSERT_EQ(out["rows"].size(), 2U) << output_;
  EXPECT_TRUE(out["rows"][0]["config"]["tile_mlp"].get<bool>()) << "the smaller one first";
  EXPECT_FALSE(out["rows"][1]["config"]["tile_mlp"].get<bool>());
  EXPECT_LT(out["rows"][0]["peak_bytes"].get<std::int64_t>(), out["rows"][1]["peak_bytes"].get<std::int64_t>());
  EXPECT_THAT(output_, HasSubstr("(tiled MLPs cannot be run yet: the command has them whole)"));
  EXPECT_THAT(output_, HasSubstr("modelled, not compiled: tiled MLPs: 4 of them in 32 tiles of 128 tokens"));
  const Json from_whole = answer("--on " + profile("1 GB") + " --gpus 1 --want table --seq 4096 --save all --zero 0 --whole-loss --tile-mlp --row 2", 0)["levers"];
  ASSERT_EQ(from_whole.size(), 1U);
  EXPECT_EQ(from_whole[0]["change"], "whole MLPs -> tiled MLPs");
}

TEST_F(PlanCommand, AHostThatIsNotKnownIsToldSo) {
  const Json out = answer("--on GH200-96 --gpus 1 --want table --seq 512 --save sac --zero 0 --sp 1 --whole-loss --offload optimizer --row 1", 0);
  EXPECT_TRUE(out["rows"][0]["host_room"].is_null());
  EXPECT_THAT(output_, HasSubstr("the profile GH200-96 does not say what a node has (memory.host), so it is not bounded"));
}

TEST_F(PlanCommand, CalibrateWritesAProfileThatPlanReads) {
  const std::string file = tmp_.path() + "/here.toml";
  const ShellResult done = shell(std::string(SPSCOPE_PROGRAM) + " calibrate --seconds 0.2 -o " + file + " --json " + tmp_.path() + "/rates.json 2>&1");
  ASSERT_EQ(done.code, 0) << done.output;
  const Json rates = Json::parse(tmp_.contents("rates.json"), nullptr, false);
  for (const char* figure : {"memory.capacity", "memory.outside", "compute.matmul", "compute.memory", "links.node", "links.node_latency"}) {
    EXPECT_GT(rates["profile"][figure]["low"].get<double>(), 0) << figure;
    EXPECT_GE(rates["profile"][figure]["high"].get<double>(), rates["profile"][figure]["low"].get<double>()) << figure;
  }
  EXPECT_EQ(answer("--on " + file + " --gpus 2 --want table --save sac --zero 1 --sp 2 --whole-loss", 0)["rows"][0]["ranks_sharing"], 2);
  const ShellResult gpu = shell(std::string(SPSCOPE_PROGRAM) + " calibrate --device cuda -o " + file + " 2>&1");
  EXPECT_EQ(gpu.code, 3);
  EXPECT_THAT(gpu.output, HasSubstr("calibrate-no-device"));
}

TEST_F(PlanCommand, ALengthBeyondAllMemoryIsTheAskersFault) {
  const ShellResult done = shell(std::string(SPSCOPE_PROGRAM) + " compile " + SPSCOPE_SOURCE_DIR + "/tests/data/zoo/llama_gqa_dyn_pos.pt2 --seq 1099511627776 2>&1");
  EXPECT_EQ(done.code, 2) << done.output;
  EXPECT_THAT(done.output, HasSubstr("error[length-too-large]"));
}

TEST_F(PlanCommand, ExpandableSegmentsAreAskedForAndSaidInTheRunCommand) {
  const std::string row = "--gpus 2 --want table --seq 2048 --save sac --sp 2 --zero 1 --whole-loss --row 1";
  const Json plain = answer("--on H100-80 " + row, 0), pages = answer("--on H100-80 " + row + " --expandable-segments", 0);
  EXPECT_EQ(plain["expandable_segments"], false);
  EXPECT_EQ(pages["expandable_segments"], true);
  EXPECT_EQ(pages["run_command"].get<std::string>().rfind("PYTORCH_ALLOC_CONF=expandable_segments:True spscope run ", 0), 0U) << pages["run_command"];
  EXPECT_EQ(plain["run_command"].get<std::string>().rfind("spscope run ", 0), 0U);
  EXPECT_THAT(output_, HasSubstr("PyTorch's allocator (expandable segments) reserves"));
  EXPECT_EQ(pages["rows"][0]["compiled_peak_bytes"], plain["rows"][0]["compiled_peak_bytes"]) << "the program is the same";
  EXPECT_EQ(pages["rows"][0]["allocator"]["segments"], 2) << "one of small blocks and one of large ones";
  EXPECT_GT(plain["rows"][0]["allocator"]["segments"], 2);
  const ShellResult cpu = plan("--on CPU-24 --expandable-segments " + row);
  EXPECT_EQ(cpu.code, 2);
  EXPECT_THAT(cpu.output, HasSubstr("only the allocator of a GPU"));
}

TEST_F(PlanCommand, WhatIsWrongIsSaid) {
  const ShellResult device = plan("--on H100 --gpus 2");
  EXPECT_EQ(device.code, 2);
  EXPECT_THAT(device.output, HasSubstr("profile-missing"));
  EXPECT_THAT(device.output, HasSubstr("H100-80"));
  // Whatever is wrong with a profile, it was the command line that named it.
  EXPECT_EQ(plan("--on " + tmp_.path() + "/none.toml --gpus 2").code, 2);
  EXPECT_EQ(plan("--on " + tmp_.file("broken.toml", "name = ") + " --gpus 2").code, 2);
  std::filesystem::create_directory(tmp_.path() + "/folder.toml");
  EXPECT_EQ(plan("--on " + tmp_.path() + "/folder.toml --gpus 2").code, 2);
  EXPECT_EQ(plan("--on CPU-24").code, 2) << "how many?";
  EXPECT_THAT(plan("--on CPU-24 --gpus 2 --headroom nan%").output, HasSubstr("is no share"));
  EXPECT_THAT(plan("--on CPU-24 --gpus 1 --want table --save sac --zero 0 --row 9").output, HasSubstr("--row 9: there are 2 legal rows"));
  const ShellResult rivals = plan("--on CPU-24 --gpus 2 --rivals --save sac");
  EXPECT_EQ(rivals.code, 2);
  EXPECT_THAT(rivals.output, HasSubstr("--rivals and --save"));
  const ShellResult unwritable = shell(std::string(SPSCOPE_PROGRAM) + " calibrate --seconds 600 -o " + tmp_.path() + "/no/folder.toml 2>&1");
  EXPECT_EQ(unwritable.code, 1) << "said before anything is measured: " << unwritable.output;
  EXPECT_THAT(unwritable.output, HasSubstr("file-unwritable"));
  const ShellResult none = plan("--on CPU-24 --gpus 1 --sp 2");
  EXPECT_EQ(none.code, 3);
  EXPECT_THAT(none.output, HasSubstr("plan-empty"));
  EXPECT_THAT(none.output, HasSubstr("takes 2 ranks, there are 1"));
}

}  // namespace
}  // namespace spscope
