// SPDX-License-Identifier: Apache-2.0
// The executor on graphs made by hand: values, lifetimes, memory, errors, observers, random ops.
#include "core/torch/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>

#include "core/torch/memory.h"
#include "core/torch/virtual_ranks.h"
#include "tests/unit/torch/exec_support.h"

namespace spscope::exec {
namespace {
using ir::DType;
using testing::Builder;
using testing::put;
using A = Builder;

std::shared_ptr<const Program> prepared(const Builder& b, int rank = 0, int ranks = 1) {
  auto p = Program::prepare(b.share(), {.rank = rank, .ranks = ranks});
  if (!p) throw std::runtime_error(p.error().format());
  return *p;
}

/// Mean cross entropy of softmax(x W) by rows, with the backward written out: dW = x^T (softmax - onehot) / rows.
struct Softmax {
  Builder b;
  ir::ValueId loss = ir::kNone, grad = ir::kNone;
  static constexpr std::int64_t kRows = 3, kIn = 2, kOut = 4;

  Softmax() {
    b.graph.form = ir::Form::kJoint;
    const auto w = b.input("w", DType::kF64, {kIn, kOut}, ir::InputKind::kParameter);
    const auto x = b.input("x", DType::kF64, {kRows, kIn});
    const auto y = b.input("y", DType::kI64, {kRows});
    const auto logits = b.op("aten.mm.default", DType::kF64, {kRows, kOut}, {A::t("self", x), A::t("mat2", w)});
    const auto logp = b.op("aten._log_softmax.default", DType::kF64, {kRows, kOut},
                           {A::t("self", logits), A::i("dim", 1), {"half_to_float", false}});
    const auto nll = b.ops("aten.nll_loss_forward.default", {{DType::kF64, {}}, {DType::kF64, {}}},
                           {A::t("self", logp), A::t("target", y), {"weight", std::monostate{}}, A::i("reduction", 1),
                            A::i("ignore_index", -100)});
    const auto one = b.op("aten.ones_like.default", DType::kF64, {}, {A::t("self", nll[0])});
    const auto g1 = b.op("aten.nll_loss_backward.default", DType::kF64, {kRows, kOut},
                         {A::t("grad_output", one), A::t("self", logp), A::t("target", y), {"weight", std::monostate{}},
                          A::i("reduction", 1), A::i("ignore_index", -100), A::t("total_weight", nll[1])});
    const auto g2 = b.op("aten._log_softmax_backward_data.default", DType::kF64, {kRows, kOut},
                         {A::t("grad_output", g1), A::t("output", logp), A::i("dim", 1), {"input_dtype", DType::kF64}});
    const auto xt = b.op("aten.t.default", DType::kF64, {kIn, kRows}, {A::t("self", x)});
    grad = b.op("aten.mm.default", DType::kF64, {kIn, kOut}, {A::t("self", xt), A::t("mat2", g2)});
    loss = nll[0];
    b.output(loss, ir::OutputKind::kLoss);
    b.output(grad, ir::OutputKind::kGradient, 0);
  }
  static TensorBag state() {
    TensorBag bag;
    put<double>(bag, "w", DType::kF64, {kIn, kOut}, {0.3, -0.2, 0.5, 0.1, -0.4, 0.9, 0.0, 0.7});
    return bag;
  }
  static TensorBag inputs() {
    TensorBag bag;
    put<double>(bag, "x", DType::kF64, {kRows, kIn}, {1, 2, -1, 0.5, 0.25, -3});
    put<std::int64_t>(bag, "y", DType::kI64, {kRows}, {1, -100, 3});  // one row does not count
    return bag;
  }
  static double lossAt(const std::vector<double>& w) {
    const auto x = *inputs().values("x");
    const std::vector<int> y = {1, -100, 3};
    double sum = 0;
    for (std::size_t r = 0; r < 3; ++r) {
      if (y[r] < 0) continue;
      std::vector<double> z(4, 0.0);
      for (std::size_t o = 0; o < 4; ++o)
        for (std::size_t i = 0; i < 2; ++i) z[o] += x[r * 2 + i] * w[i * 4 + o];
      double e = 0;
      for (double v : z) e += std::exp(v);
      sum += std::log(e) - z[static_cast<std::size_t>(y[r])];
    }
    return sum / 2;
  }
};

TEST(Executor, AStepThatStopsBetweenNodesIsTheSameStep) {
  Softmax s;
  Executor executor(prepared(s.b));
  ASSERT_TRUE(executor.bind(Softmax::state()));
  auto whole = executor.step(Softmax::inputs());
  ASSERT_TRUE(whole) << whole.error().format();
  std::atomic<std::size_t> limit{0}, at{99};
  EXPECT_EQ(executor.runTo(limit, at).error().code, "program-invalid") << "no step has begun";
  EXPECT_EQ(executor.value(s.loss).error().code, "value-not-live");
  const std::size_t count = executor.program().nodeCount();
  for (int round = 0; round < 2; ++round) {  // the second begins while the first is under way
    ASSERT_TRUE(executor.begin(Softmax::inputs()));
    for (std::size_t to : {std::size_t{0}, std::size_t{1}, std::size_t{1}, std::size_t{4}, count - 1, round == 0 ? count - 1 : count + 7}) {
      limit = to;
      ASSERT_TRUE(executor.runTo(limit, at));
      EXPECT_EQ(executor.position(), std::min(to, count));
      EXPECT_EQ(at, executor.position());
      EXPECT_EQ(executor.value(s.grad).has_value(), to >= count);
    }
  }
  EXPECT_EQ(*executor.value(s.loss)->scalar(s.b.graph.value(s.loss).name), whole->loss);
  EXPECT_EQ(*executor.value(s.grad)->values(s.b.graph.value(s.grad).name), *whole->gradients.values("w"));
  EXPECT_EQ(executor.value(s.b.graph.node(s.b.graph.order[0]).outputs[0]).error().code, "value-not-live") << "freed after its last use";
}

TEST(Executor, LossAndGradientAgreeWithAFormulaAndFiniteDifferences) {
  Softmax s;
  Executor executor(prepared(s.b));
  ASSERT_TRUE(executor.bind(Softmax::state()));
  auto result = executor.step(Softmax::inputs());
  ASSERT_TRUE(result) << result.error().format();
  auto w = *Softmax::state().values("w");
  ASSERT_TRUE(result->has_loss);
  EXPECT_NEAR(result->loss, Softmax::lossAt(w), 1e-14);
  const auto gradient = *result->gradients.values("w");
  for (std::size_t i = 0; i < w.size(); ++i) {
    auto up = w, down = w;
    up[i] += 1e-6;
    down[i] -= 1e-6;
    EXPECT_NEAR(gradient[i], (Softmax::lossAt(up) - Softmax::lossAt(down)) / 2e-6, 1e-8) << i;
  }
}

TEST(Executor, StepsAgainWithTheSameBits) {
  Softmax s;
  Executor executor(prepared(s.b));
  ASSERT_TRUE(executor.bind(Softmax::state()));
  const auto first = executor.step(Softmax::inputs());
  const auto second = executor.step(Softmax::inputs());
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->loss, second->loss);
  EXPECT_EQ(*first->gradients.values("w"), *second->gradients.values("w"));
}

TEST(Executor, RefusesInputsThatDoNotFit) {
  Softmax s;
  Executor executor(prepared(s.b));
  ASSERT_TRUE(executor.bind(Softmax::state()));
  const auto code = [&](const TensorBag& bag) {
    auto r = executor.step(bag);
    return r ? std::string("none") : r.error().code;
  };
  TensorBag none;
  EXPECT_EQ(code(none), "input-missing");
  TensorBag shape = Softmax::inputs();
  put<double>(shape, "x", DType::kF64, {2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(code(shape), "input-shape");
  TensorBag dtype = Softmax::inputs();
  put<float>(dtype, "x", DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(code(dtype), "input-dtype");
  TensorBag missing;
  EXPECT_EQ(executor.bind(missing).error().code, "weight-missing");
  EXPECT_EQ(code(Softmax::inputs()), "none");  // and is still usable
}

TEST(Executor, AFailingOpNamesItsNodeAndTheRank) {
  Softmax s;
  Executor executor(prepared(s.b));
  ASSERT_TRUE(executor.bind(Softmax::state()));
  TensorBag bad = Softmax::inputs();
  put<std::int64_t>(bad, "y", DType::kI64, {3}, {1, 2, 99});  // class out of bounds
  const auto result = executor.step(bad);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "op-failed");
  EXPECT_EQ(result.error().outcome, Outcome::kRunFailed);
  EXPECT_EQ(result.error().node, "%" + s.b.graph.node(s.b.graph.value(s.loss).producer).name);
  ASSERT_FALSE(result.error().notes.empty());
  EXPECT_EQ(result.error().notes.back(), "on rank 0");
}

TEST(Program, RefusesAnOperandThatIsDefinedLater) {
  Softmax s;
  std::swap(s.b.graph.order[0], s.b.graph.order[1]);
  const auto p = Program::prepare(s.b.share());
  ASSERT_FALSE(p);
  EXPECT_EQ(p.error().code, "program-invalid");
}

/// A chain of n additions on `elements` doubles: two values live at a time.
Builder chain(std::int64_t elements, int n) {
  Builder b;
  auto v = b.input("x", DType::kF64, {elements});
  for (int i = 0; i < n; ++i) v = b.op("aten.add.Tensor", DType::kF64, {elements}, {A::t("self", v), A::t("other", v)});
  b.output(v);
  return b;
}

TEST(Memory, PeakIsWhatLivesAtOnce) {
  const std::int64_t elements = 1 << 12, bytes = elements * 8;
  Executor executor(prepared(chain(elements, 5)));
  TensorBag inputs;
  put(inputs, "x", DType::kF64, {elements}, std::vector<double>(static_cast<std::size_t>(elements), 1.0));
  for (int step = 0; step < 2; ++step) {
    auto result = executor.step(inputs);
    ASSERT_TRUE(result) << result.error().format();
    EXPECT_EQ((*result->outputs.values(result->outputs.names()[0]))[7], 32.0);
    EXPECT_EQ(result->peak_bytes, 2 * bytes);  // the input was there before
    EXPECT_EQ(result->peak_node, executor.program().node(1).id);
    EXPECT_EQ(executor.meter().live(), bytes);  // the result still is
  }
}

TEST(Memory, KeptValuesStay) {
  const std::int64_t elements = 1 << 12;
  auto p = Program::prepare(chain(elements, 5).share(), {.keep_values = true});
  Executor executor(*p);
  TensorBag inputs;
  put(inputs, "x", DType::kF64, {elements}, std::vector<double>(static_cast<std::size_t>(elements), 1.0));
  auto result = executor.step(inputs);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->peak_bytes, 5 * elements * 8);
}

TEST(Memory, AViewKeepsItsStorageAndDiesWithItsLastUse) {
  const std::int64_t n = 64, bytes = n * n * 8;
  Builder b;
  const auto x = b.input("x", DType::kF64, {n, n});
  const auto a = b.op("aten.neg.default", DType::kF64, {n, n}, {A::t("self", x)});
  const auto view = b.op("aten.t.default", DType::kF64, {n, n}, {A::t("self", a)});
  const auto c = b.op("aten.neg.default", DType::kF64, {n, n}, {A::t("self", x)});
  const auto d = b.op("aten.add.Tensor", DType::kF64, {n, n}, {A::t("self", view), A::t("other", c)});
  const auto e = b.op("aten.neg.default", DType::kF64, {n, n}, {A::t("self", d)});
  b.output(e);
  Executor executor(prepared(b));
  TensorBag inputs;
  put(inputs, "x", DType::kF64, {n, n}, std::vector<double>(static_cast<std::size_t>(n * n), 1.0));
  auto result = executor.step(inputs);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->peak_bytes, 3 * bytes);  // a (through its view), c, d
}

TEST(Memory, AMeterForgetsBlocksFromBeforeItsMark) {
  installCountingAllocator();
  MemoryMeter meter;
  TensorBag early, late;
  {
    const MeterScope scope(meter);
    put(early, "a", DType::kF64, {100}, std::vector<double>(100, 0.0));
    EXPECT_EQ(meter.live(), 800);
    meter.reset();
    put(late, "a", DType::kF64, {10}, std::vector<double>(10, 0.0));
    early.clear();
    EXPECT_EQ(meter.live(), 80);
    late.clear();
    EXPECT_EQ(meter.live(), 0);
    EXPECT_EQ(meter.peak(), 80);
  }
  put(early, "a", DType::kF64, {100}, std::vector<double>(100, 0.0));
  EXPECT_EQ(meter.live(), 0);  // outside of the scope
}

struct Recorder : ExecutionObserver {
  std::vector<std::string> begun, ended, collectives, waits;
  std::map<std::string, std::int64_t> allocated;
  std::int64_t live = 0, steps = 0, sent = 0, last = 0, stop_after = -1;
  bool ordered = true;
  void time(std::int64_t ns) {
    ordered = ordered && ns >= last;
    last = ns;
  }
  void stepBegin(int, std::int64_t, std::int64_t ns) override { time(ns); }
  void stepEnd(int, std::int64_t step, std::int64_t ns) override {
    time(ns);
    steps = step;
  }
  bool nodeBegin(int, const ir::Node& node, std::int64_t ns) override {
    time(ns);
    begun.push_back(node.name);
    return stop_after < 0 || static_cast<std::int64_t>(begun.size()) <= stop_after;
  }
  void nodeEnd(int, const ir::Node& node, std::int64_t ns) override {
    time(ns);
    ended.push_back(node.name);
  }
  void onCollectiveStart(const CollectiveEvent& e, std::int64_t ns) override {
    time(ns);
    collectives.push_back(e.node->name + "@" + std::to_string(e.rank) + "#" + std::to_string(e.sequence));
    sent += e.bytes;
  }
  void onCollectiveWait(const CollectiveEvent& e, const CollectiveSpan& times) override {
    time(times.wait_begin_ns);
    time(times.wait_end_ns);
    EXPECT_LE(times.begin_ns, times.end_ns);
    waits.push_back(e.node->name + "@" + std::to_string(e.rank) + "#" + std::to_string(e.sequence));
  }
  void allocation(int, const ir::Node* node, std::int64_t bytes, std::int64_t now, std::int64_t ns) override {
    time(ns);
    if (bytes > 0) allocated[node != nullptr ? node->name : ""] += bytes;
    live = now;
  }
};

TEST(Observer, SeesEveryNodeAndAllocation) {
  const std::int64_t elements = 1 << 10;
  const Builder b = chain(elements, 3);
  Executor executor(prepared(b));
  TensorBag inputs;
  put(inputs, "x", DType::kF64, {elements}, std::vector<double>(static_cast<std::size_t>(elements), 1.0));
  Recorder recorder;
  StepOptions options;
  options.observer = &recorder;
  options.step = 7;
  auto result = executor.step(inputs, options);
  ASSERT_TRUE(result);
  std::vector<std::string> names;
  for (const ir::NodeId n : b.graph.order) names.push_back(b.graph.node(n).name);
  EXPECT_EQ(recorder.begun, names);
  EXPECT_EQ(recorder.ended, names);
  EXPECT_EQ(recorder.steps, 7);
  EXPECT_TRUE(recorder.ordered);
  for (const std::string& n : names) EXPECT_EQ(recorder.allocated[n], elements * 8);
  EXPECT_EQ(recorder.live, elements * 8);
  EXPECT_EQ(result->peak_bytes, 2 * elements * 8);
}

TEST(Observer, MayStopTheRun) {
  Executor executor(prepared(chain(16, 5)));
  TensorBag inputs;
  put(inputs, "x", DType::kF64, {16}, std::vector<double>(16, 1.0));
  Recorder recorder;
  recorder.stop_after = 2;
  StepOptions options;
  options.observer = &recorder;
  auto result = executor.step(inputs, options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "cancelled");
  EXPECT_EQ(recorder.ended.size(), 2u);
  EXPECT_EQ(executor.meter().live(), 0);  // nothing is left behind
  EXPECT_TRUE(executor.step(inputs));
}

TEST(Executor, StopsWhenCancelled) {
  Executor executor(prepared(chain(16, 5)));
  TensorBag inputs;
  put(inputs, "x", DType::kF64, {16}, std::vector<double>(16, 1.0));
  StepOptions options;
  options.cancel.cancel();
  auto result = executor.step(inputs, options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "cancelled");
}

/// sum over ranks of slice(x) * (its own number of rows), and the gradient rule of vary: all_reduce.
Builder sumOfShards(int rank, const ir::Dims& blocks, ir::Dims shape) {
  Builder b;
  b.graph.rank = rank;
  const auto x = b.input("x", DType::kF64, shape);
  ir::Dims mine = shape;
  mine[0] = blocks[static_cast<std::size_t>(rank)];
  const auto v = b.op("sp.vary.default", DType::kF64, shape, {A::t("self", x)});
  const auto s = b.op("sp.slice.default", DType::kF64, mine, {A::t("self", v), A::i("dim", 0), A::list("blocks", blocks)});
  const auto part = b.op("aten.sum.default", DType::kF64, {}, {A::t("self", s)});
  b.output(b.op("sp.all_reduce.default", DType::kF64, {}, {A::t("self", part)}));
  b.output(part);
  return b;
}

TEST(VirtualRanks, SumPartsInTheSameOrderOnEveryRank) {
  const ir::Dims blocks = {3, 0, 2};
  std::vector<std::shared_ptr<const Program>> programs;
  for (int r = 0; r < 3; ++r) programs.push_back(prepared(sumOfShards(r, blocks, {5, 2}), r, 3));
  auto all = VirtualRanks::create(programs);
  ASSERT_TRUE(all) << all.error().format();
  TensorBag inputs;
  put<double>(inputs, "x", DType::kF64, {5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  Recorder recorder;
  StepOptions options;
  options.observer = &recorder;
  auto results = all->step(inputs, options);
  ASSERT_TRUE(results) << results.error().format();
  const std::vector<double> parts = {21, 0, 34};
  for (std::size_t r = 0; r < 3; ++r) {
    const auto names = (*results)[r].outputs.names();
    EXPECT_EQ(*(*results)[r].outputs.scalar(names[0]), 55.0);
    EXPECT_EQ(*(*results)[r].outputs.scalar(names[1]), parts[r]);  // the operand keeps its value
  }
  EXPECT_EQ(recorder.collectives.size(), 3u);
  EXPECT_EQ(recorder.waits, recorder.collectives);  // blocking ones: started and waited for by one node
  EXPECT_EQ(recorder.begun.size(), 12u);
}

TEST(VirtualRanks, StepNodeByNodeAndLookAtValues) {
  const ir::Dims blocks = {3, 2};
  std::vector<std::shared_ptr<const Program>> programs;
  for (int r = 0; r < 2; ++r) programs.push_back(prepared(sumOfShards(r, blocks, {5, 2}), r, 2));
  auto all = VirtualRanks::create(programs);
  ASSERT_TRUE(all);
  TensorBag inputs;
  put<double>(inputs, "x", DType::kF64, {5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const ir::Graph& graph = all->program(0).graph();
  const ir::ValueId slice = graph.node(graph.order[1]).outputs[0];
  EXPECT_FALSE(all->stepNode());  // not begun
  ASSERT_TRUE(all->begin(inputs));
  EXPECT_EQ(all->value(0, slice).error().code, "value-not-live");
  ASSERT_TRUE(all->stepNode());
  ASSERT_TRUE(all->stepNode());
  EXPECT_EQ(all->position(0), 2u);
  EXPECT_EQ(all->position(1), 2u);
  auto v = all->value(1, slice);
  ASSERT_TRUE(v) << v.error().format();
  EXPECT_EQ(*v->values(graph.value(slice).name), (std::vector<double>{7, 8, 9, 10}));
  EXPECT_FALSE(all->finish());
  ASSERT_TRUE(all->stepNode());
  EXPECT_EQ(all->value(1, slice).error().code, "value-not-live");  // its last use is over
  ASSERT_TRUE(all->stepNode());
  EXPECT_TRUE(all->done());
  EXPECT_FALSE(all->stepNode());
  ASSERT_TRUE(all->finish());
}

TEST(VirtualRanks, RefuseProgramsThatExchangeDifferently) {
  const auto a = sumOfShards(0, {3, 2}, {5, 2});
  auto b = sumOfShards(1, {3, 2}, {5, 2});
  b.graph.node(b.graph.order[3]).op = "sp.vary.default";  // instead of the all-reduce
  auto all = VirtualRanks::create({prepared(a, 0, 2), prepared(b, 1, 2)});
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code, "rank-programs-differ");

  // The same collective over other blocks: each rank's program is right in itself.
  const auto gather = [](int rank, const ir::Dims& blocks) {
    Builder g;
    const auto x = g.input("x", DType::kF64, {blocks[static_cast<std::size_t>(rank)]});
    g.output(g.op("sp.all_gather.default", DType::kF64, {blocks[0] + blocks[1]},
                  {A::t("self", x), A::i("dim", 0), A::list("blocks", blocks)}));
    return prepared(g, rank, 2);
  };
  auto blocks = VirtualRanks::create({gather(0, {2, 3}), gather(1, {1, 4})});
  ASSERT_FALSE(blocks);
  EXPECT_EQ(blocks.error().code, "rank-programs-differ");
}

TEST(VirtualRanks, MayRunOtherNodesBetweenTheSameCollectives) {
  // Rank 1 has two nodes more before the all-reduce.
  const auto a = sumOfShards(0, {3, 2}, {5, 2});
  Builder b;
  const auto x = b.input("x", DType::kF64, {5, 2});
  const auto s = b.op("sp.slice.default", DType::kF64, {2, 2}, {A::t("self", x), A::i("dim", 0), A::list("blocks", {3, 2})});
  const auto n = b.op("aten.neg.default", DType::kF64, {2, 2}, {A::t("self", s)});
  const auto m = b.op("aten.neg.default", DType::kF64, {2, 2}, {A::t("self", n)});
  const auto part = b.op("aten.sum.default", DType::kF64, {}, {A::t("self", m)});
  b.output(b.op("sp.all_reduce.default", DType::kF64, {}, {A::t("self", part)}));
  auto all = VirtualRanks::create({prepared(a, 0, 2), prepared(b, 1, 2)});
  ASSERT_TRUE(all) << all.error().format();
  TensorBag inputs;
  put<double>(inputs, "x", DType::kF64, {5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  auto results = all->step(inputs);
  ASSERT_TRUE(results) << results.error().format();
  for (const auto& r : *results) EXPECT_EQ(*r.outputs.scalar(r.outputs.names()[0]), 55.0);
}

TEST(Executor, RandomOpsFollowSeedAndStep) {
  Builder b;
  const auto x = b.input("x", DType::kF64, {256});
  const auto y = b.ops("aten.native_dropout.default", {{DType::kF64, {256}}, {DType::kBool, {256}}},
                       {A::t("input", x), {"p", 0.5}, {"train", true}});
  b.output(y[0]);
  Executor executor(prepared(b));
  TensorBag inputs;
  put(inputs, "x", DType::kF64, {256}, std::vector<double>(256, 1.0));
  const auto run = [&](std::uint64_t seed, std::int64_t step) {
    StepOptions options;
    options.seed = seed;
    options.step = step;
    auto r = executor.step(inputs, options);
    return *r->outputs.values(r->outputs.names()[0]);
  };
  EXPECT_EQ(run(1, 0), run(1, 0));
  EXPECT_NE(run(1, 0), run(1, 1));
  EXPECT_NE(run(1, 0), run(2, 0));
}

}  // namespace
}  // namespace spscope::exec
