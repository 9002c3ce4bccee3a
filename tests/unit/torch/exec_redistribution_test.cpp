// SPDX-License-Identifier: Apache-2.0
// Every redistribution against an oracle that only knows indices: each rank's block of a global tensor of unique
// numbers, in lockstep (virtual ranks) and through real collectives between threads.
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "core/dist/async_collectives.h"
#include "core/ir/pending.h"
#include "core/torch/executor.h"
#include "core/torch/redistribution.h"
#include "core/torch/virtual_ranks.h"
#include "tests/unit/torch/exec_support.h"

namespace spscope::exec {
namespace {
using testing::Builder;
using testing::ThreadGroup;

constexpr ir::DType kType = ir::DType::kF64;

/// values[index] for the block of `shape` that starts at `begin` in a global tensor of shape `global`; row-major numbers.
std::vector<double> blockOf(const ir::Dims& global, const ir::Dims& begin, const ir::Dims& shape) {
  std::vector<double> values;
  ir::Dims index(shape.size(), 0);
  const std::int64_t n = ir::numel(shape);
  for (std::int64_t flat = 0; flat < n; ++flat) {
    std::int64_t rest = flat;
    for (std::size_t d = shape.size(); d-- > 0;) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    double number = 0;
    for (std::size_t d = 0; d < shape.size(); ++d)
      number = number * static_cast<double>(global[d]) + static_cast<double>(begin[d] + index[d]);
    values.push_back(number + 1);
  }
  return values;
}

/// The part of `global` that `rank` holds when `dim` is cut in `blocks`; dim -1: all of it.
std::vector<double> shard(const ir::Dims& global, int dim, const ir::Dims& blocks, int rank, ir::Dims* shape) {
  *shape = global;
  ir::Dims begin(global.size(), 0);
  if (dim >= 0) {
    (*shape)[static_cast<std::size_t>(dim)] = blocks[static_cast<std::size_t>(rank)];
    begin[static_cast<std::size_t>(dim)] = ir::offsetsOf(blocks)[static_cast<std::size_t>(rank)];
  }
  return blockOf(global, begin, *shape);
}

struct Case {
  std::string name;
  const char* op;
  ir::Dims global;
  int from_dim, to_dim;  ///< -1: whole on every rank
  ir::Dims from, to;     ///< blocks
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

class Redistributes : public ::testing::TestWithParam<Case> {
 protected:
  int ranks() const { return static_cast<int>((GetParam().from.empty() ? GetParam().to : GetParam().from).size()); }

