// SPDX-License-Identifier: Apache-2.0
// The debugger in the window, without a window: started and ended, commands one after the other, breakpoints that are kept, the values
// of the selected node, marks on the graph.
#include "ui/model/debug/debug_session.h"

#include <gmock/gmock.h>

#include "tests/support/temp_folder.h"
#include "tests/support/workspace_fixture.h"
#include "ui/model/debug/line_history.h"
#include "ui/model/debug/look_page.h"
#include "ui/model/inspector.h"
#include "ui/model/session_file.h"

namespace spscope::ui {
namespace {

namespace dbg = session::debug;

class DebugSessionTest : public WorkspaceFixture {
 protected:
  DebugSession& debug = workspace.debug();

  bool settled() {
    return pump.until([&] { return !workspace.jobs().busy() && !debug.busy(); });
  }
  void startDebugger() {
    ASSERT_NO_FATAL_FAILURE(openModel());
    ASSERT_TRUE(workspace.set("dtype", "float64"));
    ASSERT_TRUE(settled());
    debug.start();
    ASSERT_TRUE(debug.on());
    ASSERT_TRUE(settled());
    ASSERT_FALSE(debug.startError()) << debug.startError()->format();
    ASSERT_EQ(debug.state(), DebugSession::State::kStopped);
  }
  void say(const std::string& line) {
    debug.send(line);
    ASSERT_TRUE(settled());
    ASSERT_FALSE(debug.lastError()) << line << ": " << debug.lastError()->format();
  }
  const ir::Graph& program() { return *workspace.compiled()->compiled.programs.front(); }
  std::string selected() {
    const ir::NodeId node = workspace.selection().node;
    return node == ir::kNone ? std::string() : program().node(node).name;
  }
};

TEST_F(DebugSessionTest, StartsWithWhatIsCompiledAndShowsWhereTheRanksStand) {
  startDebugger();
  ASSERT_TRUE(workspace.compiled()) << "compiled for it";
  EXPECT_EQ(workspace.stage(), static_cast<int>(workspace.stages().size()) - 1) << "what runs is shown";
  ASSERT_TRUE(debug.stop());
  EXPECT_EQ(debug.ranks(), 2);
  EXPECT_EQ(debug.stop()->reason, dbg::StopReason::kStart);
  EXPECT_EQ(selected(), program().node(program().order.front()).name);
  say("step 3");
  EXPECT_EQ(debug.stop()->made, 3);
  EXPECT_EQ(selected(), debug.stop()->node);
  EXPECT_EQ(debug.stop()->ranks[1].next.place, 3);
  ASSERT_EQ(debug.console().size(), 1u);
  EXPECT_TRUE(debug.console()[0].done);
  say("back 2");
  EXPECT_EQ(debug.stop()->made, 1);
  // Marks: both ranks at one node.
  const auto& marks = debug.marks(workspace.graph());
  ASSERT_EQ(marks.size(), 1u);
  EXPECT_EQ(marks.begin()->first, workspace.selection().node);
  EXPECT_EQ(rangesText(marks.begin()->second.ranks), "0-1");
  debug.send("no-such-command");
  ASSERT_TRUE(settled());
  ASSERT_TRUE(debug.lastError());
  EXPECT_TRUE(debug.console().back().failed);
  say("continue");
  EXPECT_EQ(debug.stop()->reason, dbg::StopReason::kEnd);
  EXPECT_EQ(debug.headline(), "the step is over");
  debug.end();
  EXPECT_EQ(debug.state(), DebugSession::State::kOff);
  EXPECT_FALSE(debug.stop());
  ASSERT_TRUE(settled());
  debug.send("step");
  EXPECT_TRUE(debug.lastError()) << "nothing is debugged";
}

TEST_F(DebugSessionTest, ANewProgramEndsIt) {
  startDebugger();
  debug.send("continue");
  ASSERT_TRUE(workspace.set("sp", "4"));
  ASSERT_TRUE(settled());
  EXPECT_EQ(debug.state(), DebugSession::State::kOff);
  debug.start();
  ASSERT_TRUE(settled());
  EXPECT_EQ(debug.ranks(), 4);
}

TEST_F(DebugSessionTest, AStartCanBeStopped) {
  ASSERT_NO_FATAL_FAILURE(compileModel());
  debug.start();
  EXPECT_EQ(debug.state(), DebugSession::State::kStarting);
  debug.send("step");  // waits for it
  workspace.stop(DebugSession::kLane);
  EXPECT_EQ(debug.state(), DebugSession::State::kOff) << "at once: nothing waits for what is under way";
  EXPECT_TRUE(debug.console().back().failed);
  ASSERT_TRUE(settled());
  EXPECT_FALSE(debug.on());
  debug.start();
  ASSERT_TRUE(settled());
  EXPECT_EQ(debug.state(), DebugSession::State::kStopped);
  EXPECT_EQ(debug.stop()->made, 0) << "the command went with the start that was stopped";
}

TEST_F(DebugSessionTest, ARefusedStartIsTold) {
  ASSERT_NO_FATAL_FAILURE(openModel());
  ASSERT_TRUE(workspace.set("inputs", "/nonexistent.safetensors"));
  debug.start();
  ASSERT_TRUE(settled());
  ASSERT_TRUE(debug.startError());
  EXPECT_EQ(debug.state(), DebugSession::State::kOff);
  EXPECT_NE(debug.headline().find("not started"), std::string::npos) << debug.headline();
  ASSERT_TRUE(workspace.set("inputs", ""));
  debug.start();
  ASSERT_TRUE(settled());
  EXPECT_EQ(debug.state(), DebugSession::State::kStopped) << "and can be tried again";
}

TEST_F(DebugSessionTest, PauseStopsTheRanksBetweenTwoNodes) {
  startDebugger();
  // There and back as often as it takes: it is paused somewhere in it.
  ASSERT_TRUE(debug.addBreakpoint("any do log").has_value());
  for (int i = 0; i < 100; ++i) {
    debug.send("continue");
    debug.pause();
    ASSERT_TRUE(settled());
    ASSERT_FALSE(debug.lastError());
    if (debug.stop()->reason == dbg::StopReason::kPaused) break;
    debug.send("restart");
    ASSERT_TRUE(settled());
  }
  ASSERT_EQ(debug.stop()->reason, dbg::StopReason::kPaused);
  const std::int64_t made = debug.stop()->made;
  EXPECT_LT(made, static_cast<std::int64_t>(program().order.size()));
  say("step");
  EXPECT_EQ(debug.stop()->made, made + 1) << "it goes on from there";
  say("continue");
  EXPECT_EQ(debug.stop()->reason, dbg::StopReason::kEnd);
}

TEST_F(DebugSessionTest, ABreakpointSetOnTheWayStopsThemStill) {
  startDebugger();
  const std::string last = program().node(program().order.back()).name;  // they come to it later
  bool stopped = false;
  for (int i = 0; i < 20 && !stopped; ++i) {
    say("restart");
    debug.send("continue");
    ASSERT_TRUE(debug.addBreakpoint("%" + last));
    ASSERT_TRUE(settled());
    ASSERT_FALSE(debug.lastError());
    // On a busy machine they may have been through before it was set: then once more.
    stopped = debug.stop()->reason == dbg::StopReason::kBreakpoint;
    EXPECT_EQ(debug.stop()->reason, stopped ? dbg::StopReason::kBreakpoint : dbg::StopReason::kEnd);
    EXPECT_TRUE(!stopped || debug.stop()->node == last);
    debug.removeBreakpoint(0);
  }
  EXPECT_TRUE(stopped);
}

TEST_F(DebugSessionTest, ASearchForTheFirstWrongNodeCanBeStopped) {
  startDebugger();
  debug.send("wrong");
  debug.pause();
  ASSERT_TRUE(settled());
  if (debug.lastError()) {
    EXPECT_EQ(debug.lastError()->code, "cancelled");
  }
  say("wrong");
  ASSERT_TRUE(debug.wrong());
  EXPECT_FALSE(debug.wrong()->first) << "and begun again";
  EXPECT_THAT(debug.headline(), testing::StartsWith("nothing is wrong: "));
}

TEST_F(DebugSessionTest, BreakpointsAreTheModelsAndGoWithTheDebugger) {
  ASSERT_NO_FATAL_FAILURE(compileModel());
  ASSERT_TRUE(debug.addBreakpoint("collective all_to_all if hit 2"));
  ASSERT_TRUE(debug.addBreakpoint("%no_such_node"));
  EXPECT_FALSE(debug.addBreakpoint("if sideways"));
  EXPECT_EQ(debug.breakpoints().all().size(), 2u);
  EXPECT_TRUE(debug.marks(workspace.graph()).empty()) << "the imported graph has no exchanges";
  workspace.showStages(static_cast<int>(workspace.stages().size()) - 1, -1);
  EXPECT_FALSE(debug.marks(workspace.graph()).empty());
  debug.start();
  ASSERT_TRUE(settled());
  say("continue");
  EXPECT_EQ(debug.stop()->reason, dbg::StopReason::kBreakpoint);
  EXPECT_EQ(debug.breakpoints().all()[0].hits, 2);
  EXPECT_NE(debug.breakpoints().all()[1].problem, "") << "the program has no such node";
  EXPECT_EQ(selected(), debug.stop()->node);
  // From the console.
  say("break phase backward");
  ASSERT_EQ(debug.breakpoints().all().size(), 3u);
  EXPECT_EQ(debug.breakpoints().all()[2].text, "phase backward");
  debug.enableBreakpoint(0, false);
  say("continue");
  EXPECT_EQ(debug.stop()->ranks[0].next.phase, "backward");
  say("delete all");
  EXPECT_EQ(debug.breakpoints().all().size(), 2u) << "the disabled one and the one that it could not take are not the debugger's";
  ASSERT_TRUE(debug.changeBreakpoint(0, "phase backward"));
  EXPECT_FALSE(debug.changeBreakpoint(0, "phase sideways of it"));
  debug.enableBreakpoint(0, true);
  say("restart");
  say("continue");
  EXPECT_EQ(debug.stop()->reason, dbg::StopReason::kBreakpoint);
  debug.toggleBreakpoint("phase backward");
  EXPECT_EQ(debug.breakpoints().find("phase backward"), -1);
  debug.end();
  EXPECT_EQ(debug.breakpoints().all()[0].problem, "");
}

TEST_F(DebugSessionTest, BreakpointsComeBackWithTheSessionAndAreOfOneModel) {
  const TempFolder folder;
  ASSERT_NO_FATAL_FAILURE(openModel());
  ASSERT_TRUE(debug.addBreakpoint("op aten.mm* if nan"));
  ASSERT_TRUE(debug.addBreakpoint("source a\tb.py:3"));
  debug.enableBreakpoint(1, false);
  GraphDocument graph(workspace);
  SessionState state;
  addRecent(state, workspace.settings().open.path);
  captureSession(workspace, graph, state);
  ASSERT_EQ(state.breakpoints.size(), 2u);
  ASSERT_TRUE(saveSession(folder.path("session"), state));
  EXPECT_EQ(loadSession(folder.path("session")), state);
  // Another model has its own; the first one's are there when it is opened again.
  ASSERT_NO_FATAL_FAILURE(openModel("llama_gqa_pos"));
  EXPECT_TRUE(debug.breakpoints().all().empty());
  ASSERT_NO_FATAL_FAILURE(openModel());
  EXPECT_EQ(debug.breakpoints().all().size(), 2u);
  Workspace later(pump.post());
  GraphDocument later_graph(later);
  beginRestore(later, later_graph, loadSession(folder.path("session")));
  ASSERT_TRUE(pump.until([&] { return later.model() && !later.jobs().busy(); }));
  ASSERT_EQ(later.debug().breakpoints().all().size(), 2u);
  EXPECT_EQ(later.debug().breakpoints().all()[0].text, "op aten.mm* if nan");
  EXPECT_FALSE(later.debug().breakpoints().all()[1].enabled);
}

TEST_F(DebugSessionTest, ValuesOfTheSelectedNodeAreReadPutTogetherAndCompared) {
  startDebugger();
  say("until op sp.all_to_all*");
  say("step 40");
  const auto select = [&](ir::NodeId id) {
    selectNode(id);
    ASSERT_TRUE(settled());
  };
  const auto look = [&] { return debug.look(); };
  ASSERT_TRUE(look());
  EXPECT_EQ(look()->node, selected());
  const auto readable = [&] { return look()->chosen >= 0 && look()->values[static_cast<std::size_t>(look()->chosen)].look.has_value(); };
  for (int i = 0; i < 20 && !readable(); ++i) say("step");  // a wait reads what is on its way
  ASSERT_GE(look()->chosen, 0);
  ASSERT_TRUE(look()->values[static_cast<std::size_t>(look()->chosen)].look) << look()->absent;
  ASSERT_TRUE(look()->comparison) << look()->not_compared;
  EXPECT_TRUE(!look()->comparison->alone.empty() || look()->comparison->within);
  ASSERT_TRUE(look()->heat);
  EXPECT_FALSE(look()->why.empty());
  EXPECT_FALSE(whyPage(*look()).sections[0].rows.empty());
  const InspectorPage page = valuePage(*look());
  ASSERT_NE(page.find("On each rank"), nullptr);
  EXPECT_EQ(page.find("On each rank")->rows.size(), 2u);
  debug.lookAtRank(1);
  ASSERT_TRUE(settled());
  EXPECT_EQ(valuePage(*look()).find("On each rank")->rows[0].label, "rank 1");
  EXPECT_EQ(look()->heat->rank, 1);
  debug.lookAtWindow("0");
  ASSERT_TRUE(settled());
  EXPECT_TRUE(look()->window) << look()->window_problem;
  debug.lookAtWindow("99999999");
  ASSERT_TRUE(settled());
  EXPECT_NE(look()->window_problem, "");
  debug.lookAtRank(-1);
  select(program().order.back());
  EXPECT_EQ(look()->node, selected());
  // Its result is not there yet.
  EXPECT_TRUE(std::any_of(look()->values.begin(), look()->values.end(), [](const LookedValue& v) { return v.there == LookedValue::There::kNotYet; }));
  // The first value that was freed: only on request.
  ir::NodeId freed = ir::kNone;
  for (const ir::NodeId id : program().order) {
    select(id);
    if (look()->may_be_computed) {
      freed = id;
      break;
    }
  }
  ASSERT_NE(freed, ir::kNone);
  EXPECT_EQ(look()->absent, "freed by now");
  EXPECT_FALSE(look()->heat);
  const std::int64_t made = debug.stop()->made;
  debug.computeAgain();
  ASSERT_TRUE(settled());
  EXPECT_TRUE(look()->again);
  EXPECT_EQ(look()->absent, "");
  ASSERT_NE(valuePage(*look()).find("On each rank"), nullptr);
  EXPECT_EQ(debug.stop()->made, made) << "the ranks have not moved";
}

TEST_F(DebugSessionTest, ASourceLineOfTheInspectorTakesABreakpoint) {
  ASSERT_NO_FATAL_FAILURE(compileModel("llama_gqa_pos"));
  Inspector inspector(workspace);
  selectNode(find([](const ir::Node& n) { return n.location && !n.location->source.empty(); }));
  const std::string line = workspace.graph()->node(workspace.selection().node).location->source;
  const auto row = [&] {
    for (const InspectorRow& r : inspector.page().find("Source")->rows)
      if (r.label == "breakpoint") return r;
    return InspectorRow{};
  };
  EXPECT_TRUE(row().link());
  inspector.follow(row());
  ASSERT_EQ(debug.breakpoints().all().size(), 1u);
  EXPECT_EQ(debug.breakpoints().all()[0].text, "source " + line);
  EXPECT_NE(row().text.find("remove"), std::string::npos) << "the page says that it is there";
  EXPECT_EQ(debug.marks(workspace.graph()).at(workspace.selection().node).dot, NodeMark::Dot::kOn);
  inspector.follow(row());
  EXPECT_TRUE(debug.breakpoints().all().empty());
}

TEST_F(DebugSessionTest, TheFirstWrongNodeIsSelected) {
  ASSERT_NO_FATAL_FAILURE(openModel());
  workspace.open(SPSCOPE_SOURCE_DIR "/tests/data/chaotic.pt2");  // two right programs differ
  ASSERT_TRUE(settled());
  debug.start();
  ASSERT_TRUE(settled());
  say("wrong");
  ASSERT_TRUE(debug.wrong());
  ASSERT_TRUE(debug.wrong()->first);
  EXPECT_EQ(debug.wrong()->first->source, "chaotic.py:26");
  EXPECT_THAT(debug.headline(), testing::HasSubstr("first wrong: %" + debug.wrong()->first->node));
  EXPECT_EQ(selected(), debug.wrong()->first->node);
  EXPECT_EQ(workspace.selection().rank, debug.wrong()->first->ranks.front());
}

TEST(LineHistory, GoesUpAndDownAndKeepsWhatWasBegun) {
  LineHistory h;
  EXPECT_EQ(h.older("ste"), "ste");
  h.add("step");
  h.add("step");
  h.add("continue");
  EXPECT_EQ(h.older("pri"), "continue");
  EXPECT_EQ(h.older("continue"), "step");
  EXPECT_EQ(h.older("step"), "step");
  EXPECT_EQ(h.newer("step"), "continue");
  EXPECT_EQ(h.newer("continue"), "pri");
  EXPECT_EQ(h.newer("pri"), "pri");
}

TEST(Ranges, ReadAsAPersonWouldWriteThem) {
  EXPECT_EQ(rangesText({}), "");
  EXPECT_EQ(rangesText({3}), "3");
  EXPECT_EQ(rangesText({0, 1, 2, 5, 7, 8}), "0-2, 5, 7-8");
}

}  // namespace
}  // namespace spscope::ui
