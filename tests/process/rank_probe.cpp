// SPDX-License-Identifier: Apache-2.0
// One rank of a pretended training run, for the tests of launcher and collectives: steps that each note two nodes and sum
// a vector over all ranks. Its arguments say what goes wrong, at which step, on which rank; the product has no such switch.
//
//   rank_probe MODE [RANK [STEP]] [--timeout-ms N] [--steps N]
//   MODE: ok kill throw sleep exit segv size order spin early pipe stubborn slow slow-end; RANK -1: all of them
//   --pair: a step is an all_reduce and an all_gather; then also: stop late swap skip again dtype uneven
//   --mesh: with four ranks in two rows and two columns, a step is an all_reduce of each row; then also: group
//   rank_probe launch RANKS MODE …   is the launcher of such a run itself, to be killed or interrupted; prints each rank's
//                                    process id when it begins to step, and at the end how the run ended
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/base/strings.h"
#include "core/dist/c10d/mesh.h"
#include "core/dist/environment.h"
#include "core/dist/interrupt.h"
#include "core/dist/launcher.h"
#include "core/dist/membership.h"
#include "core/dist/rank_reporter.h"

using namespace spscope;
using namespace spscope::dist;

namespace {

struct Options {
  std::string mode = "ok";
  int rank = 1;
  int step = 2;
  int steps = 5;
  int timeout_ms = 60'000;
  bool pair = false, mesh = false;
};

Options parse(int argc, char** argv) {
  Options o;
  int position = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "--timeout-ms") o.timeout_ms = std::atoi(argv[++i]);
    else if (a == "--steps") o.steps = std::atoi(argv[++i]);
    else if (a == "--pair") o.pair = true;
    else if (a == "--mesh") o.mesh = true;
    else if (position == 0) ++position, o.mode = a;
    else if (position == 1) ++position, o.rank = std::atoi(a.c_str());
    else o.step = std::atoi(a.c_str());
  }
  return o;
}

/// The fault, where this rank and step are the ones it is meant for.
void misbehave(const Options& o, RankReporter& reporter, int step) {
  if (step == 0) reporter.send({"started", {{"pid", std::to_string(getpid())}}});
  if ((reporter.rank() != o.rank && o.rank >= 0) || step != o.step) return;
  reporter.send({"fault", {}});
  if (o.mode == "kill") kill(getpid(), SIGKILL);
  if (o.mode == "segv") raise(SIGSEGV);
  if (o.mode == "throw") throw std::runtime_error("the probe throws on purpose");
  if (o.mode == "exit") {
    std::fprintf(stderr, "last words of the probe\n");
    std::_Exit(3);
  }
  if (o.mode == "early") std::_Exit(0);
  if (o.mode == "pipe") raise(SIGPIPE);  // what a write to a rank that has gone would do
  if (o.mode == "sleep") std::this_thread::sleep_for(std::chrono::hours(1));
  if (o.mode == "stop") raise(SIGSTOP);
  if (o.mode == "late") std::this_thread::sleep_for(std::chrono::milliseconds(2 * o.timeout_ms + 500));
  if (o.mode == "slow") std::this_thread::sleep_for(std::chrono::seconds(2));
  if (o.mode == "spin")
    for (std::atomic<long> i = 0;; ++i) {}
}

Status allReduce(Collectives& group, ir::DType type, std::int64_t count) {
  std::vector<double> memory(static_cast<std::size_t>(count), 0.0);
  return group.allReduceSum({memory.data(), count, type});
}

Status allGather(Collectives& group) {
  std::vector<float> own(8), all(8 * static_cast<std::size_t>(group.size()));
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(group.size()), 8);
  return group.allGather({own.data(), 8, ir::DType::kF32}, {all.data(), static_cast<std::int64_t>(all.size()), ir::DType::kF32}, counts);
}

/// Every rank sends `each` elements to every other; `uneven`: this one sends one more to rank 0.
Status allToAll(Collectives& group, bool uneven) {
  std::vector<std::int64_t> to(static_cast<std::size_t>(group.size()), 4), from = to;
  if (uneven) ++to.front();
  std::vector<float> send(4 * to.size() + 1), receive(4 * from.size());
  return group.allToAll({send.data(), uneven ? static_cast<std::int64_t>(send.size()) : static_cast<std::int64_t>(send.size()) - 1, ir::DType::kF32}, to,
                        {receive.data(), static_cast<std::int64_t>(receive.size()), ir::DType::kF32}, from);
}

/// One step of a run whose faults are about the order and the kind of its collectives.
Status pairStep(const Options& o, Collectives& group, bool faulty) {
  const std::string mode = faulty ? o.mode : "ok";
  const ir::DType type = mode == "dtype" ? ir::DType::kF64 : ir::DType::kF32;
  if (mode == "swap") SP_TRY(allGather(group));
  if (mode != "skip") SP_TRY(allReduce(group, type, mode == "size" ? 101 : 100));
  if (mode == "again") SP_TRY(allReduce(group, type, 100));
  if (mode != "swap") SP_TRY(allGather(group));
  return allToAll(group, mode == "uneven");
}

