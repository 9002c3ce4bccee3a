// SPDX-License-Identifier: Apache-2.0
// What `run --profile` costs a step, measured inside the ranks: RANKS processes over Gloo train MODEL as `run` does, and record
// every second step as `run --profile` does; a pair is one step of each, and neither is always first. Rank 0 prints an object
// with the nanoseconds of every step in pairs, wall time and CPU time of the whole process (Gloo's threads, writing to the spool);
// then comes an object with the number of events recorded.
//
//   record_step MODEL.pt2 RANKS SEQUENCE PAIRS TRACE
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/strings.h"
#include "core/dist/async_collectives.h"
#include "core/dist/c10d/gloo.h"
#include "core/session/profile.h"
#include "core/session/rank_observer.h"
#include "core/session/train_state.h"
#include "core/torch/memory.h"
#include "core/torch/threads.h"
#include "tests/bench/programs/clocks.h"

namespace spscope::session {
namespace {

struct Times {
  std::vector<std::int64_t> wall, cpu;
  std::string json() const { return strf("{\"wall_ns\":[%s],\"cpu_ns\":[%s]}", join(wall, ",").c_str(), join(cpu, ",").c_str()); }
};

/// One rank, after rank_loop.cpp.
Status serve(const RunRequest& what, int rank, int pairs, const std::string& meeting) {
  const int ranks = what.settings.sp;
  DiagnosticSink diagnostics;
  Request request;
  request.diagnostics = &diagnostics;
  exec::setThreads(1);
  exec::installCountingAllocator();
  SP_ASSIGN(const auto model, open(what.open, request));
  CompileRequest compile_request;
  compile_request.settings = what.settings;
  compile_request.only_rank = rank;
  compile_request.keep_graphs = false;
  SP_ASSIGN(const CompileOutcome compiled, compile(*model, compile_request, request));
  const auto graph = compiled.compiled.programs[static_cast<std::size_t>(compiled.compiled.class_of_rank[static_cast<std::size_t>(rank)])];
  exec::ProgramOptions program_options;
  program_options.rank = rank;
  program_options.ranks = ranks;
  SP_ASSIGN(auto program, exec::Program::prepare(graph, program_options));
  const auto reporter = dist::RankReporter::detached(rank, ranks);
  dist::Rendezvous at;
  at.rank = rank;
  at.size = ranks;
  at.file = meeting;
  at.on_collective = [&](std::string_view op, std::int64_t sequence, bool inside) { reporter->collective(op, sequence, inside); };
  SP_ASSIGN(auto gloo, dist::connectGloo(at));
  const auto group = dist::makeAsync(std::move(gloo));
  SP_ASSIGN(TrainState state, TrainState::create(*model, what, request, rank));
  exec::Executor executor(std::move(program), group.get());
  exec::countOtherThreads(&executor.meter());
  SP_TRY(executor.bind(state.weights()));
  SP_ASSIGN(const auto profile, RankProfile::start(what.profile, rank, ranks, "gloo", *graph, what.settings, &diagnostics));
  SP_ASSIGN(const exec::TensorBag inputs, loadInputs(*model, what.data, 0, request));

  Times plain, recorded;
  constexpr int kWarmUp = 4;
  for (int i = -2 * kWarmUp; i < 2 * pairs; ++i) {
    const bool second = i % 2 != 0, turned = (i / 2) % 2 != 0, record = second != turned;
    const std::int64_t step = i + 2 * kWarmUp;
    SP_TRY(group->barrier());
    const std::int64_t wall = monotonicNs(), cpu = cpuNs();
    RankObserver observer(*reporter, {record ? profile->observer(step) : nullptr});
    exec::StepOptions options;
    options.observer = &observer;
    options.step = step;
    SP_ASSIGN(exec::StepResult result, executor.step(inputs, options));
    const std::int64_t update = monotonicNs();
    SP_TRY(state.apply({result.gradients}, group.get()));
    if (record) profile->hostCall(step, kOptimizerCall, update, monotonicNs());
    if (i < 0) continue;
    Times& of = record ? recorded : plain;
    of.wall.push_back(monotonicNs() - wall);
    of.cpu.push_back(cpuNs() - cpu);
  }
  exec::countOtherThreads(nullptr);
  SP_TRY(profile->finish());
  SP_TRY(group->barrier());
  if (rank == 0) std::printf("{\"plain\":%s,\"recorded\":%s,\"steps_recorded\":%d}\n", plain.json().c_str(), recorded.json().c_str(), pairs + kWarmUp);
  return {};
}

int measure(char** argv) {
  RunRequest what;
  what.open.path = argv[1];
  what.settings.sp = std::atoi(argv[2]);
  what.open.seq = what.settings.seq = std::atoll(argv[3]);
  what.settings.threads = 1;
  what.profile.file = argv[5];
  what.profile.first = 0;
  what.profile.last = std::int64_t{1} << 40;
  what.profile.cap_bytes = std::int64_t{1} << 34;
  const auto fail = [](const Error& error) {
    std::fprintf(stderr, "record_step: %s\n", error.format().c_str());
    return 1;
  };
  if (const Status made = prepareProfile(what.profile); !made) return fail(made.error());
  std::vector<pid_t> children;
  for (int rank = 0; rank < what.settings.sp; ++rank) {  // before libtorch has any thread
    const pid_t pid = ::fork();
    if (pid == 0) {
      const Status status = serve(what, rank, std::atoi(argv[4]), what.profile.spools + "/meeting");
      if (!status) fail(status.error());
      std::fflush(nullptr);
      std::_Exit(status ? 0 : 1);
    }
    children.push_back(pid);
  }
  int failed = 0;
  for (const pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    failed += status != 0;
  }
  if (failed != 0) {
    dropProfile(what.profile);
    return 1;
  }
  DiagnosticSink diagnostics;
  Request request;
  request.diagnostics = &diagnostics;
  const auto merged = mergeProfile(what.profile, what.settings.sp, {}, request);
  if (!merged) return fail(merged.error());
  std::printf("{\"events\":%lld,\"dropped\":%lld}\n", static_cast<long long>(merged->events), static_cast<long long>(merged->dropped));
  return 0;
}

}  // namespace
}  // namespace spscope::session

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: record_step MODEL.pt2 RANKS SEQUENCE PAIRS TRACE\n");
    return 2;
  }
  return spscope::session::measure(argv);
}
