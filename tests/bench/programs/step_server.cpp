// SPDX-License-Identifier: Apache-2.0
// Our executor as a server for the bench "step": compiles MODEL unsharded with everything saved, then for each line "step" runs
// forward and backward on INPUTS and answers
// "<nanoseconds> <loss> <norm of all gradients> <CPU nanoseconds>". Its Python counterpart is eager_server.py.
//
//   step_server MODEL.pt2 INPUTS.safetensors SEQUENCE
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "core/session/compile.h"
#include "core/torch/executor.h"
#include "core/torch/threads.h"
#include "tests/bench/programs/clocks.h"

namespace spscope {
namespace {

Result<double> norm(const exec::TensorBag& gradients) {
  double squares = 0.0;
  for (const std::string& name : gradients.names()) {
    SP_ASSIGN(const std::vector<double> values, gradients.values(name));
    for (const double value : values) squares += value * value;
  }
  return std::sqrt(squares);
}

Status serve(const char* model_path, const char* inputs_path, std::int64_t sequence) {
  DiagnosticSink diagnostics;
  session::Request request;
  request.diagnostics = &diagnostics;

  session::OpenRequest open;
  open.path = model_path;
  open.seq = sequence;
  SP_ASSIGN(const auto model, session::open(open, request));
  session::CompileRequest what;
  what.settings.sp = 1;
  what.settings.save = "all";
  what.keep_graphs = false;
  SP_ASSIGN(const session::CompileOutcome compiled, session::compile(*model, what, request));
  SP_ASSIGN(auto program, exec::Program::prepare(compiled.compiled.programs.front()));

  session::DataRequest data;
  data.inputs = {inputs_path};
  SP_ASSIGN(const exec::TensorBag state, session::loadState(*model, data, request));
  SP_ASSIGN(const exec::TensorBag inputs, session::loadInputs(*model, data, 0, request));
  exec::Executor executor(std::move(program));
  SP_TRY(executor.bind(state));

  std::printf("ready\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    const std::int64_t cpu = cpuNs();
    const auto begin = std::chrono::steady_clock::now();
    SP_ASSIGN(const exec::StepResult result, executor.step(inputs));
    const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - begin;
    const std::int64_t cpu_taken = cpuNs() - cpu;
    SP_ASSIGN(const double gradient_norm, norm(result.gradients));
    std::printf("%lld %.17g %.17g %lld\n", static_cast<long long>(taken.count()), result.loss, gradient_norm, static_cast<long long>(cpu_taken));
    std::fflush(stdout);
  }
  return {};
}

}  // namespace
}  // namespace spscope

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: step_server MODEL.pt2 INPUTS.safetensors SEQUENCE\n");
    return 2;
  }
  spscope::exec::setThreads(1);
  const spscope::Status status = spscope::serve(argv[1], argv[2], std::atoll(argv[3]));
  if (!status) std::fprintf(stderr, "step_server: %s\n", status.error().format().c_str());
  return status ? 0 : 1;
}
