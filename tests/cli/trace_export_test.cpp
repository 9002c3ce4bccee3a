// SPDX-License-Identifier: Apache-2.0
// `trace info` and `trace export`, as scripts use them: what is written can be read again, by the program and by others.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/csv.h"
#include "tests/support/shell.h"
#include "tests/support/temp_folder.h"

namespace spscope {
namespace {

using Json = nlohmann::json;

class TraceExport : public TempFolderTest {
 protected:
  /// Two ranks of one step; the second's events overlap without nesting.
  void SetUp() override {
    for (int r = 0; r < 2; ++r)
      std::ofstream(rank(r)) << R"({"schemaVersion":1,"distributedInfo":{"backend":"gloo","rank":)" << r << R"(,"world_size":2},"baseTimeNanoseconds":1000,"traceEvents":[
        {"ph":"X","cat":"user_annotation","name":"step","pid":10,"tid":11,"ts":0,"dur":100,"args":{}},
        {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":10,"tid":11,"ts":)" << (r == 0 ? 10 : 90) << R"(,"dur":20.5,"args":{"External id":1}},
        {"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]","pid":10,"tid":11,"ts":12,"args":{"Bytes":256,"Addr":64,"Device Type":0,"Device Id":-1}}]})";
  }
  std::string rank(int r) const { return path("rank" + std::to_string(r) + ".json"); }
  std::string both() const { return shellWord(rank(0)) + " " + shellWord(rank(1)); }
  Json answer(const std::string& arguments, int code = 0) {
    std::filesystem::remove(path("out.json"));
    const ShellResult run = shell(SPSCOPE_PROGRAM " " + arguments + " --json " + shellWord(path("out.json")) + " 2>&1");
    EXPECT_EQ(run.code, code) << arguments << "\n" << run.output;
    text_ = run.output;
    return Json::parse(contents("out.json"), nullptr, false);
  }
  std::string text_;
};

TEST_F(TraceExport, InfoSaysWhatIsThere) {
  const Json info = answer("trace info " + both());
  EXPECT_EQ(info["ranks"], 2);
  EXPECT_EQ(info["events"], 4);
  EXPECT_EQ(info["categories"]["operator"], 2);
  EXPECT_EQ(info["categories"]["kernel"], 0);
  EXPECT_EQ(info["memory_events"], 2);
  EXPECT_EQ(info["by_rank"][1]["rank"], 1);
  EXPECT_EQ(info["by_rank"][1]["events"], 2);
  EXPECT_TRUE(info["problems"].empty());
  EXPECT_NE(text_.find("No problems"), std::string::npos);
}

TEST_F(TraceExport, ProblemsOfTheFileAreListed) {
  std::ofstream(rank(0)) << R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":2},{"ph":"X","cat":"cpu_op","name":"b")";
  const Json info = answer("trace info " + shellWord(rank(0)));
  EXPECT_EQ(info["problems"]["truncated"], 1);
  EXPECT_NE(text_.find("truncated (data lost)"), std::string::npos) << text_;
}

TEST_F(TraceExport, NsysIsReadAgainAsItIs) {
  answer("trace export " + both() + " --to nsys -o " + shellWord(path("t.sqlite")));
  const Json before = answer("trace info " + both()), after = answer("trace info " + shellWord(path("t.sqlite")));
  for (const char* key : {"format", "events", "categories", "memory_events", "properties"}) EXPECT_EQ(before[key], after[key]) << key;
}

TEST_F(TraceExport, ChromeSplitsWhatOverlapsAndSaysSo) {
  const Json done = answer("trace export " + both() + " --to chrome -o " + shellWord(path("t.json")));
  EXPECT_EQ(done["problems"]["overlap-split"], 1);
  const Json json = Json::parse(contents("t.json"), nullptr, false);
  int slices = 0;
  for (const Json& e : json["traceEvents"]) slices += e["ph"] == "X";
  EXPECT_EQ(slices, 4);
  answer("trace export " + both() + " --to chrome -o " + shellWord(path("ranks/")));
  EXPECT_EQ(answer("trace info " + shellWord(path("ranks/rank0.json.gz")) + " " + shellWord(path("ranks/rank1.json.gz")))["ranks"], 2);
}

TEST_F(TraceExport, CsvIsAFolderOfTables) {
  answer("trace export " + both() + " --to csv -o " + shellWord(path("csv")));
  EXPECT_EQ(csvRows(contents("csv/events.csv")).size(), 4u);
  EXPECT_EQ(csvRows(contents("csv/memory.csv"))[0].at("allocated_bytes"), "256");
}

TEST_F(TraceExport, HtmlIsOnePageWithPicturesAndNothingFromElsewhere) {
  answer("trace export " + both() + " --to html -o " + shellWord(path("t.html")));
  std::string page = contents("t.html");
  for (const char* part : {"<svg", "Timeline", "Where the time goes", "Memory", "The plan", "Problems", "<title>aten::mm"}) EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const char* part : {"<script", "src=", "href=", "@import", "url("}) EXPECT_EQ(page.find(part), std::string::npos) << part;
}

TEST_F(TraceExport, AFolderOfRanksIsWrittenWholeOrNotAtAll) {
  std::filesystem::create_directories(path("ranks/rank1.json.gz"));  // in the way of the second file
  EXPECT_EQ(answer("trace export " + both() + " --to chrome -o " + shellWord(path("ranks/")), 1)["error"]["code"], "file-unwritable");
  EXPECT_FALSE(std::filesystem::exists(path("ranks/rank0.json.gz")));
}

TEST_F(TraceExport, OptionsOfAnotherActionAreNotIgnored) {
  const auto refused = [&](const std::string& arguments) { return answer("trace " + arguments, 2)["error"]["message"].get<std::string>(); };
  EXPECT_EQ(refused("report " + both() + " -o " + shellWord(path("x"))), "--out belongs to trace export: trace report has no use for it");
  EXPECT_EQ(refused("info " + both() + " --to csv"), "--to belongs to trace export: trace info --to csv has no use for it");
  EXPECT_EQ(refused("info " + both() + " --hta"), "--hta belongs to trace report: trace info has no use for it");
  EXPECT_EQ(refused("export " + both() + " --to csv --top 3 -o " + shellWord(path("x"))), "--top belongs to trace report and trace export --to html: trace export --to csv has no use for it");
  EXPECT_NE(refused("export " + both() + " --to chrome -o -").find("not to standard output"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path("x")));
  EXPECT_FALSE(std::filesystem::exists("-"));
  answer("trace export " + both() + " --to html --top 3 -o " + shellWord(path("t.html")));
}

TEST_F(TraceExport, WhatCannotBeIsSaid) {
  EXPECT_EQ(answer("trace export " + both() + " --to csv", 2)["error"]["code"], "usage");
  EXPECT_EQ(answer("trace export " + both() + " --to pdf -o x", 2)["error"]["code"], "usage");
  EXPECT_EQ(answer("trace export " + both() + " --to html -o " + shellWord(path("no/such/t.html")), 1)["error"]["code"], "file-unwritable");
  EXPECT_EQ(answer("trace info " + shellWord(path("absent")), 3)["refusals"][0]["code"], "file-missing");
}

}  // namespace
}  // namespace spscope
