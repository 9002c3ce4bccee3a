// SPDX-License-Identifier: Apache-2.0
// Ranks that are processes: the same commands give the same answers as virtual ranks; they stand for longer than the deadline of a
// collective; they are paused in the middle; one that is killed is said.
#include <signal.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "core/base/strings.h"
#include "core/session/debug/process_tape.h"
#include "tests/debug/debug_session.h"
#include "tests/support/processes.h"

namespace spscope::zoo {
namespace {

using testing::HasSubstr;

class Processes : public DebugSession {
 protected:
  /// A debugger of rank processes over what open() has made, beside the one of virtual ranks.
  void openProcesses(double timeout_seconds = 120) {
    dbg::Debugger::Setup setup = setup_;
    setup.processes = run_;
    setup.processes->timeout_seconds = timeout_seconds;
    auto made = dbg::Debugger::create(std::move(setup), request_);
    ASSERT_TRUE(made) << made.error().format();
    virtual_ = std::move(debugger_);
    debugger_ = std::move(*made);
  }
  /// Both answers of a command.
  std::pair<dbg::Answer, dbg::Answer> both(const std::string& line) { return {say(line), dbg::execute(*virtual_, line)}; }
  static double scalar(const exec::TensorBag& bag) { return bag.scalar(bag.entry(0).name).value(); }
  /// The name of the loss.
  std::string loss() const {
    for (const ir::Output& output : debugger_->graph(0).outputs)
      if (output.kind == ir::OutputKind::kLoss) return debugger_->graph(0).value(output.value).name;
    throw std::runtime_error("no loss");
  }
  std::unique_ptr<dbg::Debugger> virtual_;
};

void expectSameStop(const dbg::Stop& a, const dbg::Stop& b, const std::string& line) {
  EXPECT_EQ(dbg::reasonWord(a.reason), dbg::reasonWord(b.reason)) << line;
  EXPECT_EQ(a.message, b.message) << line;
  EXPECT_EQ(a.node, b.node) << line;
  EXPECT_EQ(a.rank, b.rank) << line;
  EXPECT_EQ(a.moves, b.moves) << line;
  EXPECT_EQ(a.made, b.made) << line;
  EXPECT_EQ(a.log, b.log) << line;
  ASSERT_EQ(a.ranks.size(), b.ranks.size()) << line;
  for (std::size_t r = 0; r < a.ranks.size(); ++r) {
    EXPECT_EQ(a.ranks[r].ended, b.ranks[r].ended) << line;
    EXPECT_EQ(a.ranks[r].next.name, b.ranks[r].next.name) << line;
    EXPECT_EQ(a.ranks[r].collective, b.ranks[r].collective) << line;
  }
}

class SameAnswers : public Processes, public testing::WithParamInterface<std::tuple<std::string, int>> {};

TEST_P(SameAnswers, AsOfVirtualRanks) {
  open(std::get<0>(GetParam()), std::get<1>(GetParam()));
  ASSERT_NO_FATAL_FAILURE(openProcesses());
  for (const std::string line : {"where", "step", "step 5", "step 3 rank 1", "continue rank 1", "collective", "break op aten.*mm* do log", "break phase backward",
                                 "break any if abs>1e9", "break phase forward if zeros>0.4 hit 2 do log", "continue", "back 7", "step 2", "until collective", "back phase forward",
                                 "delete all", "break phase backward if differs>0.5", "until phase backward", "continue", "restart", "continue"}) {
    const auto [here, there] = both(line);
    if (here.stop) {
      ASSERT_TRUE(there.stop) << line;
      expectSameStop(*here.stop, *there.stop, line);
    }
    if (here.breakpoints) {
      ASSERT_EQ(here.breakpoints->size(), there.breakpoints->size());
    }
  }
  // Every value that is there at the end, and some that are gone: bit for bit, or as near as another order of a sum is.
  std::size_t compared = 0, again = 0, equal = 0;
  const ir::Graph& g = debugger_->graph(0);
  for (std::size_t i = 0; i < g.order.size(); ++i) {
    const ir::Node& node = g.node(g.order[i]);
    const bool result = std::any_of(g.outputs.begin(), g.outputs.end(), [&](const ir::Output& o) { return o.value != ir::kNone && g.value(o.value).producer == node.id; });
    if (node.outputs.size() != 1 || (!result && i % 29 != 5)) continue;
    const std::string name = g.value(node.outputs[0]).name;
    const auto mine = debugger_->parts(name), others = virtual_->parts(name);
    ASSERT_EQ(mine.has_value(), others.has_value()) << name << (mine ? "" : ": " + mine.error().format());
    if (!mine) continue;
    EXPECT_EQ(mine->again, others->again) << name;
    again += mine->again ? 1 : 0;
    for (std::size_t r = 0; r < mine->of_rank.size(); ++r) {
      const exec::TensorBag &a = mine->of_rank[r], &b = others->of_rank[r];
      ASSERT_EQ(a.entry(0).shape, b.entry(0).shape) << name;
      ASSERT_EQ(a.entry(0).dtype, b.entry(0).dtype) << name;
      ++compared;
      if (bitEqual(a, b)) {
        ++equal;
        continue;
      }
      const auto x = a.values(a.entry(0).name).value(), y = b.values(b.entry(0).name).value();
      double difference = 0, norm = 0;
      for (std::size_t e = 0; e < x.size(); ++e) difference += (x[e] - y[e]) * (x[e] - y[e]), norm += y[e] * y[e];
      EXPECT_LE(std::sqrt(difference), 1e-12 * std::sqrt(norm) + 1e-15) << name << " of rank " << r;
    }
  }
  EXPECT_GT(compared, 10u);
  EXPECT_GT(again, 0u);
  RecordProperty("compared", static_cast<int>(compared));
  RecordProperty("bit_equal", static_cast<int>(equal));
  // Answers about values.
  for (const std::string& line : {"print %" + loss(), "gather %" + loss(), "diff %" + loss()}) {
    const auto [here, there] = both(line);
    if (here.value) {
      EXPECT_EQ(here.value->placement, there.value->placement);
      EXPECT_EQ(here.value->ranks.size(), there.value->ranks.size());
    }
    if (here.comparison) {
      EXPECT_TRUE(here.comparison->within);
      EXPECT_EQ(here.comparison->reference_node, there.comparison->reference_node);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SameAnswers,
                         testing::Values(std::tuple("llama_causal_gqa_pos", 2), std::tuple("gpt2_dropout_pos", 2), std::tuple("nanogpt", 2), std::tuple("llama_causal_gqa_pos", 4)), nameWithRanks);

class FaultsOnGloo : public Processes {
 protected:
  /// The first such node of rank 0's program.
  std::string nodeOf(const char* op) {
    open(kModel, 2, [](ir::Graph&, int) {});
    for (const ir::NodeId id : debugger_->graph(0).order)
      if (debugger_->graph(0).node(id).op.str() == op) return debugger_->graph(0).node(id).name;
    throw std::runtime_error("no such node");
  }
  static constexpr const char* kModel = "llama_causal_gqa_pos";
};

TEST_F(FaultsOnGloo, TheProgramsThatRunAreThoseOfTheDebugger) {
  const std::string at = nodeOf("aten.mm.default");
  open(kModel, 2, [&](ir::Graph& g, int rank) {
    if (rank == 1) insertBehind(g, at, "aten.mul.Scalar", {{"other", std::nan("")}});
  });
  ASSERT_NO_FATAL_FAILURE(openProcesses());
  std::string found;
  for (const std::string line : {"break if nan", "continue", "print %fault rank 1", "delete all", "restart", "break phase forward if differs", "continue"}) {
    const auto [here, there] = both(line);
    if (here.stop) expectSameStop(*here.stop, *there.stop, line);
    if (here.stop && here.stop->reason == dbg::StopReason::kBreakpoint && found.empty()) found = here.stop->node;
    if (here.value) {
      EXPECT_GT(here.value->ranks.at(0).scan.nan, 0);
      EXPECT_EQ(here.value->ranks.at(0).scan.nan, there.value->ranks.at(0).scan.nan);
      EXPECT_EQ(here.value->ranks.at(0).scan.strange, there.value->ranks.at(0).scan.strange);
    }
  }
  EXPECT_EQ(found, "fault");
}

TEST_F(FaultsOnGloo, ANodeThatFailsOnOneRankIsNamedAndTheyStandBeforeIt) {
  const std::string at = nodeOf("aten.mm.default");
  open(kModel, 2, [&](ir::Graph& g, int rank) {
    if (rank == 1) insertBehind(g, at, "aten.view.default", {{"size", std::vector<std::int64_t>{7, 11, 13}}});
  });
  ASSERT_NO_FATAL_FAILURE(openProcesses());
  const auto [here, there] = both("continue");
  EXPECT_EQ(here.stop->reason, dbg::StopReason::kFailed);
  expectSameStop(*here.stop, *there.stop, "continue");
  EXPECT_EQ(here.stop->ranks.at(1).next.name, "fault");
  // Its operand is there, as it was.
  EXPECT_TRUE(bitEqual(debugger_->parts(at).value().of_rank[1], virtual_->parts(at).value().of_rank[1]));
}

class OnGloo : public Processes {
 protected:
  void SetUp() override { open("llama_causal_gqa_pos", 2); }
};

TEST_F(OnGloo, TheyStandForLongerThanTheDeadlineOfACollective) {
  ASSERT_NO_FATAL_FAILURE(openProcesses(3.0));
  for (const char* where : {"until collective all_to_all*", "step 1", "until phase backward"}) {  // before one, behind its start, far from any
    say(where);
    std::this_thread::sleep_for(std::chrono::milliseconds(where == std::string("step 1") ? 3700 : 50));
  }
  const dbg::Stop end = say("continue").stop.value();
  EXPECT_EQ(end.reason, dbg::StopReason::kEnd) << end.message;
  dbg::execute(*virtual_, "continue");
  EXPECT_TRUE(bitEqual(debugger_->parts(loss()).value().of_rank[0], virtual_->parts(loss()).value().of_rank[0]));
}

TEST_F(OnGloo, APauseStopsThemInTheMiddleAndTheyGoOn) {
  ASSERT_NO_FATAL_FAILURE(openProcesses());
  dbg::execute(*virtual_, "continue");
  const std::string name = loss();
  int paused = 0;
  for (int tries = 0; tries < 60 && paused < 5; ++tries) {
    std::atomic<bool> over{false};
    std::thread asks([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(500 * (tries % 10)));
      while (!over) {
        debugger_->pause();
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    });
    const dbg::Answer answer = dbg::execute(*debugger_, "continue");
    over = true;
    asks.join();
    ASSERT_TRUE(answer.stop) << answer.error->format();
    const dbg::Stop& stop = *answer.stop;
    ASSERT_TRUE(stop.reason == dbg::StopReason::kPaused || stop.reason == dbg::StopReason::kEnd) << stop.message;
    if (stop.reason == dbg::StopReason::kPaused && stop.moves > 0) ++paused;
    if (stop.reason == dbg::StopReason::kEnd) say("restart");
  }
  EXPECT_GE(paused, 1) << "never in the middle of the step";
  EXPECT_EQ(say("continue").stop->reason, dbg::StopReason::kEnd);
  EXPECT_TRUE(bitEqual(debugger_->parts(name).value().of_rank[1], virtual_->parts(name).value().of_rank[1]));
}

TEST_F(OnGloo, ARankThatIsKilledIsSaidAndTheStepBeginsAnew) {
  ASSERT_NO_FATAL_FAILURE(openProcesses());
  say("until collective");
  const std::vector<int> pids = debugger_->processes();
  ASSERT_EQ(pids.size(), 2u);
  ASSERT_EQ(kill(pids[1], SIGKILL), 0);
  const auto begin = std::chrono::steady_clock::now();
  const Error error = refused("continue");
  EXPECT_EQ(error.code, "rank-died") << error.format();
  EXPECT_THAT(error.message, HasSubstr("rank 1"));
  EXPECT_THAT(error.message, HasSubstr("9"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(refused("print %" + loss()).code == "rank-died" || refused("print %" + loss()).code == "value-not-live", true);
  for (const int pid : pids) EXPECT_FALSE(dist::isRunning(pid));
  EXPECT_EQ(say("restart").stop->reason, dbg::StopReason::kStart);
  EXPECT_EQ(say("continue").stop->reason, dbg::StopReason::kEnd);
  dbg::execute(*virtual_, "continue");
  EXPECT_TRUE(bitEqual(debugger_->parts(loss()).value().of_rank[0], virtual_->parts(loss()).value().of_rank[0]));
  const std::vector<int> later = debugger_->processes();
  debugger_.reset();
  for (const int pid : later) EXPECT_FALSE(dist::isRunning(pid));
}

}  // namespace
}  // namespace spscope::zoo
