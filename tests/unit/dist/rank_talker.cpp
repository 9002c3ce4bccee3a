// SPDX-License-Identifier: Apache-2.0
// A rank without libtorch, for the tests of launcher and reporter under ThreadSanitizer: notes where it is on one thread,
// runs pretended collectives behind its back, and talks to the launcher from several.
//   rank_talker STEPS [MODE [RANK]]   MODE: ok kill error hang
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "core/base/strings.h"
#include "core/dist/async_collectives.h"
#include "core/dist/membership.h"
#include "core/dist/rank_reporter.h"

using namespace spscope;
using namespace spscope::dist;

namespace {

/// A group of one that tells the reporter as Gloo's does.
class Alone final : public Collectives {
 public:
  explicit Alone(RankReporter& reporter) : reporter_(reporter) {}
  int rank() const override { return reporter_.rank(); }
  int size() const override { return reporter_.size(); }
  Status allReduceSum(Buffer b) override {
    reporter_.collective("all_reduce", ++sequence_, true);
    static_cast<double*>(b.data)[0] += 1;
    reporter_.collective("all_reduce", sequence_, false);
    return {};
  }
  Status allToAll(Buffer, std::span<const std::int64_t>, Buffer, std::span<const std::int64_t>) override { return {}; }
  Status allGather(Buffer, Buffer, std::span<const std::int64_t>) override { return {}; }
  Status reduceScatterSum(Buffer, Buffer, std::span<const std::int64_t>) override { return {}; }
  Status barrier() override { return {}; }
  Result<std::vector<std::string>> allGatherText(const std::string& text) override { return std::vector<std::string>{text}; }

 private:
  RankReporter& reporter_;
  std::int64_t sequence_ = 0;
};

Status steps(RankReporter& reporter, Collectives& group, int count, const std::string& mode) {
  double sum = 0;
  for (int i = 0; i < count; ++i) {
    SP_TRY(reporter.cancel().check());
    reporter.step(i);
    reporter.note(strf("%%node_%d", i));
    if (i == 3 && mode == "kill") kill(getpid(), SIGKILL);
    if (i == 3 && mode == "error") return makeError("op-failed", "on purpose", Outcome::kRunFailed);
    if (i == 3 && mode == "hang")
      for (;;) pause();
    std::vector<CollectivePart> parts(1);
    parts[0].recv = {&sum, 1, ir::DType::kF64};
    SP_ASSIGN(const std::int64_t ticket, group.start(CollectiveKind::kAllReduce, std::move(parts), nullptr));
    reporter.note(strf("%%behind_%d", i));
    SP_TRY(group.wait(ticket));
    if (count > 1000) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  reporter.send({"sum", {{"value", std::to_string(static_cast<int>(sum))}}});
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  auto attached = RankReporter::attach();
  if (!attached || argc < 2) return 2;
  RankReporter& reporter = **attached;
  const bool here = argc > 3 && reporter.rank() == std::atoi(argv[3]);
  reporter.send({"text", {{"text", reporter.request()}}});
  std::vector<std::thread> talkers;
  for (int t = 0; t < 3; ++t)
    talkers.emplace_back([&reporter, t] {
      for (int i = 0; i < 200; ++i) reporter.send({"talk", {{"thread", std::to_string(t)}, {"i", std::to_string(i)}}});
    });
  for (std::thread& t : talkers) t.join();
  Membership group(makeAsync(std::make_unique<Alone>(reporter)));
  if (const Status status = steps(reporter, *group, std::atoi(argv[1]), here ? argv[2] : "ok"); !status) {
    reporter.reportError(status.error());
    std::fflush(nullptr);
    return 1;
  }
  group.leave();
  reporter.done();
  return 0;
}
