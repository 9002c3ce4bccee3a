// SPDX-License-Identifier: Apache-2.0
// Collectives behind the back of the rank: order, completion, errors, memory. The group below is one of this test: it ends
// when it is told to.
#include "core/dist/async_collectives.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace spscope::dist {
namespace {

class Scripted final : public Collectives {
 public:
  struct Script {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::string> calls;
    int may_end = 0;       ///< operations that may end
    int ended = 0;
    int fails_at = -1;     ///< number of the operation that fails
    void allow(int n) {
      const std::lock_guard lock(mutex);
      may_end = n;
      changed.notify_all();
    }
    std::vector<std::string> seen() {
      const std::lock_guard lock(mutex);
      return calls;
    }
  };
  explicit Scripted(std::shared_ptr<Script> script) : script_(std::move(script)) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  Status allReduceSum(Buffer b) override { return run("all_reduce " + std::to_string(b.count)); }
  Status allToAll(Buffer, std::span<const std::int64_t>, Buffer r, std::span<const std::int64_t>) override { return run("all_to_all " + std::to_string(r.count)); }
  Status allGather(Buffer, Buffer r, std::span<const std::int64_t>) override { return run("all_gather " + std::to_string(r.count)); }
  Status reduceScatterSum(Buffer, Buffer r, std::span<const std::int64_t>) override { return run("reduce_scatter " + std::to_string(r.count)); }
  Status barrier() override { return run("barrier"); }
  Result<std::vector<std::string>> allGatherText(const std::string& text) override {
    SP_TRY(run("text"));
    return std::vector<std::string>{text, text};
  }

 private:
  Status run(std::string what) {
    std::unique_lock lock(script_->mutex);
    script_->calls.push_back(std::move(what));
    const int mine = static_cast<int>(script_->calls.size());
    script_->changed.wait(lock, [&] { return script_->may_end >= mine; });
    if (script_->fails_at == mine) return makeError("peer-lost", "rank 0, all_reduce #2: gone", Outcome::kRunFailed);
    script_->ended = mine;
    return {};
  }
  std::shared_ptr<Script> script_;
};

struct Group {
  std::shared_ptr<Scripted::Script> script = std::make_shared<Scripted::Script>();
  std::unique_ptr<Collectives> async = makeAsync(std::make_unique<Scripted>(script));
  std::vector<float> data = std::vector<float>(8);

  Result<std::int64_t> start(std::int64_t count, std::shared_ptr<const void> keep = nullptr) {
    CollectivePart part;
    part.recv = {data.data(), count, ir::DType::kF32};
    return async->start(CollectiveKind::kAllReduce, {part}, std::move(keep));
  }
};

TEST(AsyncCollectives, WorkInTheirOrderWhileTheRankGoesOn) {
  Group g;
  const auto a = g.start(1), b = g.start(2);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(g.async->sequence(), 2);
  g.script->allow(2);
  const auto second = g.async->wait(*b), first = g.async->wait(*a);  // in any order
  ASSERT_TRUE(first && second);
  EXPECT_LE(first->begin_ns, first->end_ns);
  EXPECT_LE(first->end_ns, second->begin_ns);
  EXPECT_THAT(g.script->seen(), testing::ElementsAre("all_reduce 1", "all_reduce 2"));
}

TEST(AsyncCollectives, ABlockingCallComesAfterWhatWasStarted) {
  Group g;
  const auto a = g.start(1);
  ASSERT_TRUE(a);
  g.script->allow(3);
  ASSERT_TRUE(g.async->barrier());
  EXPECT_EQ(*g.async->allGatherText("hello"), (std::vector<std::string>{"hello", "hello"}));
  EXPECT_THAT(g.script->seen(), testing::ElementsAre("all_reduce 1", "barrier", "text"));
  ASSERT_TRUE(g.async->wait(*a));
}

TEST(AsyncCollectives, EachTicketOnce) {
  Group g;
  g.script->allow(1);
  const auto a = g.start(1);
  ASSERT_TRUE(a);
  ASSERT_TRUE(g.async->wait(*a));
  EXPECT_FALSE(g.async->wait(*a));
  EXPECT_FALSE(g.async->wait(77));
}

TEST(AsyncCollectives, AnErrorReachesTheWaitAndEveryCallAfterIt) {
  Group g;
  g.script->fails_at = 2;
  const auto a = g.start(1), b = g.start(2), c = g.start(3);
  ASSERT_TRUE(a && b && c);
  g.script->allow(3);
  const auto lost = g.async->wait(*b);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, "peer-lost");
  EXPECT_THAT(lost.error().message, testing::HasSubstr("#2"));
  EXPECT_TRUE(g.async->wait(*a));  // had ended before
  EXPECT_EQ(g.async->wait(*c).error().code, "peer-lost");
  EXPECT_EQ(g.async->barrier().error().code, "peer-lost");
  EXPECT_EQ(g.start(4).error().code, "peer-lost");
  EXPECT_THAT(g.script->seen(), testing::ElementsAre("all_reduce 1", "all_reduce 2"));
}

TEST(AsyncCollectives, MemoryIsKeptUntilTheWait) {
  Group g;
  auto memory = std::make_shared<const int>(1);
  const std::weak_ptr<const int> seen = memory;
  const auto a = g.start(1, std::move(memory));
  ASSERT_TRUE(a);
  g.script->allow(1);
  EXPECT_FALSE(seen.expired());
  ASSERT_TRUE(g.async->wait(*a));
  EXPECT_TRUE(seen.expired());
}

TEST(AsyncCollectives, AGroupThatIsAbandonedKeepsItsMemoryAndDoesNotBlock) {
  auto script = std::make_shared<Scripted::Script>();
  auto memory = std::make_shared<const int>(1);
  const std::weak_ptr<const int> seen = memory;
  {
    auto async = makeAsync(std::make_unique<Scripted>(script));
    float x = 0;
    CollectivePart part;
    part.recv = {&x, 1, ir::DType::kF32};
    ASSERT_TRUE(async->start(CollectiveKind::kAllReduce, {part}, std::move(memory)));
  }
  EXPECT_FALSE(seen.expired());
  script->allow(1);  // the worker comes back, finds that nobody wants it, and ends
}

TEST(AsyncCollectives, SeveralOperandsAreOneOperation) {
  Group g;
  g.script->allow(2);
  CollectivePart one, two;
  one.recv = {g.data.data(), 1, ir::DType::kF32};
  two.recv = {g.data.data() + 1, 2, ir::DType::kF32};
  const auto ticket = g.async->start(CollectiveKind::kAllReduce, {one, two}, nullptr);
  ASSERT_TRUE(ticket);
  ASSERT_TRUE(g.async->wait(*ticket));
  EXPECT_EQ(g.async->sequence(), 1);
  EXPECT_THAT(g.script->seen(), testing::ElementsAre("all_reduce 1", "all_reduce 2"));
}

}  // namespace
}  // namespace spscope::dist
