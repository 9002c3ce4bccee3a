// SPDX-License-Identifier: Apache-2.0
// The door from the window to everything else, without a window: open, set, compile, look at stages, verify, run, read the
// profile of the run.
#include "ui/model/workspace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/pump.h"
#include "ui/model/settings_model.h"

namespace spscope::ui {
namespace {

const std::string kModel = SPSCOPE_SOURCE_DIR "/tests/data/zoo/nanogpt.pt2";

class WorkspaceTest : public testing::Test {
 protected:
  Pump pump;
  Workspace workspace{pump.post()};
  std::multiset<Topic> told;
  void SetUp() override {
    workspace.listen([this](Topic t) { told.insert(t); });
  }
  bool idle() {
    return pump.until([&] { return !workspace.jobs().busy(); });
  }
  void openModel() {
    workspace.open(kModel);
    ASSERT_TRUE(idle());
    ASSERT_TRUE(workspace.model()) << (workspace.openError() ? workspace.openError()->format() : "");
  }
  int stageNamed(const std::string& name) const {
    for (std::size_t i = 0; i < workspace.stages().size(); ++i)
      if (workspace.stages()[i].name == name) return static_cast<int>(i);
    return -1;
  }
};

TEST_F(WorkspaceTest, OpensCompilesAndShowsEveryStage) {
  openModel();
  ASSERT_EQ(workspace.stages().size(), 1u);
  EXPECT_EQ(workspace.stages()[0].name, "import");
  workspace.compile();
  ASSERT_TRUE(idle());
  ASSERT_TRUE(workspace.compiled()) << workspace.compileError()->format();
  EXPECT_GE(workspace.stages().size(), 10u);
  for (const Workspace::Stage& s : workspace.stages()) EXPECT_TRUE(s.graph) << s.name;
  const int stage = stageNamed("insert-all-to-all");
  ASSERT_GT(stage, 0);
  workspace.showStage(stage);
  workspace.compareWith(stage - 1);
  EXPECT_EQ(workspace.graph(), workspace.stages()[static_cast<std::size_t>(stage)].graph);
  EXPECT_GT(told.count(Topic::kStage), 1u);
  // A compilation anew keeps the stage that is looked at.
  ASSERT_TRUE(workspace.set("sp", "4"));
  ASSERT_TRUE(idle());
  EXPECT_EQ(workspace.stages()[static_cast<std::size_t>(workspace.stage())].name, "insert-all-to-all");
  EXPECT_EQ(workspace.comparedWith(), stage - 1);
  EXPECT_EQ(workspace.compiled()->compiled.class_of_rank.size(), 4u);
}

TEST_F(WorkspaceTest, WhatIsRefusedSaysWhyAndLosesNothing) {
  openModel();
  workspace.compile();
  ASSERT_TRUE(idle());
  const Status bad = workspace.set("save", "most");
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().legal.find("sac"), std::string::npos);
  EXPECT_FALSE(workspace.set("no-such", "1"));
  EXPECT_EQ(workspace.settings().compile.save, "sac");
  ASSERT_TRUE(workspace.set("dp", "4000"));  // a number, but more ranks than can be started
  ASSERT_TRUE(idle());
  ASSERT_TRUE(workspace.compileError());
  EXPECT_EQ(workspace.compileError()->code, "setting-dp");
  EXPECT_EQ(workspace.stages().size(), 1u) << "the model is still open";
  EXPECT_TRUE(std::any_of(workspace.logEntries().begin(), workspace.logEntries().end(), [](const LogEntry& e) { return e.code == "setting-dp"; }));
  ASSERT_TRUE(workspace.set("dp", "1"));
  ASSERT_TRUE(idle());
  EXPECT_TRUE(workspace.compiled());
}

TEST_F(WorkspaceTest, IllegalChoicesAreExplained) {
  openModel();
  bool nccl = true;
  for (const ChoiceState& c : choicesFor(workspace.model().get(), workspace.settings(), "ranks"))
    if (c.value == "nccl") nccl = c.legal || c.reason.empty();
  EXPECT_FALSE(nccl) << "no GPU here: refused with its reason";
  for (const ChoiceState& c : choicesFor(workspace.model().get(), workspace.settings(), "save")) EXPECT_TRUE(c.legal) << c.value << ": " << c.reason;
  for (const ChoiceState& c : choicesFor(workspace.model().get(), workspace.settings(), "dp")) {
    EXPECT_EQ(c.legal, c.value != "4") << "two rows are no batch for four replicas: " << c.value;
    EXPECT_EQ(c.legal, c.reason.empty()) << c.value;
  }
  WorkspaceSettings further;
  EXPECT_TRUE(changedSettings(further, furtherSettings()).empty());
  ASSERT_TRUE(changeSetting(further, "zero", "1"));
  ASSERT_TRUE(changeSetting(further, "whole-masks", "on"));
  EXPECT_EQ(changedSettings(further, furtherSettings()), (std::vector<std::string>{"ZeRO 1", "Whole masks on"}));
  for (const char* wrong : {"2", "-1", "on", ""}) EXPECT_FALSE(changeSetting(further, "zero", wrong)) << wrong;
  for (const SettingInfo& info : settingInfos()) {
    EXPECT_FALSE(info.tooltip.empty()) << info.name;
    WorkspaceSettings copy = workspace.settings();
    EXPECT_TRUE(changeSetting(copy, info.name, settingText(copy, info.name))) << info.name << " does not take its own text";
  }
}

TEST_F(WorkspaceTest, FilesThatAreNoneAreSaidWhereTheyArose) {
  workspace.open("/nonexistent.pt2");
  ASSERT_TRUE(idle());
  ASSERT_TRUE(workspace.openError());
  EXPECT_FALSE(workspace.model());
  const std::string wrong = (std::filesystem::temp_directory_path() / ("workspace-" + std::to_string(getpid()))).string();
  std::ofstream(wrong) << "no model";
  workspace.open(wrong);
  ASSERT_TRUE(idle());
  EXPECT_TRUE(workspace.openError());
  EXPECT_FALSE(workspace.logEntries().empty());
  std::filesystem::remove(wrong);
  openModel();  // and the next one opens all the same
  EXPECT_FALSE(workspace.openError());
}

TEST_F(WorkspaceTest, VerifiesRunsAndReadsTheProfileOfTheRun) {
  openModel();
  ASSERT_TRUE(workspace.set("dtype", "float64"));
  ASSERT_TRUE(idle());
  workspace.compile();
  workspace.verify();
  ASSERT_TRUE(idle());
  ASSERT_TRUE(workspace.verified()) << workspace.verifyError()->format();
  EXPECT_TRUE(workspace.verified()->equal);
  ASSERT_TRUE(workspace.set("ranks", "virtual"));
  ASSERT_TRUE(workspace.set("steps", "3"));
  const std::string trace = (std::filesystem::temp_directory_path() / ("workspace-trace-" + std::to_string(getpid()))).string();
  ASSERT_TRUE(workspace.set("profile", trace));
  workspace.run();
  EXPECT_TRUE(workspace.runProgress().running);
  ASSERT_TRUE(idle());
  ASSERT_FALSE(workspace.runProgress().error) << workspace.runProgress().error->format();
  EXPECT_EQ(workspace.runProgress().steps.size(), 3u);
  ASSERT_TRUE(workspace.trace());
  EXPECT_EQ(workspace.trace()->trace.ranks.size(), 2u);
  EXPECT_FALSE(workspace.trace()->breakdown.empty());
  std::filesystem::remove(trace);
}

TEST_F(WorkspaceTest, AStoppedRunTellsWhatItDid) {
  openModel();
  ASSERT_TRUE(workspace.set("ranks", "virtual"));
  ASSERT_TRUE(workspace.set("steps", "1000000"));
  workspace.run();
  ASSERT_TRUE(pump.until([&] { return workspace.runProgress().steps.size() >= 2; }));
  workspace.stop("run");
  ASSERT_TRUE(idle());
  EXPECT_FALSE(workspace.runProgress().running);
  EXPECT_TRUE(workspace.runProgress().cancelled);
  EXPECT_GE(workspace.runProgress().steps.size(), 2u);
}

}  // namespace
}  // namespace spscope::ui
