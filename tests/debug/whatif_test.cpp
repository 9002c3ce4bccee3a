// SPDX-License-Identifier: Apache-2.0
// One thing marked otherwise: what the compilation makes of it is told, and is what a compilation with that mark gives. And stages as places
// to stop.
#include "tests/debug/debug_session.h"

namespace spscope::zoo {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class DebugWhatIf : public DebugSession {
 protected:
  static constexpr const char* kModel = "llama_causal_gqa_pos";
  dbg::WhatIf ask(const std::string& what) { return say("whatif " + what).what_if.value(); }
  /// A node of rank 0's forward whose value the step makes again, or keeps.
  std::string forwardNode(passes::Decision decision, const std::string& op) {
    const ir::Graph& g = debugger_->graph(0);
    for (const passes::ValueDecision& d : setup_.compiled->compiled.memory.front().values)
      if (const ir::Node& n = g.node(d.node); d.decision == decision && n.op.str() == op) return n.name;
    throw std::runtime_error("no such node");
  }
};

TEST_F(DebugWhatIf, AnotherPolicyIsThatPolicy) {
  open(kModel, 2);
  const dbg::WhatIf answer = ask("save all");
  ASSERT_FALSE(answer.refused);
  session::CompileRequest what;
  what.settings = setup_.origin->settings;
  what.settings.save = "all";
  const session::CompileOutcome all = session::compile(*setup_.origin->model, what, request_).value();
  EXPECT_EQ(answer.now.peak_bytes, setup_.compiled->figures.memory.peak);
  EXPECT_EQ(answer.then.peak_bytes, all.figures.memory.peak);
  EXPECT_EQ(answer.then.saved_bytes, all.figures.saved_bytes);
  EXPECT_EQ(answer.then.recompute_nodes, 0);
  EXPECT_GT(answer.now.recompute_nodes, 0);
  EXPECT_GT(answer.now.recompute_flops, 0);
  EXPECT_FALSE(answer.removed.empty());  // what was made again
  EXPECT_EQ(answer.now.comm_bytes, answer.then.comm_bytes);
  EXPECT_EQ(refused("whatif save everything").code, "setting-save");
}

TEST_F(DebugWhatIf, AValueThatIsMadeAgainCanBeKept) {
  open(kModel, 2);
  const std::string name = forwardNode(passes::Decision::kRecompute, "aten.mul.Tensor");
  const dbg::WhatIf answer = ask("%" + name + " save");
  ASSERT_FALSE(answer.refused);
  EXPECT_THAT(answer.now.kept, StartsWith("made again"));
  EXPECT_THAT(answer.then.kept, StartsWith("saved"));
  EXPECT_GT(answer.then.saved_bytes, answer.now.saved_bytes);
  EXPECT_FALSE(answer.marked.empty());
  EXPECT_FALSE(answer.source.empty());
}

TEST_F(DebugWhatIf, AValueThatIsKeptCanBeMadeAgain) {
  open(kModel, 2);
  std::string name;  // kept for its price alone: nothing forbids to make it again
  for (const passes::ValueDecision& d : setup_.compiled->compiled.memory.front().values)
    if (name.empty() && d.decision == passes::Decision::kSave && passes::reasonText(d.reason).find("costs more") != std::string_view::npos) name = debugger_->graph(0).node(d.node).name;
  ASSERT_FALSE(name.empty());
  const dbg::WhatIf answer = ask("%" + name + " recompute");
  ASSERT_FALSE(answer.refused);
  EXPECT_THAT(answer.now.kept, StartsWith("saved"));
  EXPECT_THAT(answer.then.kept, StartsWith("made again"));
  EXPECT_GT(answer.then.recompute_nodes, answer.now.recompute_nodes);
}

TEST_F(DebugWhatIf, AValueThatIsWholeCostsAGather) {
  open(kModel, 2);
  std::string name;
  for (const ir::NodeId id : debugger_->graph(0).order)
    if (const ir::Node& n = debugger_->graph(0).node(id); name.empty() && n.op.str() == "aten.mm.default") name = n.name;
  const dbg::WhatIf answer = ask("%" + name + " whole");
  ASSERT_FALSE(answer.refused) << answer.refused->format();
  EXPECT_THAT(answer.now.placement, StartsWith("sharded"));
  EXPECT_THAT(answer.then.placement, HasSubstr("to some of its readers replicated"));
  EXPECT_EQ(answer.then.gathers, answer.now.gathers + 1);
  EXPECT_GT(answer.then.comm_bytes, answer.now.comm_bytes);
  EXPECT_EQ(answer.marked + ".mm", name);  // the model's linear became a transposition and a product
  // An input may be whole, too: then nothing follows the sequence through it.
  const dbg::WhatIf input = ask("%input_ids whole");
  ASSERT_FALSE(input.refused) << input.refused->format();
  EXPECT_NE(input.then.comm_bytes, input.now.comm_bytes);
}

TEST_F(DebugWhatIf, WhatIsRefusedIsAnAnswer) {
  open(kModel, 2);
  const dbg::WhatIf answer = ask("%input_ids shard 5");
  ASSERT_TRUE(answer.refused);
  EXPECT_EQ(answer.refused->code, "mark-dim");
  const dbg::WhatIf many = ask("sp 4096");
  EXPECT_TRUE(many.refused || many.then.peak_bytes > 0);
  const dbg::WhatIf four = ask("sp 4");
  ASSERT_FALSE(four.refused);
  EXPECT_LT(four.then.peak_bytes, four.now.peak_bytes);
  EXPECT_EQ(refused("whatif %no_such_value save").code, "value-unknown");
  EXPECT_EQ(refused("whatif %input_ids save").code, "whatif-no-node");
  EXPECT_EQ(refused("whatif").code, "usage");
  EXPECT_EQ(refused("whatif %input_ids red").code, "usage");
}

TEST_F(DebugWhatIf, AStageIsAPlaceToStop) {
  open(kModel, 2);
  const std::vector<dbg::NodeName> exchanges = say("find stage insert-all-to-all").nodes;
  ASSERT_FALSE(exchanges.empty());
  // Fused later, they say another pass in their provenance; the stage knows them all the same.
  EXPECT_TRUE(std::any_of(exchanges.begin(), exchanges.end(), [](const dbg::NodeName& n) { return n.op.starts_with("sp."); }));
  for (const ir::NodeId id : debugger_->graph(0).order) {
    const ir::Node& n = debugger_->graph(0).node(id);
    if (n.provenance.pass.str() != "schedule") continue;
    EXPECT_THAT(say("find stage schedule").nodes, testing::Contains(testing::Field(&dbg::NodeName::name, n.name)));
    break;
  }
  say("break stage insert-all-to-all");
  const dbg::Stop stop = say("continue").stop.value();
  EXPECT_EQ(stop.reason, dbg::StopReason::kBreakpoint);
  EXPECT_EQ(stop.node, exchanges.front().name);
  const Error error = refused("break stage insert-al-to-all");
  EXPECT_EQ(error.code, "debug-no-node");
}

}  // namespace
}  // namespace spscope::zoo
