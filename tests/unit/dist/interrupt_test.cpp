// SPDX-License-Identifier: Apache-2.0
// Ctrl-C asks for a pause first where there is something to pause, and ends things where no pause comes.
#include "core/dist/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace spscope::dist {
namespace {

TEST(Interrupt, IsAPauseWhileThereIsSomethingToPause) {
  const CancelToken token;
  const InterruptGuard interrupts(token);
  std::atomic<bool> pause{false};
  {
    const PauseGuard pauses(pause);
    raise(SIGINT);
    EXPECT_TRUE(pause.exchange(false));  // as who pauses does
    raise(SIGINT);
    EXPECT_TRUE(pause);
    EXPECT_FALSE(token.cancelled());
    raise(SIGINT);  // nobody has paused since
    EXPECT_TRUE(token.cancelled());
  }
}

TEST(Interrupt, CancelsWhereThereIsNothingToPauseAndTermAlways) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const CancelToken token;
    const InterruptGuard interrupts(token);
    std::atomic<bool> pause{false};
    {
      const PauseGuard pauses(pause);
      if (signal == SIGTERM) raise(SIGTERM);
    }
    if (signal == SIGINT) raise(SIGINT);
    EXPECT_TRUE(token.cancelled());
    EXPECT_FALSE(pause);
  }
}

}  // namespace
}  // namespace spscope::dist
