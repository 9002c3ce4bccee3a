// SPDX-License-Identifier: Apache-2.0
// The schedule that is known from the programs alone is the one in which virtual ranks move.
#include "core/session/debug/schedule.h"

#include "core/session/virtual_programs.h"
#include "tests/debug/debug_session.h"

namespace spscope::zoo {
namespace {

class ScheduleOf : public DebugSession, public testing::WithParamInterface<std::tuple<std::string, int>> {
 protected:
  void SetUp() override {
    open(std::get<0>(GetParam()), std::get<1>(GetParam()));
    ranks_.emplace(session::prepareRanks(setup_.sides.programs, setup_.sides.state).value());
    ASSERT_TRUE(ranks_->begin(setup_.sides.inputs, setup_.sides.step));
    schedule_.emplace(dbg::Schedule::create(setup_.sides.programs).value());
    places_.assign(static_cast<std::size_t>(ranks_->ranks()), 0);
  }
  void expectSame() {
    for (int r = 0; r < ranks_->ranks(); ++r) {
      ASSERT_EQ(places_[static_cast<std::size_t>(r)], ranks_->position(r)) << "rank " << r;
      ASSERT_EQ(schedule_->meets(r, places_[static_cast<std::size_t>(r)]), ranks_->meets(r)) << "rank " << r << " at " << ranks_->position(r);
    }
  }
  std::optional<exec::VirtualRanks> ranks_;
  std::optional<dbg::Schedule> schedule_;
  dbg::Places places_;
};

TEST_P(ScheduleOf, AllTogether) {
  while (!ranks_->done()) {
    ASSERT_TRUE(ranks_->stepNode());
    ASSERT_TRUE(schedule_->move(places_));
    expectSame();
  }
}

TEST_P(ScheduleOf, OneByOne) {
  // A rank runs until it waits; then the next one; the last one takes all over the collective.
  std::size_t waits = 0;
  for (int rank = 0; !ranks_->done() && waits < 40;) {
    if (ranks_->position(rank) >= ranks_->program(rank).nodeCount()) {
      rank = (rank + 1) % ranks_->ranks();
      continue;
    }
    const Status ran = ranks_->stepNode(rank), planned = schedule_->move(places_, rank);
    ASSERT_EQ(ran.has_value(), planned.has_value());
    expectSame();
    if (ran) continue;
    EXPECT_EQ(planned.error().code, "rank-waits");
    EXPECT_EQ(planned.error().message, ran.error().message);
    EXPECT_EQ(planned.error().node, ran.error().node);
    ++waits;
    rank = (rank + 1) % ranks_->ranks();
  }
  EXPECT_GT(waits, 2u);
}

INSTANTIATE_TEST_SUITE_P(Models, ScheduleOf, testing::Combine(testing::Values("llama_causal_gqa_pos", "gpt2_dropout_pos"), testing::Values(2, 3)), nameWithRanks);

}  // namespace
}  // namespace spscope::zoo
