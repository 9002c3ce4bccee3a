// SPDX-License-Identifier: Apache-2.0
// The comparison of values node by node: on programs that are right every value that has a counterpart agrees with it, and
// nearly every value has one. (What it says of programs that are wrong: faults_test.cpp.)
#include <gmock/gmock.h>

#include "tests/support/zoo.h"

namespace spscope::zoo {
namespace {

struct Compared {
  session::ValueComparison values;
  std::size_t nodes = 0;
};

Result<Compared> compare(const std::string& name, int sp, std::optional<ir::DType> dtype, bool stress, std::int64_t budget = 0, const std::string& save = "sac") {
  const Case what = caseOf(name, sp, stress);
  DiagnosticSink sink;
  session::Request request;
  request.diagnostics = &sink;
  session::OpenRequest open;
  open.path = what.path;
  open.dtype = dtype;
  SP_ASSIGN(const auto model, session::open(open, request));
  session::CompileRequest compile;
  compile.settings.sp = sp;
  compile.settings.save = save;
  SP_ASSIGN(const session::CompileOutcome compiled, session::compile(*model, compile, request));
  session::DataRequest data;
  data.inputs = what.inputs;
  session::Sides sides;
  SP_ASSIGN(sides.state, session::loadState(*model, data, request));
  SP_ASSIGN(sides.inputs, session::loadInputs(*model, data, 0, request));
  SP_ASSIGN(sides.reference, session::compileUnsharded(*model, compile.settings, request));
  sides.programs = session::programsOf(compiled.compiled);
  sides.tolerance = exec::Tolerance::of(model->computing_dtype);
  sides.budget_bytes = budget;
  Compared out;
  out.nodes = sides.programs.front()->order.size();
  SP_ASSIGN(out.values, session::compareValues(sides, request));
  return out;
}

class RightPrograms : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(RightPrograms, DifferNowhere) {
  const auto& [name, ranks] = GetParam();
  const bool stress = name.starts_with("s_");
  for (const auto dtype : {ir::DType::kF64, ir::DType::kF32}) {
    const auto result = compare(name, ranks, dtype, stress);
    if (!result && result.error().outcome == Outcome::kRefused) GTEST_SKIP() << "refused: " << result.error().message;
    ASSERT_TRUE(result) << result.error().format();
    const session::ValueComparison& v = result->values;
    EXPECT_TRUE(v.equal);
    EXPECT_EQ(v.runs, 1);
    if (v.first)
      ADD_FAILURE() << v.first->node << " (" << v.first->op << " by " << v.first->pass << ", " << v.first->placement << ") is off by " << v.first->rel << ": "
                    << v.first->got << " instead of " << v.first->wanted;
    // Without counterparts a comparison would find nothing to compare.
    EXPECT_GE(v.compared, v.alone) << result->nodes << " nodes";
  }
}

std::vector<std::string> models() {
  std::vector<std::string> out = names();
  for (const std::string& n : names(true)) out.push_back(n);
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, RightPrograms, testing::Combine(testing::ValuesIn(models()), testing::Values(2, 3)), nameWithRanks);
INSTANTIATE_TEST_SUITE_P(Four, RightPrograms, testing::Combine(testing::Values("llama_gqa_pad", "mixtral_batched_pos", "torch_mha_seqfirst", "s_aux_diff"), testing::Values(4)),
                         nameWithRanks);

TEST(FirstDifference, ComparesTheSameInStretchesOfLittleMemory) {
  const auto whole = compare("nanogpt", 2, ir::DType::kF64, false);
  const auto parts = compare("nanogpt", 2, ir::DType::kF64, false, 1 << 20);
  ASSERT_TRUE(whole && parts);
  EXPECT_EQ(whole->values.runs, 1);
  EXPECT_GT(parts->values.runs, 2);
  EXPECT_EQ(parts->values.compared, whole->values.compared);
  EXPECT_FALSE(parts->values.first);
}

TEST(FirstDifference, ComparesWhatIsRecomputedToo) {
  const auto kept = compare("nanogpt", 2, ir::DType::kF64, false, 0, "all");
  const auto again = compare("nanogpt", 2, ir::DType::kF64, false, 0, "sac");
  ASSERT_TRUE(kept && again);
  EXPECT_GT(again->values.compared, kept->values.compared);
}

}  // namespace
}  // namespace spscope::zoo
