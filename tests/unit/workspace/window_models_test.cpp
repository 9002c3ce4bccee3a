// SPDX-License-Identifier: Apache-2.0
// What the window shows and does, without a window: theme, stage strip, verdict, graph document, scripts, the remembered session.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/pump.h"
#include "tests/support/temp_folder.h"
#include "ui/model/actions.h"
#include "ui/model/graph_export.h"
#include "ui/model/session_file.h"
#include "ui/model/settings_model.h"
#include "ui/model/stage_strip.h"
#include "ui/model/theme.h"

namespace spscope::ui {
namespace {

const std::string kModel = SPSCOPE_SOURCE_DIR "/tests/data/zoo/nanogpt.pt2";

std::string read(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Theme, EveryTextCanBeReadOnItsBackground) {
  for (const bool dark : {true, false}) {
    const Theme theme(dark);
    for (const Tone background : {Tone::kWindow, Tone::kPanel, Tone::kRaised, Tone::kSelection, Tone::kSequence, Tone::kHeads, Tone::kReplicated, Tone::kPartial, Tone::kCollective, Tone::kModule})
      EXPECT_GE(contrast(theme.color(Tone::kText), theme.color(background)), 4.5) << (dark ? "dark " : "light ") << toneName(background);
    for (const Tone text : {Tone::kSecondary, Tone::kGood, Tone::kBad, Tone::kWarning, Tone::kChanged, Tone::kAdded})
      EXPECT_GE(contrast(theme.color(text), theme.color(Tone::kPanel)), dark ? 4.5 : 4.0) << (dark ? "dark " : "light ") << toneName(text);
    for (std::uint64_t i = 0; i < 12; ++i) EXPECT_GE(contrast(theme.color(Tone::kText), theme.fill(i)), 4.5) << i;
    for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) EXPECT_GE(contrast(theme.color(Tone::kText), theme.heat(share)), 4.0) << share;
  }
}

/// The window's part of scripts, recorded.
class FakeView : public ActionView {
 public:
  std::vector<std::string> calls;
  std::function<void()> on_close;
  Status setTheme(bool dark) override { return note(dark ? "dark" : "light"); }
  Status resizeTo(int w, int h) override { return note("size " + std::to_string(w) + "x" + std::to_string(h)); }
  Status showPanel(const std::string& name) override { return note("panel " + name); }
  Status showCurve(const std::string& key) override { return note("curve " + key); }
  Status plan(const std::string& device, const std::string& gpus, const std::string& want) override { return note("plan " + device + " " + gpus + " " + want); }
  Status planned() override { return note("planned"); }
  Status takeRow(const std::string& row) override { return note("take " + row); }
  Status fit(bool selection) override { return note(selection ? "fit selection" : "fit"); }
  Status search(const std::string& query) override { return note("search " + query); }
  Status screenshot(const std::string& path) override { return note("screenshot " + path); }
  Status exportGraph(const std::string& path) override { return note("export " + path); }
  void closeWindow() override { calls.push_back("close"); }

 private:
  Status note(std::string call) {
    calls.push_back(std::move(call));
    return {};
  }
};

class WindowModels : public testing::Test {
 protected:
  Pump pump;
  Workspace workspace{pump.post()};
  GraphDocument graph{workspace};
  FakeView view;

