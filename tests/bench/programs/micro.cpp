// SPDX-License-Identifier: Apache-2.0
// The inner parts of compiling, each alone, by Google Benchmark: import, planner, text form, liveness, minimum cut.
//
//   micro MODEL.pt2 [--benchmark_...]     the argument of every benchmark is the number of ranks or of ops
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "core/io/program.h"
#include "core/ir/text.h"
#include "passes/manager.h"
#include "passes/memory/liveness.h"
#include "passes/memory/min_cut.h"
#include "passes/pipelines.h"
#include "passes/sequence/planner.h"
#include "tests/support/synthetic_graph.h"

namespace spscope {
namespace {

std::string g_model;

[[noreturn]] void stop(const Error& error) {
  std::fprintf(stderr, "micro: %s\n", error.format().c_str());
  std::exit(1);
}

io::ImportedModel importModel() {
  DiagnosticSink sink;
  auto model = io::openModel(g_model, {}, sink);
  if (!model) stop(model.error());
  return std::move(*model);
}

void import(benchmark::State& state) {
  std::int64_t nodes = 0;
  for (auto _ : state) {
    const io::ImportedModel model = importModel();
    nodes = static_cast<std::int64_t>(model.graph.order.size());
  }
  state.counters["nodes"] = static_cast<double>(nodes);
}
BENCHMARK(import)->Unit(benchmark::kMillisecond);

void planner(benchmark::State& state) {
  const ir::Graph functional = [] {
    const io::ImportedModel model = importModel();
    passes::Settings settings;
    DiagnosticSink sink;
    std::map<std::string, std::int64_t> statistics;
    passes::PassContext context{settings};
    context.diagnostics = &sink;
    context.statistics = &statistics;
    ir::Graph graph = model.graph;
    const passes::Pass pass = passes::planningPasses().front();  // functionalize
    if (auto done = pass.run(graph, context); !done) stop(done.error());
    return graph;
  }();
  passes::Settings settings;
  settings.sp = static_cast<int>(state.range(0));
  for (auto _ : state) {
    state.PauseTiming();
    ir::Graph graph = functional;
    graph.mesh.axes = {{"dp", 1}, {"sp", settings.sp}};
    DiagnosticSink sink;
    std::map<std::string, std::int64_t> statistics;
    passes::PassContext context{settings};
    context.diagnostics = &sink;
    context.statistics = &statistics;
    state.ResumeTiming();
    if (auto done = passes::planningPasses().back().run(graph, context); !done) stop(done.error());
  }
  state.counters["nodes"] = static_cast<double>(functional.order.size());
}
BENCHMARK(planner)->Arg(2)->Arg(8)->Unit(benchmark::kMillisecond);

void textPrint(benchmark::State& state) {
  const ir::Graph graph = test::syntheticJoint(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(ir::printGraph(graph));
}
BENCHMARK(textPrint)->Arg(1000)->Arg(8000)->Unit(benchmark::kMillisecond);

void textParse(benchmark::State& state) {
  const std::string text = ir::printGraph(test::syntheticJoint(static_cast<int>(state.range(0))));
  for (auto _ : state) {
    auto graph = ir::parseGraph(text, "synthetic");
    if (!graph) stop(graph.error());
    benchmark::DoNotOptimize(graph->order.size());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(text.size()));
}
BENCHMARK(textParse)->Arg(1000)->Arg(8000)->Unit(benchmark::kMillisecond);

void liveness(benchmark::State& state) {
  const ir::Graph graph = test::syntheticJoint(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(passes::predictMemory(graph, {}).peak);
}
BENCHMARK(liveness)->Arg(1000)->Arg(8000)->Unit(benchmark::kMillisecond);

/// A chain with side branches, as a layer's forward is: each op reads one or two of the last eight storages.
passes::CutProblem chain(int ops) {
  std::mt19937 random(7);
  passes::CutProblem problem;
  for (int i = 0; i < ops; ++i) {
    passes::CutProblem::Op op;
    op.cost = 1 + static_cast<std::int64_t>(random() % 1000);
    op.banned = random() % 10 == 0;
    for (int k = 0; k < 2 && i > 0; ++k) op.reads.push_back(std::max(0, i - 1 - static_cast<int>(random() % 8)));
    op.writes.push_back(i);
    problem.ops.push_back(op);
    passes::CutProblem::Storage storage;
    storage.bytes = 1024 * (1 + static_cast<std::int64_t>(random() % 64));
    storage.needed = random() % 3 == 0 || i + 1 == ops;
    problem.storages.push_back(storage);
  }
  return problem;
}

void minCut(benchmark::State& state) {
  const passes::CutProblem problem = chain(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(passes::solveCut(problem, 8.0).bytes);
}
BENCHMARK(minCut)->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace spscope

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: micro MODEL.pt2 [--benchmark_...]\n");
    return 2;
  }
  spscope::g_model = argv[1];
  argv[1] = argv[0];
  ++argv, --argc;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
