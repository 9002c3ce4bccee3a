// SPDX-License-Identifier: Apache-2.0
// The debugger as a window uses it: another request for each command, stopped between two nodes by its token, and asked what looking
// at a value would cost.
#include "tests/debug/debug_session.h"

namespace spscope::zoo {
namespace {

using There = dbg::Debugger::There;

class DebuggerUse : public DebugSession {
 protected:
  /// As the next command of a window: with a token of its own.
  CancelToken serve() {
    session::Request request = request_;
    request.cancel = {};
    debugger_->use(request);
    return request.cancel;
  }
};

TEST_F(DebuggerUse, ATokenStopsTheRanksBetweenTwoNodesAndTheNextCommandGoesOn) {
  open("nanogpt", 2);
  serve();
  say("step 5");
  const CancelToken stop = serve();
  stop.cancel();
  const dbg::Answer answer = say("continue");
  EXPECT_EQ(answer.stop->reason, dbg::StopReason::kPaused);
  EXPECT_EQ(dbg::reasonWord(answer.stop->reason), "paused");
  EXPECT_EQ(answer.stop->moves, 0);
  EXPECT_EQ(answer.stop->made, 5);
  EXPECT_EQ(refused("wrong").code, "cancelled");
  serve();
  say("diff %" + debugger_->around(0, 1, 0).front().name);
  EXPECT_EQ(say("continue").stop->reason, dbg::StopReason::kEnd);
  EXPECT_TRUE(say("wrong").wrong->equal) << "what was stopped before does not stop it";
}

TEST_F(DebuggerUse, SaysWhetherAValueIsThere) {
  open("nanogpt", 2);
  say("step 30");
  const std::string next = debugger_->where().node;
  EXPECT_EQ(debugger_->there(next).value(), There::kNotYet);
  EXPECT_FALSE(debugger_->there("%no_such_value"));
  bool live = false, gone = false;
  for (const dbg::NodeName& node : debugger_->around(0, 30, -1)) {
    const auto there = debugger_->there(node.name);
    if (!there) continue;  // a node without results
    ASSERT_NE(*there, There::kNotYet) << node.name;
    // What it says is what looking does.
    const auto parts = debugger_->parts(node.name);
    if (!parts) continue;  // a buffer on its way, or nobody reads it
    EXPECT_EQ(parts->again, *there == There::kGone) << node.name;
    live = live || *there == There::kLive;
    gone = gone || *there == There::kGone;
  }
  EXPECT_TRUE(live);
  EXPECT_TRUE(gone);
}

}  // namespace
}  // namespace spscope::zoo
