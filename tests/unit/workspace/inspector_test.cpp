// SPDX-License-Identifier: Apache-2.0
// The inspector's answers about a real model: what a node is, where it lives and why, what it costs, what it took, who reads it.
#include "ui/model/inspector.h"

#include <fstream>

#include "passes/memory/saving_rules.h"
#include "tests/support/workspace_fixture.h"

namespace spscope::ui {
namespace {

std::string textOf(const InspectorPage& page, const std::string& section) {
  const InspectorSection* s = page.find(section);
  if (s == nullptr) return "no section";
  std::string out;
  for (const InspectorRow& r : s->rows) out += r.label + ": " + r.text + "\n";
  return out + s->absent;
}

class InspectorTest : public WorkspaceFixture {};

TEST_F(InspectorTest, SaysWhatToDoWhereNothingIsThere) {
  EXPECT_NE(inspect(workspace, nullptr).hint.find("Open a model"), std::string::npos);
  openModel();
  const InspectorPage page = inspect(workspace, nullptr);
  EXPECT_TRUE(page.title.empty());
  EXPECT_NE(page.hint.find("Select"), std::string::npos);
  // Before a compilation every section says why it knows nothing.
  selectNode(workspace.graph()->order.front());
  const InspectorPage node = inspect(workspace, nullptr);
  EXPECT_NE(textOf(node, "Placement").find("Compile"), std::string::npos);
  EXPECT_NE(textOf(node, "Memory").find("Compile"), std::string::npos);
  EXPECT_NE(textOf(node, "Measured").find("No trace is open"), std::string::npos);
}

TEST_F(InspectorTest, ExplainsAnExchange) {
  compileModel();
  showStage("insert-all-to-all");
  const ir::NodeId id = find([](const ir::Node& n) { return n.op.str() == "sp.all_to_all.default"; });
  selectNode(id);
  const InspectorPage page = inspect(workspace, nullptr);
  const ir::Node& node = workspace.graph()->node(id);
  EXPECT_EQ(page.title, "%" + node.name);
  EXPECT_NE(page.subtitle.find("insert-all-to-all"), std::string::npos);
  EXPECT_NE(textOf(page, "Operation").find("sp.all_to_all.default"), std::string::npos);
  EXPECT_NE(textOf(page, "Shapes").find("on every rank"), std::string::npos);
  EXPECT_NE(textOf(page, "Placement").find("sharded: dimension"), std::string::npos);
  EXPECT_NE(textOf(page, "Placement").find("moves its operand"), std::string::npos);
  EXPECT_NE(textOf(page, "Provenance").find("made"), std::string::npos);
  // Its users are links to nodes that do read it.
  const InspectorSection* users = page.find("Users");
  ASSERT_FALSE(users->rows.empty());
  for (const InspectorRow& row : users->rows) {
    ASSERT_TRUE(row.target);
    bool reads = false;
    ir::forEachUse(workspace.graph()->node(row.target->node), [&](const ir::Use& use) { reads = reads || use.value == node.outputs[0]; });
    EXPECT_TRUE(reads) << row.text;
  }
  EXPECT_NE(pageText(page).find("PLACEMENT") == std::string::npos ? pageText(page).find("Placement") : 0, std::string::npos);
}

TEST_F(InspectorTest, LocalShapesOfEachRankAddUpToTheGlobalOne) {
  ASSERT_TRUE(workspace.set("sp", "3"));  // 64 over 3: ranks differ
  compileModel();
  showStage("shard-sequence");
  const auto graph = workspace.graph();
  const ir::NodeId id = find([&](const ir::Node& n) {
    return !n.outputs.empty() && graph->value(n.outputs[0]).placement.isSharded() && graph->value(n.outputs[0]).placement.sizes == ir::Dims({22, 21, 21});
  });
  selectNode(id);
  const std::string shapes = textOf(inspect(workspace, nullptr), "Shapes");
  EXPECT_NE(shapes.find("on rank 0: "), std::string::npos) << shapes;
  EXPECT_NE(shapes.find("on ranks 1 to 2: "), std::string::npos) << shapes;
  EXPECT_NE(shapes.find("22"), std::string::npos) << shapes;
  EXPECT_NE(shapes.find("21"), std::string::npos) << shapes;
}

TEST_F(InspectorTest, SaysWhyAValueIsKeptInTheWordsOfThePolicy) {
  compileModel();
  showStage("choose-saved");
  const auto& decisions = workspace.compiled()->compiled.memory.front().values;
  ASSERT_FALSE(decisions.empty());
  int looked = 0;
  for (const passes::ValueDecision& d : decisions) {
    if (d.decision == passes::Decision::kFree || ++looked > 10) continue;
    selectNode(d.node);
    const std::string memory = textOf(inspect(workspace, nullptr), "Memory");
    EXPECT_NE(memory.find(std::string(passes::reasonText(d.reason))), std::string::npos) << memory;
    EXPECT_NE(memory.find(d.decision == passes::Decision::kSave ? "saved" : "made again"), std::string::npos) << memory;
  }
  EXPECT_GT(looked, 3);
}

TEST_F(InspectorTest, ABackwardValueWithoutAPlacementIsNotCalledReplicated) {
  compileModel();
  showStage("build-joint");
  const auto graph = workspace.graph();
  const ir::NodeId id = find([&](const ir::Node& n) {
    return n.phase == ir::Phase::kBackward && !n.outputs.empty() && n.outputs[0] != ir::kNone && !graph->value(n.outputs[0]).shape.empty() && graph->value(n.outputs[0]).factors.empty();
  });
  selectNode(id);
  const std::string placement = textOf(inspect(workspace, nullptr), "Placement");
  EXPECT_NE(placement.find("result: not recorded"), std::string::npos) << placement;
}

TEST_F(InspectorTest, FollowsANodeBackToTheFile) {
  compileModel();
  workspace.showStage(static_cast<int>(workspace.stages().size()) - 1);
  const ir::NodeId id = find([](const ir::Node& n) { return !n.provenance.from.empty() && n.phase == ir::Phase::kForward; });
  selectNode(id);
  const std::string provenance = textOf(inspect(workspace, nullptr), "Provenance");
  EXPECT_NE(provenance.find("made from: %"), std::string::npos) << provenance;
  // A node of the file is "in the file", and changes are told by stage.
  const ir::NodeId old = find([&](const ir::Node& n) {
    const auto& order = workspace.stages()[0].graph->order;
    return std::find(order.begin(), order.end(), n.id) != order.end();
  });
  selectNode(old);
  EXPECT_NE(textOf(inspect(workspace, nullptr), "Provenance").find("import: in the file"), std::string::npos);
}

TEST_F(InspectorTest, ANodeOfAnotherStageIsSaidToBeThere) {
  compileModel();
  showStage("insert-all-to-all");
  const ir::NodeId id = find([](const ir::Node& n) { return n.op.str() == "sp.all_to_all.default"; });
  selectNode(id);
  workspace.showStage(0);
  const InspectorPage page = inspect(workspace, nullptr);
  EXPECT_NE(page.subtitle.find("not in stage import"), std::string::npos);
  EXPECT_NE(textOf(page, "Stages").find("insert-all-to-all"), std::string::npos);
  selectNode(1 << 20);
  EXPECT_NE(textOf(inspect(workspace, nullptr), "Stages").find("No stage"), std::string::npos);
}

TEST_F(InspectorTest, InputsAndModules) {
  compileModel();
  Selection s;
  for (const ir::Input& input : workspace.graph()->inputs)
    if (input.kind == ir::InputKind::kParameter) s.value = input.value;
  workspace.select(s);
  const InspectorPage parameter = inspect(workspace, nullptr);
  EXPECT_NE(textOf(parameter, "Input").find("parameter, trained"), std::string::npos);
  EXPECT_FALSE(parameter.find("Users")->rows.empty());
  const ir::NodeId inside = find([](const ir::Node& n) { return n.location && n.location->module_path.find('.') != std::string::npos; });
  Selection m;
  m.module = workspace.graph()->node(inside).location->module_path;
  workspace.select(m);
  const InspectorPage module = inspect(workspace, nullptr);
  EXPECT_EQ(module.title, m.module);
  EXPECT_NE(textOf(module, "Module").find("nodes: "), std::string::npos);
  m.module = "no.such";
  workspace.select(m);
  EXPECT_NE(textOf(inspect(workspace, nullptr), "Module").find("no node"), std::string::npos);
}

TEST_F(InspectorTest, TimesComeFromTheOpenTraceRankByRank) {
  compileModel();
  Inspector inspector(workspace);
  int changes = 0;
  inspector.on_changed = [&] { ++changes; };
  runRecorded();
  ASSERT_TRUE(idle());  // times are read in a lane of their own
  workspace.showStage(static_cast<int>(workspace.stages().size()) - 1);
  const ir::NodeId matmul = find([](const ir::Node& n) { return n.op.str() == "aten.mm.default" || n.op.str() == "aten.addmm.default"; });
  selectNode(matmul);
  EXPECT_GT(changes, 2);
  const InspectorSection* measured = inspector.page().find("Measured");
  ASSERT_EQ(measured->rows.size(), 2u) << measured->absent;
  EXPECT_EQ(measured->rows[0].label, "rank 0");
  EXPECT_NE(measured->rows[1].text.find(" a time, 2 times"), std::string::npos) << measured->rows[1].text;  // steps 1 and 2 of 3
  EXPECT_EQ(measured->absent, "");
  // A trace of other settings is said to be one.
  ASSERT_TRUE(workspace.set("save", "all"));
  ASSERT_TRUE(idle());
  selectNode(matmul);
  if (const InspectorSection* other = inspector.page().find("Measured"); !other->rows.empty()) EXPECT_NE(other->absent.find("another plan"), std::string::npos);
  workspace.closeTrace();
  EXPECT_NE(textOf(inspector.page(), "Measured").find("No trace is open"), std::string::npos);
}

TEST_F(InspectorTest, ARequestThatOutlivesTheInspectorDoesNoHarm) {
  compileModel();
  runRecorded();
  {
    Inspector inspector(workspace);  // begins to read
  }
  ASSERT_TRUE(idle());
}

TEST(SourceFile, TheInnermostFrameOfThatLineNamesTheFile) {
  ir::Location l;
  l.source = "model.py:7";
  EXPECT_EQ(sourceLineOf(l)->path, "model.py");
  EXPECT_EQ(sourceLineOf(l)->line, 7);
  l.stack = "  File \"/a/model.py\", line 70, in forward\n  File \"/b/model.py\", line 7, in f\n    x = y\n  File \"/c/other.py\", line 7, in g\n";
  EXPECT_EQ(sourceLineOf(l)->path, "/b/model.py");
  l.source = "";
  EXPECT_FALSE(sourceLineOf(l));
}

TEST(SourceFile, OpensWithWhatTheUserHasConfiguredAndNothingElse) {
  const std::string file = (std::filesystem::temp_directory_path() / ("source-" + std::to_string(getpid()) + " it's.py")).string();
  std::ofstream(file) << "x = 1\n";
  std::map<std::string, std::string> set;
  const auto environment = [&](const char* name) { return set[name]; };
  using Command = std::vector<std::string>;
  set["EDITOR"] = "vim";
  set["VISUAL"] = "code -n";
  EXPECT_EQ(*editorCommand({file, 3}, environment), (Command{"code", "-n", "--goto", file + ":3"}));
  set["VISUAL"] = "/usr/bin/gvim";
  EXPECT_EQ(*editorCommand({file, 3}, environment), (Command{"/usr/bin/gvim", "+3", file}));
  set["VISUAL"] = "my-editor";
  EXPECT_EQ(*editorCommand({file, 3}, environment), (Command{"my-editor", file}));
  EXPECT_EQ(editorCommand({file + ".gone", 3}, environment).error().code, "file-missing");
  set.clear();
  EXPECT_EQ(editorCommand({file, 3}, environment).error().code, "usage");
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace spscope::ui
