// SPDX-License-Identifier: Apache-2.0
// Our executor as a server for bench.py: compiles MODEL unsharded with everything saved, then for each line "step" runs
// forward and backward on INPUTS and answers
// "<nanoseconds> <loss> <norm of all gradients>". Its Python counterpart is eager_server.py.
//
//   step_server MODEL.pt2 INPUTS.safetensors
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "core/session/compile.h"
#include "core/torch/executor.h"
#include "core/torch/threads.h"

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

Status serve(const char* model_path, const char* inputs_path) {
  DiagnosticSink diagnostics;
  session::Request request;
  request.diagnostics = &diagnostics;

  session::OpenRequest open;
  open.path = model_path;
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
    const auto begin = std::chrono::steady_clock::now();
    SP_ASSIGN(const exec::StepResult result, executor.step(inputs));
    const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - begin;
    SP_ASSIGN(const double gradient_norm, norm(result.gradients));
    std::printf("%lld %.17g %.17g\n", static_cast<long long>(taken.count()), result.loss, gradient_norm);
    std::fflush(stdout);
  }
  return {};
}

}  // namespace
}  // namespace spscope

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: step_server MODEL.pt2 INPUTS.safetensors\n");
    return 2;
  }
  spscope::exec::setThreads(1);
  const spscope::Status status = spscope::serve(argv[1], argv[2]);
  if (!status) std::fprintf(stderr, "step_server: %s\n", status.error().format().c_str());
  return status ? 0 : 1;
}
