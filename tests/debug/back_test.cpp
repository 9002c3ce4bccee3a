// SPDX-License-Identifier: Apache-2.0
// Going back in time: what was there then is there again, to the last bit.
#include <map>

#include "core/ir/pending.h"
#include "core/session/debug/virtual_tape.h"
#include "core/torch/compare.h"
#include "tests/debug/debug_session.h"

namespace spscope::zoo {
namespace {

using Live = std::map<std::pair<int, ir::ValueId>, exec::TensorBag>;

class Back : public DebugSession, public testing::WithParamInterface<std::tuple<std::string, int>> {
 protected:
  std::unique_ptr<dbg::VirtualTape> tape(std::int64_t budget = 0) {
    open(std::get<0>(GetParam()), std::get<1>(GetParam()));
    dbg::VirtualTape::Setup setup;
    setup.programs = setup_.sides.programs;
    setup.state = setup_.sides.state;
    setup.inputs = setup_.sides.inputs;
    setup.step.seed = 7;
    setup.budget_bytes = budget;
    return dbg::VirtualTape::create(std::move(setup)).value();
  }
  static bool onItsWay(const ir::Graph& g, ir::ValueId v) {  // a buffer that nobody may look at before the wait
    return g.value(v).producer != ir::kNone && ir::isStart(g.node(g.value(v).producer).op);
  }
  /// Copies of all values that exist, of all ranks.
  static Live live(dbg::Tape& tape) {
    Live out;
    for (int r = 0; r < tape.size(); ++r) {
      const ir::Graph& g = tape.graph(r);
      for (std::size_t v = 0; v < g.valueCount(); ++v)
        if (auto value = tape.value(r, static_cast<ir::ValueId>(v)); value && !onItsWay(g, static_cast<ir::ValueId>(v))) out.emplace(std::pair{r, static_cast<ir::ValueId>(v)}, value->clone());
    }
    return out;
  }
  static void expectSame(const Live& a, const Live& b, const std::string& where) {
    ASSERT_EQ(a.size(), b.size()) << where;
    ASSERT_GT(a.size(), 0u);
    for (const auto& [key, value] : a) {
      ASSERT_TRUE(b.contains(key)) << where << ": value " << key.second << " of rank " << key.first;
      ASSERT_TRUE(bitEqual(value, b.at(key))) << where << ": value " << key.second << " of rank " << key.first;
    }
  }
};

TEST_P(Back, AHundredNodesAndForwardAgainGiveTheSameBits) {
  const auto made = tape();
  dbg::Tape& t = *made;
  std::map<std::size_t, Live> then;  // by move: every 50th, and the end
  while (!t.done()) {
    if (t.moves() % 50 == 0) then.emplace(t.moves(), live(t));
    ASSERT_TRUE(t.move());
  }
  const std::size_t end = t.moves();
  ASSERT_GT(end, 200u);
  then.emplace(end, live(t));
  // From the end by hundreds to the beginning, and forward again after each.
  for (std::size_t at = end; at >= 100; at -= 100) {
    const std::size_t target = at - 100;
    ASSERT_TRUE(t.backTo(target));
    ASSERT_EQ(t.moves(), target);
    if (then.contains(target)) expectSame(then.at(target), live(t), "back at " + std::to_string(target));
    while (t.moves() < at) ASSERT_TRUE(t.move());
    if (then.contains(at)) expectSame(then.at(at), live(t), "forward again at " + std::to_string(at));
    ASSERT_TRUE(t.backTo(target));
  }
  ASSERT_TRUE(t.backTo(0));
  while (!t.done()) {
    if (then.contains(t.moves())) expectSame(then.at(t.moves()), live(t), "the whole way again, at " + std::to_string(t.moves()));
    ASSERT_TRUE(t.move());
  }
  expectSame(then.at(end), live(t), "at the end");
  EXPECT_GT(t.figures().snapshots, 1u);
  EXPECT_LE(t.figures().snapshot_bytes, std::int64_t{1} << 30);
}

TEST_P(Back, SnapshotsStayWithinTheirBudget) {
  const auto made = tape(200'000);
  dbg::Tape& t = *made;
  while (!t.done()) ASSERT_TRUE(t.move());
  const Live end = live(t);
  const std::size_t moves = t.moves();
  ASSERT_TRUE(t.backTo(moves - 20));
  EXPECT_LE(t.figures().snapshot_bytes, 200'000);
  while (!t.done()) ASSERT_TRUE(t.move());
  expectSame(end, live(t), "at the end");
}

TEST_P(Back, AValueThatWasFreedIsMadeAgain) {
  const auto made = tape();
  dbg::Tape& t = *made;
  std::map<std::string, std::vector<exec::TensorBag>> seen;  // copies of what the ranks had right after
  while (!t.done()) {
    const dbg::Places before = t.places();
    ASSERT_TRUE(t.move());
    if (t.moves() % 17 != 0) continue;
    for (int r = 0; r < t.size(); ++r) {
      const auto i = static_cast<std::size_t>(r);
      if (t.places()[i] == before[i]) continue;
      const ir::Graph& g = t.graph(r);
      for (const ir::ValueId v : g.node(g.order[before[i]]).outputs)
        if (v != ir::kNone && !onItsWay(g, v))
          if (auto value = t.value(r, v)) {
            auto& of = seen[g.value(v).name];
            of.resize(static_cast<std::size_t>(t.size()));
            of[i] = value->clone();
          }
    }
  }
  int gone = 0;
  for (const auto& [name, of_rank] : seen) {
    for (int r = 0; r < t.size(); ++r) {
      const auto i = static_cast<std::size_t>(r);
      if (of_rank[i].empty()) continue;
      const ir::Graph& g = t.graph(r);
      std::vector<ir::ValueId> ask(static_cast<std::size_t>(t.size()), ir::kNone);
      for (std::size_t v = 0; v < g.valueCount(); ++v)
        if (g.value(static_cast<ir::ValueId>(v)).name == name) ask[i] = static_cast<ir::ValueId>(v);
      if (t.value(r, ask[i])) continue;
      const auto again = t.again(ask);
      ASSERT_TRUE(again) << name << ": " << again.error().format();
      ASSERT_TRUE(bitEqual((*again)[i], of_rank[i])) << name << " of rank " << r;
      ++gone;
      break;  // one rank of each is enough
    }
  }
  EXPECT_GT(gone, 10);
}

INSTANTIATE_TEST_SUITE_P(Models, Back, testing::Combine(testing::Values("gpt2_dropout_pos", "llama_causal_gqa_pos"), testing::Values(2, 4)), nameWithRanks);

}  // namespace
}  // namespace spscope::zoo
