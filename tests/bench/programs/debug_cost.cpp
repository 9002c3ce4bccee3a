// SPDX-License-Identifier: Apache-2.0
// What the debugger costs a step that stops nowhere: MODEL on virtual ranks, once by themselves and once by the debugger's "continue";
// a pair is one step of each, and neither is always first. Prints an object with the CPU nanoseconds of every step, in pairs.
//
//   debug_cost MODEL.pt2 RANKS SEQUENCE PAIRS
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "core/session/debug/debugger.h"
#include "core/session/verify.h"
#include "core/session/virtual_programs.h"
#include "core/torch/threads.h"
#include "tests/bench/programs/clocks.h"

namespace spscope::session {
namespace {

Status measure(char** argv) {
  const int ranks = std::atoi(argv[2]), pairs = std::atoi(argv[4]);
  DiagnosticSink diagnostics;
  Request request;
  request.diagnostics = &diagnostics;
  exec::setThreads(1);
  OpenRequest open_request;
  open_request.path = argv[1];
  open_request.seq = std::atoll(argv[3]);
  SP_ASSIGN(const auto model, open(open_request, request));
  CompileRequest what;
  what.settings.sp = ranks;
  what.settings.seq = open_request.seq;
  what.keep_graphs = false;
  SP_ASSIGN(const CompileOutcome compiled, compile(*model, what, request));
  debug::Debugger::Setup setup;
  setup.sides.programs = programsOf(compiled.compiled);
  setup.sides.reference = setup.sides.programs.front();  // never run: nothing is compared
  SP_ASSIGN(setup.sides.state, loadState(*model, {}, request));
  SP_ASSIGN(setup.sides.inputs, loadInputs(*model, {}, 0, request));
  SP_ASSIGN(const auto debugger, debug::Debugger::create(setup, request));
  SP_ASSIGN(exec::VirtualRanks alone, prepareRanks(setup.sides.programs, setup.sides.state));

  std::vector<std::int64_t> plain, debugged;
  const auto byItself = [&]() -> Status {
    const std::int64_t begin = cpuNs();
    SP_TRY(alone.begin(setup.sides.inputs, setup.sides.step));
    while (!alone.done()) SP_TRY(alone.stepNode());
    plain.push_back(cpuNs() - begin);
    return {};
  };
  const auto byDebugger = [&]() -> Status {
    const std::int64_t begin = cpuNs();
    SP_TRY(debugger->back(debugger->where().made));
    SP_TRY(debugger->resume());
    debugged.push_back(cpuNs() - begin);
    return {};
  };
  constexpr int kWarmUp = 3;
  for (int i = 0; i < pairs + kWarmUp; ++i) {
    if (i == kWarmUp) plain.clear(), debugged.clear();
    if (i % 2 == 0) SP_TRY(byItself());
    SP_TRY(byDebugger());
    if (i % 2 != 0) SP_TRY(byItself());
  }
  std::printf("{\"nodes\":%zu,\"plain\":{\"cpu_ns\":[%s]},\"debugged\":{\"cpu_ns\":[%s]}}\n", alone.program(0).nodeCount(), join(plain, ",").c_str(),
              join(debugged, ",").c_str());
  return {};
}

}  // namespace
}  // namespace spscope::session

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: debug_cost MODEL.pt2 RANKS SEQUENCE PAIRS\n");
    return 2;
  }
  const spscope::Status status = spscope::session::measure(argv);
  if (!status) std::fprintf(stderr, "debug_cost: %s\n", status.error().format().c_str());
  return status ? 0 : 1;
}