  bool idle() {
    return pump.until([&] { return !workspace.jobs().busy(); });
  }
  /// nullopt: every action succeeded.
  std::optional<Error> script(const std::string& text) {
    auto actions = parseActions(text);
    if (!actions) return actions.error();
    bool finished = false;
    std::optional<Error> result;
    ActionRunner runner(workspace, graph, view, std::move(*actions), [&](std::optional<Error> error) {
      finished = true;
      result = std::move(error);
    });
    runner.start();
    EXPECT_TRUE(pump.until([&] { return finished; }));
    return result;
  }
};

TEST_F(WindowModels, AScriptDoesWhatTheWindowDoes) {
  const auto failed = script(
      "# a tour\n"
      "open \"" + kModel + "\"\n"
      "set dtype float64\n"
      "set sp 2\n"
      "\n"
      "compile\n"
      "diff shard-sequence insert-all-to-all\n"
      "expand all\n"
      "search op:all_to_all\n"
      "select blocks\n"
      "verify\n"
      "size 1280 800\n"
      "theme light\n"
      "close\n");
  ASSERT_FALSE(failed) << failed->format() << (failed->notes.empty() ? "" : failed->notes[0]);
  EXPECT_EQ(workspace.stages()[static_cast<std::size_t>(workspace.stage())].name, "insert-all-to-all");
  EXPECT_EQ(workspace.stages()[static_cast<std::size_t>(workspace.comparedWith())].name, "shard-sequence");
  ASSERT_TRUE(graph.counts());
  EXPECT_GT(graph.counts()->added, 0);
  EXPECT_EQ(workspace.selection().module, "blocks");
  EXPECT_EQ(stateLineOf(workspace).kind, StateLine::Kind::kEqual);
  EXPECT_EQ(view.calls, (std::vector<std::string>{"search op:all_to_all", "size 1280x800", "light", "close"}));
}

TEST_F(WindowModels, AScriptDebugs) {
  auto failed = script("step\n");
  ASSERT_TRUE(failed);
  EXPECT_NE(failed->message.find("no model is open"), std::string::npos) << failed->message;
  failed = script("open \"" + kModel + "\"\nstep\n");
  ASSERT_TRUE(failed);
  EXPECT_NE(failed->message.find("nothing is debugged"), std::string::npos) << failed->message;
  const std::string begin = "set dtype float64\ndebug\n";
  failed = script(begin + "break collective all_to_all if hit 2\ncontinue\nprint %nothing\n");
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->code, "value-unknown");
  EXPECT_EQ(failed->notes[0], "line 5: print %nothing");
  DebugSession& debug = workspace.debug();
  ASSERT_TRUE(debug.stop());
  EXPECT_EQ(debug.stop()->reason, session::debug::StopReason::kBreakpoint);
  EXPECT_EQ(debug.breakpoints().all()[0].hits, 2);
  const std::string there = debug.stop()->node;
  // What the window has an action of that name for is the debugger's where its words say so, or the word debug does.
  failed = script("step 3\nback 2\ndebug back\nback\nforward\ndebug where\n");
  ASSERT_FALSE(failed) << failed->format() << failed->notes[0];
  EXPECT_EQ(debug.stop()->node, there);
  failed = script("until phase backward\ndiff %" + workspace.graph()->node(workspace.graph()->order.front()).name + "\nwrong\npause\nstop debug\nend-debug\n");
  ASSERT_FALSE(failed) << failed->format() << failed->notes[0];
  EXPECT_EQ(debug.state(), DebugSession::State::kOff);
  EXPECT_EQ(debug.breakpoints().all().size(), 1u) << "they stay";
}

TEST_F(WindowModels, SettingsThatTheCommandsHaveAreSettingsOfTheWindow) {
  ASSERT_FALSE(script("open \"" + kModel + "\"\nset dtype bfloat16\nset master-weights off\nset grad-dtype param\n"));
  EXPECT_FALSE(workspace.settings().compile.master_weights);
  EXPECT_FALSE(workspace.settings().compile.wide_gradients);
  EXPECT_EQ(changedSettings(workspace.settings(), furtherSettings()), (std::vector<std::string>{"Precision bfloat16", "Float32 masters off", "Gradients param"}));
  EXPECT_FALSE(workspace.set("master-weights", "perhaps"));
  ASSERT_FALSE(script("compile\n"));
  // Rules: a file of them, said with its place where it is wrong.
  const std::string rules = SPSCOPE_SOURCE_DIR "/resources/rules/transformers.toml";
  ASSERT_TRUE(workspace.set("rules", rules));
  EXPECT_EQ(settingText(workspace.settings(), "rules"), rules);
  const TempFolder folder;
  const Status wrong = workspace.set("rules", folder.file("wrong.toml", "[[op]]\nname = 3\n"));
  ASSERT_FALSE(wrong);
  EXPECT_TRUE(wrong.error().code.starts_with("rule-")) << wrong.error().format();
  EXPECT_EQ(settingText(workspace.settings(), "rules"), rules) << "what was there stays";
  ASSERT_TRUE(workspace.set("rules", ""));
  EXPECT_EQ(workspace.settings().compile.rules, nullptr);
  ASSERT_TRUE(idle());
}

