// SPDX-License-Identifier: Apache-2.0
// A group is taken down only when all is well, and a process that has abandoned one ends with its code all the same.
#include "core/dist/membership.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace spscope::dist {
namespace {

/// A group that says when it is taken down.
class Group final : public Collectives {
 public:
  explicit Group(bool* down) : down_(down) {}
  ~Group() override { *down_ = true; }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Status allReduceSum(Buffer) override { return {}; }
  Status allToAll(Buffer, std::span<const std::int64_t>, Buffer, std::span<const std::int64_t>) override { return {}; }
  Status allGather(Buffer, Buffer, std::span<const std::int64_t>) override { return {}; }
  Status reduceScatterSum(Buffer, Buffer, std::span<const std::int64_t>) override { return {}; }
  Status barrier() override { return {}; }
  Result<std::vector<std::string>> allGatherText(const std::string& text) override { return std::vector<std::string>{text}; }

 private:
  bool* down_;
};

TEST(Membership, LeavesOnlyWhenAskedTo) {
  bool down = false;
  Membership fine(std::make_unique<Group>(&down));
  fine.leave();
  EXPECT_TRUE(down);
}

/// What would wait for threads of the abandoned group.
struct Late {
  ~Late() { std::abort(); }
};

TEST(MembershipDeathTest, AnAbandonedGroupIsNotTakenDownAndTheProcessKeepsItsExitCode) {
  EXPECT_EXIT(
      {
        static Late late;
        static bool down = false;
        { const Membership failed(std::make_unique<Group>(&down)); }
        std::exit(down ? 1 : 4);
      },
      testing::ExitedWithCode(4), "");
}

}  // namespace
}  // namespace spscope::dist
