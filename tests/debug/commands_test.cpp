// SPDX-License-Identifier: Apache-2.0
// Every command, by its line of text, on models of the zoo.
#include <filesystem>
#include <fstream>

#include "core/base/strings.h"
#include "core/ir/python_stack.h"
#include "core/torch/tensor_store.h"
#include "tests/debug/debug_session.h"
#include "tests/support/mesh_run.h"

namespace spscope::zoo {
namespace {

std::size_t placeOf(const dbg::Stop& stop, int rank) { return static_cast<std::size_t>(stop.ranks.at(static_cast<std::size_t>(rank)).next.place); }

class Commands : public DebugSession, public testing::WithParamInterface<std::tuple<std::string, int>> {
 protected:
  void SetUp() override {
    ranks_ = std::get<1>(GetParam());
    open(std::get<0>(GetParam()), ranks_);
  }
  const ir::Graph& graph() const { return debugger_->graph(0); }
  /// A value of the forward that is sharded, has a counterpart and is made by one of the given ops.
  std::string shardedValue() {
    for (const ir::NodeId id : graph().order) {
      const ir::Node& n = graph().node(id);
      if (n.phase != ir::Phase::kForward || n.outputs.size() != 1 || n.op.str().starts_with("sp.")) continue;
      const ir::Value& v = graph().value(n.outputs[0]);
      if (v.placement.isSharded() && ir::isFloating(v.dtype) && v.storage == ir::kNone && n.op.str() == "aten.mul.Tensor") return v.name;
    }
    throw std::runtime_error("no sharded value");
  }
  int ranks_ = 0;
};

TEST_P(Commands, SteppingMovesAllRanksOrOne) {
  EXPECT_EQ(say("where").stop->reason, dbg::StopReason::kStart);
  dbg::Stop stop = say("step").stop.value();
  EXPECT_EQ(stop.moves, 1);
  for (int r = 0; r < ranks_; ++r) EXPECT_EQ(placeOf(stop, r), 1u);
  stop = say("s 3 rank 1").stop.value();
  EXPECT_EQ(stop.moves, 3);
  EXPECT_EQ(placeOf(stop, 0), 1u);
  EXPECT_EQ(placeOf(stop, 1), 4u);
  // One rank comes as far as a collective that needs the others.
  stop = say("continue rank 1").stop.value();
  EXPECT_EQ(stop.reason, dbg::StopReason::kWaits);
  EXPECT_EQ(stop.rank, 1);
  EXPECT_TRUE(stop.ranks.at(1).collective);
  EXPECT_THAT(stop.message, testing::HasSubstr("rank 0 has not come to it"));
  const std::string waits_at = stop.ranks.at(1).next.name;
  // The others come there too, each by itself; then all go on together.
  for (int r = 0; r < ranks_; ++r) {
    if (r == 1) continue;
    EXPECT_EQ(say("until %" + waits_at + " rank " + std::to_string(r)).stop->reason, dbg::StopReason::kReached);
  }
  stop = say("step rank 0").stop.value();
  for (int r = 0; r < ranks_; ++r) EXPECT_NE(stop.ranks.at(static_cast<std::size_t>(r)).next.name, waits_at);
}

TEST_P(Commands, NextAndOutLeaveTheModule) {
  say("until phase forward");
  say("until module *layers.0*");
  dbg::Stop at = say("where").stop.value();
  const std::string module = at.ranks[0].next.module;
  ASSERT_FALSE(module.empty());
  const dbg::Stop behind = say("next").stop.value();
  EXPECT_FALSE(behind.ranks[0].next.module == module || behind.ranks[0].next.module.starts_with(module + "."));
  EXPECT_GT(behind.moves, 0);
  const dbg::Stop outside = say("out").stop.value();
  EXPECT_GT(outside.made, behind.made);
}

TEST_P(Commands, CollectivesAndQueriesStop) {
  const dbg::Stop first = say("collective").stop.value();
  EXPECT_EQ(first.reason, dbg::StopReason::kReached);
  EXPECT_TRUE(first.ranks[0].next.op.starts_with("sp."));
  EXPECT_TRUE(first.ranks[0].collective);
  const dbg::Stop attention = say("until op *scaled_dot_product*").stop.value();
  EXPECT_TRUE(ir::isAttention(Symbol(attention.ranks[0].next.op)));
  const dbg::Stop backward = say("until phase backward").stop.value();
  EXPECT_EQ(backward.ranks[0].next.phase, "backward");
  const dbg::Stop end = say("continue").stop.value();
  EXPECT_EQ(end.reason, dbg::StopReason::kEnd);
  EXPECT_TRUE(end.ranks[0].ended);
  const dbg::Stop back = say("back op *scaled_dot_product*").stop.value();
  EXPECT_EQ(back.reason, dbg::StopReason::kReached);
  EXPECT_LT(back.moves, 0);
  EXPECT_TRUE(ir::isAttention(Symbol(back.ranks[0].next.op)));
  EXPECT_EQ(say("back 100000").stop->reason, dbg::StopReason::kStart);
  EXPECT_EQ(say("restart").stop->made, 0);
}

TEST_P(Commands, BreakpointsStopLogAndSave) {
  const mesh::Folder folder;
  const auto by_source = say("find op *scaled_dot_product*").nodes;
  ASSERT_FALSE(by_source.empty());
  const dbg::Breakpoint source = say("break source " + by_source.front().source).breakpoints->front();
  EXPECT_EQ(source.id, 1);
  const dbg::Stop stop = say("continue").stop.value();
  EXPECT_EQ(stop.breakpoint, 1);
  EXPECT_EQ(stop.ranks[0].next.source, by_source.front().source);
  say("delete 1");
  say("break collective do log");
  say("break op *scaled_dot_product* if hit 2");
  say("break %" + by_source.front().name + " do save " + folder.path + "/%.npy");
  const dbg::Stop second = say("continue").stop.value();
  EXPECT_EQ(second.breakpoint, 3);
  EXPECT_THAT(second.log, testing::Contains(testing::HasSubstr("breakpoint 2")));
  for (int r = 0; r < ranks_; ++r) {
    const auto value = graph().node(graph().order[static_cast<std::size_t>(by_source.front().place)]).outputs[0];
    const std::string path = folder.path + "/" + graph().value(value).name + ".rank" + std::to_string(r) + ".npy";
    std::ifstream in(path, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    ASSERT_GT(bytes.size(), 128u) << path;
    EXPECT_EQ(bytes.substr(0, 6), "\x93NUMPY");
    EXPECT_EQ((10 + static_cast<unsigned char>(bytes[8]) + 256 * static_cast<unsigned char>(bytes[9])) % 64, 0);
  }
  EXPECT_EQ(say("breakpoints").breakpoints->size(), 3u);
  EXPECT_TRUE(say("delete all").breakpoints->empty());
}

TEST_P(Commands, NoSavedValueTakesTheFileOfAnother) {
  const mesh::Folder folder;
  say("break op aten.mul* do save " + folder.path + "/x.npy");
  const std::size_t saved = say("continue").stop->log.size();
  std::size_t files = 0;
  for (const auto& e : std::filesystem::directory_iterator(folder.path)) files += e.is_regular_file();
  EXPECT_GT(saved, 8u);
  EXPECT_EQ(files, saved);
  // One value alone keeps the name that was asked for.
  say("delete all");
  say("restart");
  const std::string name = shardedValue();
  say("break %" + name + " do save " + folder.path + "/alone.npy");
  say("continue");
  EXPECT_TRUE(std::filesystem::exists(folder.path + "/alone.rank0.npy"));
  EXPECT_TRUE(std::filesystem::exists(folder.path + "/alone.rank1.npy"));
}

TEST_P(Commands, ALineIsEnteredOnceALayerAndPhase) {
  // The line of the outermost frame is on every stack: whatever ran there began with the first node of each layer and phase.
  std::string outer, inner;
  for (const ir::NodeId id : graph().order) {
    const ir::Node& n = graph().node(id);
    if (!ir::isAttention(n.op) || !n.location || n.phase != ir::Phase::kForward) continue;
    const auto frames = ir::framesOf(n.location->stack);
    ASSERT_GT(frames.size(), 1u);
    outer = std::string(frames.front().file) + ":" + std::to_string(frames.front().line);
    inner = std::string(frames.back().file.substr(frames.back().file.rfind('/') + 1)) + ":" + std::to_string(frames.back().line);
    break;
  }
  const auto nodes = say("find line " + outer).nodes;
  std::size_t entries = 0, on_it = 0;
  const ir::Node* last = nullptr;
  for (const ir::NodeId id : graph().order) {
    const ir::Node& n = graph().node(id);
    const bool on = n.location && n.location->stack.find(", line " + outer.substr(outer.rfind(':') + 1) + ",") != std::string::npos;
    on_it += on;
    entries += on && (last == nullptr || last->phase != n.phase || ir::layerOf(last->location->module_path) != ir::layerOf(n.location->module_path));
    last = on ? &n : nullptr;
  }
  EXPECT_EQ(nodes.size(), entries);
  EXPECT_LT(nodes.size(), on_it / 3);
  // A function's line, by the end of its path.
  say("break line " + inner);
  const dbg::Stop stop = say("continue").stop.value();
  EXPECT_EQ(stop.reason, dbg::StopReason::kBreakpoint);
  EXPECT_EQ(stop.ranks[0].next.phase, "forward");
  EXPECT_EQ(refused("find line nowhere.py:1").code, "debug-no-node");
  EXPECT_EQ(refused("find line nowhere.py").code, "debug-no-node");
}

TEST_P(Commands, BackToTheLastBreakpointThatWasMet) {
  say("break op aten.mul*");
  say("break op aten.add* if abs>0.01");
  std::vector<dbg::Stop> stops;
  for (int i = 0; i < 4; ++i) stops.push_back(say("continue").stop.value());
  const auto hits = debugger_->breakpoints();
  say("step 2 rank 1");  // ranks need not stand together
  for (std::size_t i = stops.size(); i-- > 0;) {
    const dbg::Stop back = debugger_->backToBreakpoint().value();
    EXPECT_EQ(back.reason, dbg::StopReason::kBreakpoint);
    EXPECT_EQ(back.made, stops[i].made);
    EXPECT_EQ(back.breakpoint, stops[i].breakpoint);
    EXPECT_EQ(back.node, stops[i].node);
    for (int r = 0; r < ranks_; ++r) EXPECT_EQ(placeOf(back, r), placeOf(stops[i], r));
  }
  const dbg::Stop beginning = debugger_->backToBreakpoint().value();
  EXPECT_EQ(beginning.reason, dbg::StopReason::kStart);
  EXPECT_EQ(beginning.made, 0);
  for (std::size_t i = 0; i < hits.size(); ++i) EXPECT_EQ(debugger_->breakpoints()[i].hits, hits[i].hits);
}

TEST_P(Commands, ValuesAreShownGatheredComparedAndSaved) {
  const mesh::Folder folder;
  const std::string name = shardedValue();
  EXPECT_EQ(refused("print %" + name).code, "value-not-live");  // not yet
  say("until %" + name);
  say("step");
  const dbg::ValueLook live = say("print %" + name).value.value();
  EXPECT_FALSE(live.again);
  ASSERT_EQ(live.ranks.size(), static_cast<std::size_t>(ranks_));
  EXPECT_THAT(live.placement, testing::HasSubstr("sharded"));
  const exec::TensorBag whole = debugger_->whole(name).value();
  EXPECT_EQ(whole.entry(0).shape, live.shape);
  const exec::TensorBag wanted = debugger_->unsharded(name).value();
  const auto got = whole.values(whole.entry(0).name).value(), twin = wanted.values(wanted.entry(0).name).value();
  ASSERT_EQ(got.size(), twin.size());
  double most = 0.0, off = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) most = std::max(most, std::abs(got[i])), off = std::max(off, std::abs(got[i] - twin[i]));
  EXPECT_LE(off, 1e-12 * most);
  const dbg::Comparison same = say("diff %" + name).comparison.value();
  EXPECT_TRUE(same.alone.empty());
  EXPECT_TRUE(same.within);
  const dbg::Comparison ranks = say("diff %" + name + " rank 0 rank 1").comparison.value();
  EXPECT_FALSE(ranks.within);  // other tokens
  // A window is what the whole has there.
  const std::string corner("0,0");
  const dbg::Answer window = say("gather %" + name + " " + corner);
  ASSERT_FALSE(window.window->cells.values.empty());
  for (std::size_t i = 0; i < window.window->cells.values.size(); ++i) EXPECT_EQ(window.window->cells.values[i], got[i]);
  const auto of_rank = say("print %" + name + " " + corner + " rank 1").window.value();
  EXPECT_EQ(of_rank.rank, 1);
  const auto heat = say("heat %" + name).heat.value();
  EXPECT_EQ(*std::max_element(heat.cells.values.begin(), heat.cells.values.end()), most);
  say("save %" + name + " " + folder.path + "/whole.safetensors");
  const exec::TensorBag saved = exec::loadBag(folder.path + "/whole.safetensors").value();
  EXPECT_TRUE(bitEqual(saved, whole));
  // Long after, it is made again.
  say("continue");
  const dbg::ValueLook again = say("print %" + name).value.value();
  EXPECT_TRUE(again.again);
  for (std::size_t r = 0; r < again.ranks.size(); ++r) {
    EXPECT_EQ(again.ranks[r].summary.mean, live.ranks[r].summary.mean);
    EXPECT_EQ(again.ranks[r].summary.histogram, live.ranks[r].summary.histogram);
  }
}

TEST_P(Commands, WhyTellsPlacementExchangeAndProvenance) {
  const auto has = [](const std::vector<dbg::WhyRow>& rows, const std::string& question, const std::string& answer) {
    return std::any_of(rows.begin(), rows.end(), [&](const dbg::WhyRow& r) { return r.question.find(question) != std::string::npos && r.answer.find(answer) != std::string::npos; });
  };
  const std::string value = shardedValue();
  const auto of_value = say("why %" + value).why;
  EXPECT_TRUE(has(of_value, "how is it placed", "sharded: dimension"));
  EXPECT_TRUE(has(of_value, "by which rule", "that of mul for"));
  EXPECT_TRUE(has(of_value, "is it kept", ": "));
  EXPECT_TRUE(has(of_value, "alive at the peak", "the peak is at"));
  const auto exchanges = say("find collective all_to_all").nodes;
  ASSERT_FALSE(exchanges.empty());
  const auto of_exchange = say("why %" + exchanges.front().name).why;
  EXPECT_TRUE(has(of_exchange, "what does it exchange", "asked for by %"));
  EXPECT_TRUE(has(of_exchange, "which pass made it", "fuse-collectives"));
  const auto list = say("list 2");
  EXPECT_EQ(list.nodes.size(), 3u);  // at the beginning
  EXPECT_EQ(list.marked, 0);
}

TEST_P(Commands, WhatIsNotUnderstoodIsSaidWithTheNearestNames) {
  EXPECT_EQ(refused("contineu").legal, "continue");
  EXPECT_EQ(refused("step x").code, "usage");
  EXPECT_EQ(refused("step 1 2").code, "usage");
  EXPECT_EQ(refused("step rank 9").code, "usage");
  EXPECT_EQ(refused("break if bogus").code, "usage");
  EXPECT_EQ(refused("break if abs").code, "usage");
  EXPECT_EQ(refused("break op aten.nothing*").code, "debug-no-node");
  const std::string name = shardedValue();
  EXPECT_EQ(refused("print %" + name + "x").legal, "%" + name);
  EXPECT_EQ(refused("until %" + name + "x").legal, "%" + name);
  EXPECT_EQ(refused("print %" + std::string(300'000, 'x')).code, "value-unknown");
  const std::string kinds = refused("until collective foo").legal;
  EXPECT_THAT(split(kinds, ','), testing::Contains("all_reduce"));
  EXPECT_THAT(kinds, testing::Not(testing::HasSubstr("%")));
  // What is wrong with a window or a file, and what would be right.
  const Error window = refused("print %input_ids 0,99999");
  EXPECT_EQ(window.code, "tensor-shape");
  EXPECT_THAT(window.remedy, testing::HasSubstr("a range of each dimension"));
  EXPECT_THAT(window.legal, testing::StartsWith("ranges within ["));
  EXPECT_THAT(refused("print %input_ids 0,0,0").remedy, testing::HasSubstr("a range of each dimension"));
  EXPECT_THAT(refused("save %input_ids /no/such/folder/x.npy").remedy, testing::HasSubstr("Make the folder"));
  EXPECT_TRUE(say("   # nothing").command.empty());
  EXPECT_EQ(say("help").help.size(), dbg::commandTable().size());
  EXPECT_TRUE(say("quit").quit);
  EXPECT_THAT(dbg::completions(*debugger_, "con"), testing::ElementsAre("continue"));
  EXPECT_THAT(dbg::completions(*debugger_, "print %" + name.substr(0, name.size() - 1)), testing::Contains("%" + name));
}

INSTANTIATE_TEST_SUITE_P(Models, Commands, testing::Combine(testing::Values("llama_causal_gqa_pos", "llama_gqa_pad"), testing::Values(2, 4)), nameWithRanks);

TEST(DebugBreakpoints, TextsAreReadBackAsTheyArePrinted) {
  for (const char* text : {"%mm_3", "op aten.mm* if nan", "module model.layers.0 if abs>3 hit 2", "source model.py:12 do log", "line model.py:12", "phase backward if differs rank 1",
                           "collective all_to_all", "any if zeros>0.5 do save x.npy", "any if hit 3"}) {
    std::vector<std::string> words;
    for (const std::string& w : split(text, ' ')) words.push_back(w);
    const auto b = dbg::parseBreakpoint(words);
    ASSERT_TRUE(b) << text << ": " << b.error().format();
    EXPECT_EQ(b->text(), text);
  }
}

TEST(DebugQueries, PatternsMatchAsShellsDo) {
  EXPECT_TRUE(dbg::like("aten.mm.default", "aten.*"));
  EXPECT_TRUE(dbg::like("aten.mm.default", "*mm*"));
  EXPECT_TRUE(dbg::like("abc", "a?c"));
  EXPECT_TRUE(dbg::like("", "*"));
  EXPECT_FALSE(dbg::like("abc", "ab"));
  EXPECT_FALSE(dbg::like("abc", "*b"));
  EXPECT_TRUE(dbg::like("aXbXc", "a*X*c"));
}

}  // namespace
}  // namespace spscope::zoo