TEST_F(WindowModels, VerifyProvesAReducedTwin) {
  ASSERT_FALSE(script("open \"" + kModel + "\"\nset dtype float64\nset shrink on\nverify\n"));
  ASSERT_TRUE(workspace.verified());
  EXPECT_TRUE(workspace.verified()->equal);
  ASSERT_TRUE(workspace.shrunk());
  EXPECT_NE(stateLineOf(workspace).text.find("reduced twin"), std::string::npos) << stateLineOf(workspace).text;
  bool said = false;
  for (const LogEntry& e : workspace.logEntries()) said = said || e.message.starts_with("not shown by it");
  EXPECT_EQ(said, !workspace.shrunk()->not_kept.empty());
  ASSERT_FALSE(script("set shrink off\nverify\n"));
  EXPECT_FALSE(workspace.shrunk());
}

TEST_F(WindowModels, AScriptLaysOneTraceBelowAnother) {
  const std::string trace = SPSCOPE_SOURCE_DIR "/tests/data/traces/kineto_nccl.json";
  auto failed = script("beside " + trace + "\n");
  ASSERT_TRUE(failed);
  EXPECT_NE(failed->message.find("no trace is open"), std::string::npos) << failed->message;
  failed = script("open " + trace + "\nbeside " + trace + "\ncurve sac\n");
  ASSERT_FALSE(failed) << failed->format();
  ASSERT_TRUE(workspace.trace());
  ASSERT_TRUE(workspace.traceBeside());
  EXPECT_EQ(view.calls, (std::vector<std::string>{"curve sac"}));
  failed = script("beside /nonexistent.json\n");
  ASSERT_TRUE(failed);
  EXPECT_NE(failed->message.find("could not be read"), std::string::npos) << failed->message;
  EXPECT_TRUE(workspace.traceBeside()) << "the one that is there stays";
}

TEST_F(WindowModels, AScriptEndsAtTheFirstFailureWithItsLine) {
  auto failed = script("open \"" + kModel + "\"\ncompile\nselect no_such_node\ntheme dark\n");
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->outcome, Outcome::kNo);
  ASSERT_FALSE(failed->notes.empty());
  EXPECT_EQ(failed->notes[0], "line 3: select no_such_node");
  EXPECT_TRUE(view.calls.empty()) << "what follows is not done";
  failed = script("stage no-such-stage\n");
  ASSERT_TRUE(failed);
  EXPECT_NE(failed->legal.find("insert-all-to-all"), std::string::npos);
  failed = script("set dp 4000\nwait\n");
  ASSERT_TRUE(failed) << "a setting that cannot be compiled";
  EXPECT_EQ(failed->code, "setting-dp");
  EXPECT_EQ(failed->notes[0], "line 1: set dp 4000");
  failed = script("open /nonexistent.pt2\n");
  ASSERT_TRUE(failed);
  EXPECT_NE(failed->notes[0].find("line 1"), std::string::npos);
}

TEST_F(WindowModels, ScriptsThatAreNoneAreRefusedBeforeAnythingIsDone) {
  for (const auto& [text, line] : {std::pair{"open a\nfly\n", "line 2"}, {"set sp\n", "line 1"}, {"open a b\n", "line 1"}, {"\n\nopen \"a\n", "line 3"}}) {
    const auto parsed = parseActions(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().source, line);
  }
  const auto parsed = parseActions("open \"a b\" \r\n# x\n  select  n\n");
  ASSERT_TRUE(parsed);
  ASSERT_EQ(parsed->size(), 2u);
  EXPECT_EQ((*parsed)[0].words, std::vector<std::string>{"a b"});
  EXPECT_EQ((*parsed)[1].line, 3);
}