/// An all_reduce of the row; a rank that takes the column for the row waits for the wrong one.
Status meshStep(const Options& o, Collectives& group, bool faulty) {
  std::vector<float> memory(100);
  const CollectivePart part{{}, {memory.data(), 100, ir::DType::kF32}, {}, {}, faulty && o.mode == "group" ? ir::MeshAxis::kData : ir::MeshAxis::kSequence};
  return group.runAll(CollectiveKind::kAllReduce, {&part, 1});
}

Status steps(const Options& o, RankReporter& reporter, Collectives& group) {
  for (int step = 0; step < o.steps; ++step) {
    const bool all_fail = o.rank < 0 && o.step == step;  // also those that were asked to stop in time
    if (!all_fail) SP_TRY(reporter.cancel().check());
    reporter.step(step);
    reporter.phase("step");
    reporter.note(strf("%%linear_%d", step));
    misbehave(o, reporter, step);
    const bool here = o.rank == reporter.rank() && o.step == step;
    if (o.pair || o.mesh) {
      SP_TRY(o.pair ? pairStep(o, group, here) : meshStep(o, group, here));
      continue;
    }
    std::vector<float> values(here && o.mode == "size" ? 1001 : 1000, static_cast<float>(reporter.rank() + 1));
    reporter.note(strf("%%all_reduce_%d", step));
    if (here && o.mode == "order") SP_TRY(group.barrier());
    SP_TRY(group.allReduceSum({values.data(), static_cast<std::int64_t>(values.size()), ir::DType::kF32}));
    reporter.send({"step", {{"step", std::to_string(step)}, {"sum", std::to_string(static_cast<int>(values[999]))}}});
    // "ok" runs of interruption tests must last until they are interrupted.
    if (o.steps > 100) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {};
}

Status runRank(const Options& o, RankReporter& reporter, Rendezvous at) {
  at.rank = reporter.rank();
  at.size = reporter.size();
  at.timeout = std::chrono::milliseconds(o.timeout_ms);
  at.on_collective = [&](std::string_view op, std::int64_t sequence, bool inside) { reporter.collective(op, sequence, inside); };
  at.on_call = [&](const CallNotice& call) { reporter.call(call); };
  reporter.phase("connecting");
  const ir::Mesh mesh{{{"dp", 2}, {"sp", 2}}};
  SP_ASSIGN(auto group, o.mesh ? connectMesh(at, mesh) : connectGloo(at));
  Membership member(std::move(group));
  SP_TRY(steps(o, reporter, *member));
  SP_TRY(member->barrier());
  member.leave();
  if (o.mode == "slow-end" && reporter.rank() == o.rank) std::this_thread::sleep_for(std::chrono::seconds(3));
  return {};
}

int launcherMain(int argc, char** argv) {
  LaunchSpec spec;
  spec.program = argv[0];
  spec.ranks = std::atoi(argv[2]);
  spec.arguments.assign(argv + 3, argv + argc);
  InterruptGuard guard(spec.cancel);
  const auto out = launch(spec, [](int, const Message& m) {
    if (m.kind != "started") return;
    std::printf("pid %s\n", m.at("pid").c_str());
    std::fflush(stdout);
  });
  if (!out) return std::fprintf(stderr, "%s\n", out.error().format().c_str()), 1;
  std::printf("%s\n", out->cancelled ? "cancelled" : out->ok() ? "ok" : out->failure->toError(out->ranks).format().c_str());
  return out->ok() ? 0 : 4;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 3 && std::strcmp(argv[1], "launch") == 0) return launcherMain(argc, argv);
  const Options o = parse(argc, argv);
  std::printf("rank_probe %s, OMP_NUM_THREADS=%s\n", o.mode.c_str(), std::getenv("OMP_NUM_THREADS"));
  std::fflush(stdout);
  if (o.mode == "stubborn") signal(SIGTERM, SIG_IGN);
  Rendezvous at;
  std::unique_ptr<RankReporter> reporter;
  if (std::getenv("SPSCOPE_RANK") != nullptr) {
    auto attached = RankReporter::attach();
    if (!attached) return std::fprintf(stderr, "%s\n", attached.error().format().c_str()), 2;
    reporter = std::move(*attached);
    at.file = reporter->storeFile();
  } else {
    auto launched = launchedRank();
    if (!launched) return std::fprintf(stderr, "%s\n", launched.error().format().c_str()), 2;
    reporter = RankReporter::detached(launched->rank, launched->size);
    at.host = launched->master_addr;
    at.port = launched->master_port;
    at.store_exists = launched->store_exists;
    at.prefix = launched->prefix;
  }
  if (o.mode == "stubborn" && reporter->rank() == o.rank) std::this_thread::sleep_for(std::chrono::hours(1));
  Status status;
  try {
    status = runRank(o, *reporter, at);
  } catch (const std::exception& e) {
    status = makeError("internal", strf("exception: %s", e.what()), Outcome::kRunFailed);
  }
  if (!status) {
    reporter->reportError(status.error());
    std::fprintf(stderr, "%s\n", status.error().format().c_str());
    std::fflush(nullptr);
    std::_Exit(1);  // no destructors: they might wait for ranks that have failed
  }
  reporter->done();
  std::printf("rank %d done\n", reporter->rank());
  return 0;
}
