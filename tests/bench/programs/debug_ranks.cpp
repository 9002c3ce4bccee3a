// SPDX-License-Identifier: Apache-2.0
// What a debugger costs ranks that are processes, and how soon they stop: MODEL on Gloo ranks, a step as a run makes it and one by
// "continue", in turns, each in processes of its own. Then stops: breakpoints at many nodes, and pauses at many moments.
//
//   debug_ranks SPSCOPE MODEL.pt2 RANKS SEQUENCE PAIRS
//
// Prints an object: CPU and wall nanoseconds of every step (this process and the ranks), nanoseconds of every stop from when it was due
// until all ranks stood, and until this process knew it.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/strings.h"
#include "core/session/debug/debugger.h"
#include "core/session/debug/process_tape.h"
#include "core/session/verify.h"
#include "core/torch/threads.h"
#include "tests/bench/programs/clocks.h"

namespace spscope::session {
namespace {

/// Of this process and of the ranks.
std::int64_t cpuNsOf(const std::vector<int>& pids) {
  std::int64_t out = cpuNs();
  for (const int pid : pids) {
    clockid_t clock{};
    if (::clock_getcpuclockid(pid, &clock) == 0) out += clockNs(clock);
  }
  return out;
}

struct Times {
  std::vector<std::int64_t> cpu, wall;
  std::string json() const { return "{\"cpu_ns\":[" + join(cpu, ",") + "],\"wall_ns\":[" + join(wall, ",") + "]}"; }
};

Status measure(char** argv) {
  const int ranks = std::atoi(argv[3]), pairs = std::atoi(argv[5]);
  DiagnosticSink diagnostics;
  Request request;
  request.diagnostics = &diagnostics;
  exec::setThreads(1);
  RunRequest run;
  run.program = argv[1];
  run.open.path = argv[2];
  run.open.seq = std::atoll(argv[4]);
  run.settings.sp = ranks;
  run.settings.seq = run.open.seq;
  run.settings.threads = 1;
  SP_ASSIGN(const auto model, open(run.open, request));
  CompileRequest what;
  what.settings = run.settings;
  what.keep_graphs = false;
  SP_ASSIGN(const CompileOutcome compiled, compile(*model, what, request));
  debug::Debugger::Setup setup;
  setup.sides.programs = programsOf(compiled.compiled);
  setup.sides.reference = setup.sides.programs.front();  // never run: nothing is compared
  setup.processes = run;
  SP_ASSIGN(const auto plain, debug::ProcessTape::create({setup.sides.programs, run, {}}, request));
  SP_ASSIGN(const auto debugger, debug::Debugger::create(setup, request));

  Times by_itself, by_debugger;
  const auto timed = [](const std::vector<int>& pids, Times& times, const auto& work) -> Status {
    const std::int64_t cpu = cpuNsOf(pids), wall = monotonicNs();
    SP_TRY(work());
    times.wall.push_back(monotonicNs() - wall);
    times.cpu.push_back(cpuNsOf(pids) - cpu);
    return {};
  };
  const auto alone = [&] { return timed(plain->processes(), by_itself, [&]() -> Status { return plain->runPlain(); }); };
  const auto debugged = [&] {
    return timed(debugger->processes(), by_debugger, [&]() -> Status {
      SP_TRY(debugger->back(debugger->where().made));
      SP_TRY(debugger->resume());
      return {};
    });
  };
  constexpr int kWarmUp = 3;
  for (int i = 0; i < pairs + kWarmUp; ++i) {
    if (i == kWarmUp) by_itself = by_debugger = {};
    if (i % 2 == 0) SP_TRY(alone());
    SP_TRY(debugged());
    if (i % 2 != 0) SP_TRY(alone());
  }

  // Stops that are due at a node: of every 7th, each from the one before.
  std::vector<std::int64_t> stop, told, pause_stop, pause_told;
  SP_TRY(debugger->back(debugger->where().made));
  while (true) {
    SP_ASSIGN(const debug::Stop at, debugger->step(7));
    if (at.reason == debug::StopReason::kEnd) break;
    stop.push_back(debugger->figures().stop_ns);
    told.push_back(debugger->figures().told_ns);
  }
  // Pauses: the step runs on and on, and is held at moments that have nothing to do with it.
  const std::int64_t step_ns = by_debugger.wall.empty() ? 0 : by_debugger.wall.back();
  for (int i = 0; i < pairs; ++i) {
    if (debugger->where().reason == debug::StopReason::kEnd || debugger->where().ranks.front().ended) SP_TRY(debugger->back(debugger->where().made));
    std::thread asks([&] {
      std::this_thread::sleep_for(std::chrono::nanoseconds(step_ns * (i % 13 + 1) / 20));
      debugger->pause();
    });
    auto at = debugger->resume();
    asks.join();
    SP_TRY(std::move(at));
    if (at->reason != debug::StopReason::kPaused) continue;
    pause_stop.push_back(debugger->figures().stop_ns);
    pause_told.push_back(debugger->figures().told_ns);
  }
  std::printf("{\"nodes\":%zu,\"plain\":%s,\"debugged\":%s,\"stop_ns\":[%s],\"told_ns\":[%s],\"pause_ns\":[%s],\"pause_told_ns\":[%s]}\n", setup.sides.programs.front()->order.size(),
              by_itself.json().c_str(), by_debugger.json().c_str(), join(stop, ",").c_str(), join(told, ",").c_str(), join(pause_stop, ",").c_str(), join(pause_told, ",").c_str());
  return {};
}

}  // namespace
}  // namespace spscope::session

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: debug_ranks SPSCOPE MODEL.pt2 RANKS SEQUENCE PAIRS\n");
    return 2;
  }
  const spscope::Status status = spscope::session::measure(argv);
  if (!status) std::fprintf(stderr, "debug_ranks: %s\n", status.error().format().c_str());
  return status ? 0 : 1;
}