TEST_F(WindowModels, GV_08_TheStageStripSaysWhatEachStageDid) {
  ASSERT_FALSE(script("open \"" + kModel + "\"\n"));
  ASSERT_EQ(stageChips(workspace).size(), 1u);
  ASSERT_FALSE(script("compile\nstage insert-all-to-all\n"));
  const auto chips = stageChips(workspace);
  ASSERT_EQ(chips.size(), workspace.stages().size());
  EXPECT_EQ(std::count_if(chips.begin(), chips.end(), [](const StageChip& c) { return c.name == "import"; }), 1);
  double most = 0;
  bool wire = false;
  for (const StageChip& c : chips) {
    EXPECT_FALSE(c.detail.empty()) << c.name;
    EXPECT_FALSE(c.failed);
    EXPECT_EQ(c.shown, c.name == "insert-all-to-all");
    most = std::max(most, c.peak_share);
    wire = wire || !c.wire.empty();
  }
  EXPECT_DOUBLE_EQ(most, 1.0) << "the largest peak fills its bar";
  EXPECT_TRUE(wire);
  ASSERT_TRUE(workspace.set("memory-limit", "0.000001"));
  const auto limited = stageChips(workspace);
  EXPECT_TRUE(std::any_of(limited.begin(), limited.end(), [](const StageChip& c) { return c.over_limit; }));
}

TEST_F(WindowModels, ARefusalIsARedChipWithItsReason) {
  ASSERT_FALSE(script("open \"" + kModel + "\"\ncompile\n"));
  ASSERT_TRUE(script("set dp 4000\n"));
  const auto chips = stageChips(workspace);
  const StageChip& last = chips.back();
  EXPECT_TRUE(last.failed);
  EXPECT_NE(last.detail.find("setting-dp"), std::string::npos);
  EXPECT_FALSE(last.tip.empty());
  EXPECT_EQ(stateLineOf(workspace).kind, StateLine::Kind::kFailed);
}

TEST_F(WindowModels, AClickOnAChipComparesWithTheStageBefore) {
  ASSERT_FALSE(script("open \"" + kModel + "\"\ncompile\n"));
  const int stage = stageNamed(workspace, "insert-all-to-all");
  chooseStage(workspace, stage, false);
  EXPECT_EQ(workspace.stage(), stage);
  EXPECT_EQ(workspace.comparedWith(), stage - 1);
  chooseStage(workspace, 1, true);
  EXPECT_EQ(workspace.stage(), stage);
  EXPECT_EQ(workspace.comparedWith(), 1);
  chooseStage(workspace, 1, true);
  EXPECT_EQ(workspace.comparedWith(), -1);
  chooseStage(workspace, 0, false);
  EXPECT_EQ(workspace.comparedWith(), -1) << "nothing lies before the first";
  ASSERT_TRUE(idle());
}

