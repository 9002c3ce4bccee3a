// SPDX-License-Identifier: Apache-2.0
// Random programs full of collectives run on virtual ranks, before and after the passes for collectives: the same numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "core/ir/text.h"
#include "passes/manager.h"
#include "passes/registry.h"
#include "tests/support/layouts.h"
#include "tests/support/random_joint.h"

namespace spscope::exec {
namespace {

using testing::Layouts;
using testing::Programs;
using testing::runAndLook;

struct Bags {
  TensorBag state, inputs;
};
Bags numbersFor(const ir::Graph& graph) {
  Bags out;
  for (const ir::Input& in : graph.inputs) {
    const ir::Value& v = graph.value(in.value);
    std::vector<double> wide;
    for (std::int64_t i = 0; i < ir::numel(v.local); ++i) wide.push_back(std::sin(static_cast<double>(i) * 0.7 + static_cast<double>(in.value)));
    const std::vector<float> narrow(wide.begin(), wide.end());
    const auto bytes = v.dtype == ir::DType::kF64 ? std::as_bytes(std::span(wide)) : std::as_bytes(std::span(narrow));
    EXPECT_TRUE((in.kind == ir::InputKind::kUser ? out.inputs : out.state).add(in.name, v.dtype, v.local, bytes));
  }
  return out;
}

void expectNear(const TensorBag& a, const TensorBag& b) {
  ASSERT_EQ(a.names(), b.names());
  for (const std::string& name : a.names()) {
    const std::vector<double> x = a.values(name).value(), y = b.values(name).value();
    ASSERT_EQ(x.size(), y.size()) << name;
    const double tolerance = a.entry(name)->dtype == ir::DType::kF64 ? 1e-12 : 1e-4;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (std::isfinite(x[i]) || std::isfinite(y[i])) EXPECT_NEAR(x[i], y[i], tolerance * (1 + std::abs(x[i]))) << name << "[" << i << "]";
  }
}

TEST(CommRandom, ProgramsGiveTheSameAfterThePasses) {
  Layouts layouts;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const spscope::testing::RandomJoint program(seed);
    passes::Settings settings;
    settings.sp = static_cast<int>(program.graphs.size());
    settings.bucket_bytes = seed % 3 == 0 ? 64 : 1 << 20;
    Programs before, after;
    for (const ir::Graph& graph : program.graphs) {
      before.push_back(std::make_shared<ir::Graph>(graph));
      passes::PassContext context{settings};
      context.rank = graph.rank;
      const auto result = passes::runPipeline(before.back(),
          {*passes::findPass("simplify-joint"), *passes::findPass("fuse-collectives"), *passes::findPass("overlap-collectives")}, context, {});
      ASSERT_FALSE(result.failure) << result.failure->format();
      after.push_back(result.graph);
    }
    const Bags bags = numbersFor(program.graphs.front());
    const auto plain = runAndLook(before, bags.state, bags.inputs, layouts), overlapped = runAndLook(after, bags.state, bags.inputs, layouts);
    ASSERT_TRUE(plain) << plain.error().format() << ir::printGraph(*before.front());
    ASSERT_TRUE(overlapped) << overlapped.error().format() << ir::printGraph(*after.front());
    for (std::size_t r = 0; r < plain->size(); ++r) {
      SCOPED_TRACE("rank " + std::to_string(r));
      const StepResult &a = (*plain)[r], &b = (*overlapped)[r];
      if (std::isfinite(a.loss) || std::isfinite(b.loss)) EXPECT_NEAR(a.loss, b.loss, 1e-4 * (1 + std::abs(a.loss)));
      expectNear(a.gradients, b.gradients);
      expectNear(a.outputs, b.outputs);
    }
    if (HasFailure()) FAIL() << ir::printGraph(*before.front()) << ir::printGraph(*after.front());
  }
  EXPECT_GT(layouts.sure, layouts.contiguous / 2);
  EXPECT_LT(layouts.contiguous, layouts.values);
}

}  // namespace
}  // namespace spscope::exec