  std::shared_ptr<const Program> program(int rank) {
    const Case& c = GetParam();
    Builder b;
    ir::Dims in_shape, out_shape;
    shard(c.global, c.from_dim, c.from, rank, &in_shape);
    shard(c.global, c.to_dim, c.to, rank, &out_shape);
    const ir::ValueId x = b.input("x", kType, in_shape);
    ir::ValueId y;
    const std::string op = c.op;
    if (op == "sp.all_to_all.default")
      y = b.op(c.op, kType, out_shape, {Builder::t("self", x), Builder::i("gather_dim", c.from_dim),
                                        Builder::list("gather_blocks", c.from), Builder::i("scatter_dim", c.to_dim),
                                        Builder::list("scatter_blocks", c.to)});
    else if (op == "sp.all_gather.default")
      y = b.op(c.op, kType, out_shape, {Builder::t("self", x), Builder::i("dim", c.from_dim), Builder::list("blocks", c.from)});
    else
      y = b.op(c.op, kType, out_shape, {Builder::t("self", x), Builder::i("dim", c.to_dim), Builder::list("blocks", c.to)});
    b.output(y);
    auto p = Program::prepare(b.share(), {.rank = rank, .ranks = ranks()});
    EXPECT_TRUE(p) << p.error().format();
    return *p;
  }
  TensorBag input(int rank) {
    const Case& c = GetParam();
    ir::Dims shape;
    auto values = shard(c.global, c.from_dim, c.from, rank, &shape);
    TensorBag bag;
    testing::put(bag, "x", kType, shape, values);
    return bag;
  }
  /// A reduce-scatter sums what every rank holds: the same numbers on all ranks give P times the number.
  std::vector<double> expected(int rank) {
    const Case& c = GetParam();
    ir::Dims shape;
    auto values = shard(c.global, c.to_dim, c.to, rank, &shape);
    if (std::string(c.op) == "sp.reduce_scatter.default")
      for (double& v : values) v *= ranks();
    return values;
  }
};

// Each element is its own index: it lands where the index says, and the exchange back puts it where it was.
TEST_P(Redistributes, SP_21_between_threads_every_element_lands_where_its_index_says) {
  ThreadGroup group(ranks());
  std::vector<std::vector<double>> got(static_cast<std::size_t>(ranks()));
  std::vector<std::string> failures(static_cast<std::size_t>(ranks()));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks(); ++r) {
    auto p = program(r);
    threads.emplace_back([&, r, p] {
      auto member = group.member(r);
      Executor executor(p, member.get());
      auto result = executor.step(input(r));
      if (!result) {
        failures[static_cast<std::size_t>(r)] = result.error().format();
        return;
      }
      got[static_cast<std::size_t>(r)] = *result->outputs.values(result->outputs.entry(std::size_t{0}).name);
    });
  }
  for (auto& t : threads) t.join();
  for (int r = 0; r < ranks(); ++r) {
    EXPECT_EQ(failures[static_cast<std::size_t>(r)], "");
    EXPECT_EQ(got[static_cast<std::size_t>(r)], expected(r)) << "rank " << r;
  }
}

/// The same op started and waited for, twice over in one start, as fuse-collectives writes it.
std::shared_ptr<const Program> startedProgram(const Case& c, const ir::Graph& plain, int rank, int ranks, ir::InputKind kind) {
  Builder b;
  const ir::Node& node = plain.node(plain.order[0]);
  const ir::Value& in = plain.value(plain.inputs[0].value);
  const ir::Value& out = plain.value(node.outputs[0]);
  const ir::ValueId x = b.input("x", kType, in.local, kind);
  const bool gathers = c.from_dim >= 0;
  const ir::Dims flat_out{ir::numel(out.local)}, flat_in{ir::numel(in.local)};
  const auto buffers = b.ops(ir::startOf(node.op).str().c_str(), {{kType, flat_out}, {kType, flat_out}, {kType, flat_in}, {kType, flat_in}}, {});
  ir::Node& start = b.graph.node(b.graph.order.back());
  ir::Node part = node;
  part.set("self", ir::Use{x});
  ir::appendPart(start, part);
  ir::appendPart(start, part);
  const bool whole = !gathers || ir::isOutermost(out.local, c.from_dim);
  const ir::Dims given = whole ? out.local : flat_out;
  const auto waited = b.ops("sp.wait.default", {{kType, given}, {kType, given}}, {});
  b.graph.node(b.graph.order.back()).set("self", ir::UseList{{buffers[0]}, {buffers[1]}, {buffers[2]}, {buffers[3]}});
  for (std::size_t i = 0; i < 2; ++i) {
    b.graph.value(waited[i]).storage = buffers[i];
    ir::ValueId y = waited[i];
    if (!whole) y = b.op("sp.unpack.default", kType, out.local, {Builder::t("self", y), Builder::i("dim", c.from_dim), Builder::list("blocks", c.from)});
    b.output(y);
  }
  auto p = Program::prepare(b.share(), {.rank = rank, .ranks = ranks});
  EXPECT_TRUE(p) << p.error().format();
  return *p;
}

TEST_P(Redistributes, StartedBetweenThreads) {
  const Case& c = GetParam();
  if (std::string(c.op) == "sp.slice.default") GTEST_SKIP() << "sends nothing";
  ThreadGroup group(ranks());
  std::vector<std::vector<std::vector<double>>> got(static_cast<std::size_t>(ranks()));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks(); ++r) {
    const auto p = startedProgram(c, program(r)->graph(), r, ranks(), ir::InputKind::kUser);
    threads.emplace_back([&, r, p] {
      const auto member = dist::makeAsync(group.member(r));
      Executor executor(p, member.get());
      auto result = executor.step(input(r));
      if (!result) return;
      for (std::size_t i = 0; i < 2; ++i) got[static_cast<std::size_t>(r)].push_back(*result->outputs.values(result->outputs.entry(i).name));
    });
  }
  for (auto& t : threads) t.join();
  for (int r = 0; r < ranks(); ++r) EXPECT_EQ(got[static_cast<std::size_t>(r)], (std::vector{expected(r), expected(r)})) << "rank " << r;
}

TEST_P(Redistributes, StartedInLockstep) {
  const Case& c = GetParam();
  if (std::string(c.op) == "sp.slice.default") GTEST_SKIP() << "sends nothing";
  std::vector<std::shared_ptr<const Program>> programs;
  std::vector<TensorBag> states;
  for (int r = 0; r < ranks(); ++r) {
    programs.push_back(startedProgram(c, program(r)->graph(), r, ranks(), ir::InputKind::kBuffer));
    states.push_back(input(r));
  }
  auto all = VirtualRanks::create(programs);
  ASSERT_TRUE(all) << all.error().format();
  ASSERT_TRUE(all->bind(states));
  for (int step = 0; step < 2; ++step) {
    auto results = all->step(TensorBag());
    ASSERT_TRUE(results) << results.error().format();
    for (int r = 0; r < ranks(); ++r) {
      const auto& outputs = (*results)[static_cast<std::size_t>(r)].outputs;
      for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(*outputs.values(outputs.entry(i).name), expected(r)) << "rank " << r;
    }
  }
}

TEST_P(Redistributes, InLockstep) {
  // Virtual ranks take one bag for all, so each rank's block is an input of its own name, bound as its state.
  const Case& c = GetParam();
  std::vector<std::shared_ptr<const Program>> programs;
  std::vector<TensorBag> states;
  for (int r = 0; r < ranks(); ++r) {
    auto graph = std::make_shared<ir::Graph>(program(r)->graph());
    graph->inputs[0].kind = ir::InputKind::kBuffer;
    programs.push_back(*Program::prepare(graph, {.rank = r, .ranks = ranks()}));
    states.push_back(input(r));
  }
  auto all = VirtualRanks::create(programs);
  ASSERT_TRUE(all) << all.error().format();
  ASSERT_TRUE(all->bind(states));
  auto results = all->step(TensorBag());
  ASSERT_TRUE(results) << results.error().format();
  for (int r = 0; r < ranks(); ++r) {
    const auto& outputs = (*results)[static_cast<std::size_t>(r)].outputs;
    ir::Dims shape;
    shard(c.global, c.to_dim, c.to, r, &shape);
    EXPECT_EQ(outputs.entry(std::size_t{0}).shape, shape);
    EXPECT_EQ(*outputs.values(outputs.entry(std::size_t{0}).name), expected(r)) << "rank " << r;
  }
}

const ir::Dims kBshd = {2, 8, 4, 2};
INSTANTIATE_TEST_SUITE_P(
    Blocks, Redistributes,
    ::testing::Values(
        Case{"SequenceToHeads", "sp.all_to_all.default", kBshd, 1, 2, {4, 4}, {2, 2}},
        Case{"HeadsToSequence", "sp.all_to_all.default", kBshd, 2, 1, {2, 2}, {4, 4}},
        Case{"Uneven", "sp.all_to_all.default", kBshd, 1, 2, {5, 3}, {1, 3}},
        Case{"EmptyOnOneRank", "sp.all_to_all.default", kBshd, 1, 2, {8, 0}, {0, 4}},
        Case{"ThreeRanksUnevenAndEmpty", "sp.all_to_all.default", {2, 7, 2, 3}, 1, 2, {3, 3, 1}, {1, 1, 0}},
        Case{"BatchOfOneNeedsNoCopy", "sp.all_to_all.default", {1, 8, 4, 2}, 1, 2, {4, 4}, {2, 2}},
        Case{"BatchOfOneBack", "sp.all_to_all.default", {1, 8, 4, 2}, 2, 1, {3, 1}, {6, 2}},
        Case{"LastToFirst", "sp.all_to_all.default", {6, 5, 4}, 2, 0, {1, 3}, {2, 4}},
        Case{"Gather", "sp.all_gather.default", kBshd, 1, -1, {6, 2}, {}},
        Case{"GatherFirst", "sp.all_gather.default", {6, 5}, 0, -1, {4, 2}, {}},
        Case{"GatherEmpty", "sp.all_gather.default", kBshd, 2, -1, {4, 0}, {}},
        Case{"Slice", "sp.slice.default", kBshd, -1, 1, {}, {6, 2}},
        Case{"SliceToNothing", "sp.slice.default", kBshd, -1, 2, {}, {0, 4}},
        Case{"ReduceScatter", "sp.reduce_scatter.default", kBshd, -1, 1, {}, {3, 5}},
        Case{"ReduceScatterFirst", "sp.reduce_scatter.default", {6, 5}, -1, 0, {}, {4, 1, 1}}),
    [](const auto& info) { return info.param.name; });

TEST(Redistribution, RefusesBlocksThatDoNotFit) {
  Builder b;
  const ir::ValueId x = b.input("x", kType, {2, 8});
  b.output(b.op("sp.all_gather.default", kType, {2, 16}, {Builder::t("self", x), Builder::i("dim", 1), Builder::list("blocks", {9, 7})}));
  const auto p = Program::prepare(b.share(), {.rank = 0, .ranks = 2});
  ASSERT_FALSE(p);
  EXPECT_EQ(p.error().code, "sp-op");
  EXPECT_NE(p.error().message.find("8 elements"), std::string::npos) << p.error().message;
}

TEST(Redistribution, CountsWhatIsSentAndWhatIsAllocated) {
  Builder b;
  const ir::ValueId x = b.input("x", kType, {2, 4, 4, 2});
  const ir::ValueId y = b.op("sp.all_to_all.default", kType, {2, 8, 2, 2},
                             {Builder::t("self", x), Builder::i("gather_dim", 1), Builder::list("gather_blocks", {4, 4}),
                              Builder::i("scatter_dim", 2), Builder::list("scatter_blocks", {2, 2})});
  const ir::Node& node = b.graph.node(b.graph.value(y).producer);
  const auto r = describe(node, {2, 4, 4, 2}, 0, 2);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->bytesSent(8), 2 * 4 * 2 * 2 * 8);  // half of 64 elements stays
  EXPECT_FALSE(r->packFree());
  EXPECT_FALSE(r->unpackFree());
  EXPECT_TRUE(describe(node, {1, 4, 4, 2}, 0, 2)->unpackFree());
}