TEST_F(WindowModels, GV_06_AValueIsSelectedAndAllItsUsersAreLit) {
  ASSERT_FALSE(script("open \"" + kModel + "\"\nexpand all\n"));
  const GraphDrawing& scene = graph.scene()->scene();
  int with_users = 0;
  for (std::size_t b = 0; b < scene.boxes.size(); ++b) {
    const Selection s = graph.selectionOf(static_cast<std::int32_t>(b));
    workspace.select(s);
    EXPECT_EQ(graph.selectedBox(), static_cast<std::int32_t>(b));
    const auto users = graph.usersOfSelection();
    with_users += !users.boxes.empty();
    for (const std::int32_t e : users.edges) EXPECT_EQ(scene.edges[static_cast<std::size_t>(e)].from, static_cast<std::int32_t>(b));
  }
  EXPECT_GT(with_users, 10);
  // The arrow keys reach something from everywhere, and never nothing at all.
  std::int32_t at = graph.neighbour(-1, 0, 1);
  ASSERT_GE(at, 0);
  int steps = 0;
  while (steps < 1000) {
    const std::int32_t next = graph.neighbour(at, 0, 1);
    if (next < 0) break;
    EXPECT_GT(scene.boxes[static_cast<std::size_t>(next)].rect.y, scene.boxes[static_cast<std::size_t>(at)].rect.y);
    at = next;
    ++steps;
  }
  EXPECT_GT(steps, 10);
  // A node inside a closed module is shown once it is revealed.
  const ir::NodeId last = workspace.graph()->order.back();
  graph.closeAll();
  Selection s;
  s.node = last;
  workspace.select(s);
  EXPECT_TRUE(graph.revealSelection());
  EXPECT_GE(graph.scene()->scene().boxes[static_cast<std::size_t>(graph.selectedBox())].node, 0);
}

TEST_F(WindowModels, GV_01_TheDrawingIsMadeOffTheWindowsThreadAndCanBeCancelled) {
  bool seen = false;
  workspace.listen([&](Topic topic) {
    if (topic != Topic::kModel || !workspace.model() || seen) return;
    seen = true;
    EXPECT_EQ(graph.scene(), nullptr) << "nothing was laid out where events are handled";
  });
  workspace.open(kModel);
  ASSERT_TRUE(pump.until([&] { return graph.busy() || graph.scene() != nullptr; }));
  ASSERT_TRUE(seen);
  ASSERT_TRUE(graph.busy());
  workspace.lanes().cancel("graph");
  ASSERT_TRUE(idle());
  EXPECT_EQ(graph.scene(), nullptr);
}

TEST_F(WindowModels, GV_02_WhatIsUnderWayIsSaidAndCanBeStopped) {
  std::vector<StateLine> said;
  workspace.listen([&](Topic topic) {
    if (topic == Topic::kBusy) said.push_back(stateLineOf(workspace));
  });
  workspace.open(kModel);
  EXPECT_EQ(stateLineOf(workspace).kind, StateLine::Kind::kBusy);
  EXPECT_TRUE(stateLineOf(workspace).text.starts_with("opening")) << stateLineOf(workspace).text;
  EXPECT_NE(stateLineOf(workspace).tip.find("Escape"), std::string::npos);
  workspace.stop("open");
  ASSERT_TRUE(idle());
  EXPECT_FALSE(workspace.model());
  EXPECT_EQ(stateLineOf(workspace).kind, StateLine::Kind::kNone) << "no complaint about what was asked for";
  EXPECT_FALSE(said.empty());
}

TEST_F(WindowModels, TheEndOfAModulesPathIsEnoughWhereItIsTheOnlyOne) {
  ASSERT_FALSE(script("open \"" + kModel + "\"\n"));
  const auto whole = selectionNamed(graph, "blocks.0");
  ASSERT_TRUE(whole);
  std::string deep;
  for (const Module& m : graph.source()->tree->modules())
    if (m.path.starts_with("blocks.0.") || m.path.find(".blocks.0.") != std::string::npos) deep = m.path;
  ASSERT_FALSE(deep.empty());
  const std::string end = deep.substr(deep.find("0."));  // "0.mlp", say
  const auto found = selectionNamed(graph, end);
  ASSERT_TRUE(found) << found.error().format();
  EXPECT_EQ(found->module, deep);
  const auto many = selectionNamed(graph, deep.substr(deep.rfind('.') + 1));
  ASSERT_FALSE(many) << "every block has one";
  EXPECT_NE(many.error().legal.find(deep), std::string::npos) << many.error().format();
}

