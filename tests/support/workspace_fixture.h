// SPDX-License-Identifier: Apache-2.0
// A workspace with its pump, for tests of view-models: opens a model of the zoo, compiles, runs, waits.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/support/pump.h"
#include "ui/model/workspace.h"

namespace spscope::ui {

class WorkspaceFixture : public testing::Test {
 protected:
  Pump pump;
  Workspace workspace{pump.post()};

  bool idle() {
    return pump.until([&] { return !workspace.jobs().busy(); });
  }
  void openModel(const std::string& name = "nanogpt") {
    workspace.open(SPSCOPE_SOURCE_DIR "/tests/data/zoo/" + name + ".pt2");
    ASSERT_TRUE(idle());
    ASSERT_TRUE(workspace.model()) << (workspace.openError() ? workspace.openError()->format() : "");
  }
  void compileModel(const std::string& name = "nanogpt") {
    ASSERT_NO_FATAL_FAILURE(openModel(name));
    workspace.compile();
    ASSERT_TRUE(idle());
    ASSERT_TRUE(workspace.compiled()) << workspace.compileError()->format();
  }
  /// Three steps of virtual ranks, recorded; the trace is open afterwards.
  void runRecorded() {
    const std::string trace = (std::filesystem::temp_directory_path() / ("panels-" + std::to_string(getpid()))).string();
    ASSERT_TRUE(workspace.set("ranks", "virtual"));
    ASSERT_TRUE(workspace.set("steps", "3"));
    ASSERT_TRUE(workspace.set("profile", trace));
    workspace.run();
    ASSERT_TRUE(idle());
    std::filesystem::remove(trace);
    ASSERT_TRUE(workspace.trace()) << (workspace.traceError() ? workspace.traceError()->format() : "");
  }
  void showStage(const std::string& name) {
    for (std::size_t i = 0; i < workspace.stages().size(); ++i)
      if (workspace.stages()[i].name == name) return workspace.showStage(static_cast<int>(i));
    ADD_FAILURE() << "no stage " << name;
  }
  /// First node of the shown stage that the predicate takes.
  template <typename F>
  ir::NodeId find(F&& wanted) {
    const auto graph = workspace.graph();
    for (const ir::NodeId id : graph->order)
      if (wanted(graph->node(id))) return id;
    ADD_FAILURE() << "no such node in the shown stage";
    return ir::kNone;
  }
  void selectNode(ir::NodeId node) {
    Selection s;
    s.node = node;
    workspace.select(s);
  }
};

}  // namespace spscope::ui