TEST(Redistribution, SendAndReceiveBuffersAreNeverThereTogetherWithTheResult) {
  const auto peak = [](std::int64_t batch) {
    std::vector<std::shared_ptr<const Program>> programs;
    TensorBag inputs;
    testing::put(inputs, "x", kType, {batch, 4, 4, 2}, std::vector<double>(static_cast<std::size_t>(batch * 32), 1.0));
    for (int r = 0; r < 2; ++r) {
      Builder b;
      const ir::ValueId x = b.input("x", kType, {batch, 4, 4, 2});
      b.output(b.op("sp.all_to_all.default", kType, {batch, 8, 2, 2},
                    {Builder::t("self", x), Builder::i("gather_dim", 1), Builder::list("gather_blocks", {4, 4}),
                     Builder::i("scatter_dim", 2), Builder::list("scatter_blocks", {2, 2})}));
      programs.push_back(*Program::prepare(b.share(), {.rank = r, .ranks = 2}));
    }
    auto all = VirtualRanks::create(programs);
    auto results = all->step(inputs);
    return results ? (*results)[1].peak_bytes : -1;
  };
  EXPECT_EQ(peak(2), 2 * 64 * 8);  // send and receive, then receive and result
  EXPECT_EQ(peak(1), 2 * 32 * 8);  // send and result: nothing to unpack
}

}  // namespace
}  // namespace spscope::exec