TEST_F(WindowModels, TheSameModulesStayOpenFromStageToStage) {
  ASSERT_FALSE(script("open \"" + kModel + "\"\ncompile\ncollapse all\nexpand blocks\n"));
  const auto open = graph.openPaths();
  ASSERT_FALSE(open.empty());
  ASSERT_FALSE(script("stage insert-all-to-all\n"));
  EXPECT_EQ(graph.openPaths(), open);
}

TEST_F(WindowModels, GV_08_ExportsWhatIsShownWithoutADisplay) {
  const TempFolder folder;
  ASSERT_FALSE(script("open \"" + kModel + "\"\nexpand all\n"));
  const std::string svg = folder.path() + "/g.svg", text = folder.path() + "/g.txt";
  ASSERT_TRUE(exportText(graph, svg, Theme(true)));
  const std::string drawn = read(svg);
  EXPECT_TRUE(drawn.starts_with("<svg"));
  EXPECT_NE(drawn.find("</svg>"), std::string::npos);
  std::size_t boxes = 0;
  for (std::size_t at = drawn.find("<g>"); at != std::string::npos; at = drawn.find("<g>", at + 1)) ++boxes;
  EXPECT_EQ(boxes, graph.scene()->scene().boxes.size());
  ASSERT_TRUE(exportText(graph, text, Theme(true)));
  EXPECT_GT(read(text).size(), 1000u);
  const Status other = exportText(graph, folder.path() + "/g.docx", Theme(true));
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().legal.find(".svg"), std::string::npos);
}

TEST_F(WindowModels, ASessionComesBack) {
  const TempFolder folder;
  ASSERT_FALSE(script("open \"" + kModel + "\"\nset sp 2\nset save all\ncompile\ndiff shard-sequence insert-all-to-all\ncolour memory\nselect blocks\n"));
  SessionState state;
  captureSession(workspace, graph, state);
  addRecent(state, kModel);
  state.dark = false;
  state.geometry = "tab\there\nand \\ there";
  const std::string path = folder.path() + "/config/spscope/session";
  ASSERT_TRUE(saveSession(path, state)) << "makes the folders";
  EXPECT_EQ(loadSession(path), state);

  Workspace other{pump.post()};
  GraphDocument other_graph(other);
  beginRestore(other, other_graph, loadSession(path));
  ASSERT_TRUE(pump.until([&] { return finishRestore(other, other_graph, state); }));
  ASSERT_TRUE(pump.until([&] { return !other.jobs().busy(); }));
  SessionState again;
  captureSession(other, other_graph, again);
  again.recent = state.recent;
  again.dark = state.dark;
  again.geometry = state.geometry;
  EXPECT_EQ(again, state);
}

TEST(SessionFile, DamagedAndMissingOnesAreEmptyAndUnwritableOnesSaySo) {
  const TempFolder folder;
  const std::string path = folder.path() + "/session";
  EXPECT_EQ(loadSession(path), SessionState{});
  std::ofstream(path) << "\x00\xff garbage\nfile\tx\n";
  EXPECT_EQ(loadSession(path), SessionState{});
  std::ofstream(path) << "spscope session 1\nfile\t/a.pt2\nno tab here\nset\tsp\nfuture\tvalue\ntheme\tlight\n";
  const SessionState state = loadSession(path);
  EXPECT_EQ(state.file, "/a.pt2");
  EXPECT_FALSE(state.dark);
  EXPECT_TRUE(state.settings.empty());
  std::filesystem::create_directory(folder.path() + "/folder");
  const Status saved = saveSession(folder.path() + "/folder", state);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, "file-unwritable");
}

TEST(SessionFile, RecentFilesAreNewestFirstAndOnce) {
  SessionState state;
  for (int i = 0; i < 15; ++i) addRecent(state, "f" + std::to_string(i));
  addRecent(state, "f10");
  ASSERT_EQ(state.recent.size(), 10u);
  EXPECT_EQ(state.recent[0], "f10");
  EXPECT_EQ(std::count(state.recent.begin(), state.recent.end(), "f10"), 1);
}

}  // namespace
}  // namespace spscope::ui
