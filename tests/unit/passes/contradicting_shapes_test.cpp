// SPDX-License-Identifier: Apache-2.0
// Files whose sizes contradict their operators: planning takes them for what the file says and does not fall over. (What
// runs them refuses, or the verifier does.)
#include <gtest/gtest.h>

#include "core/io/program.h"
#include "passes/sequence/plan_sequence.h"
#include "tests/support/program_text.h"
#include "tests/support/temp_folder.h"

namespace spscope::passes {
namespace {

using namespace testing::program;

TEST(ContradictingShapes, OperandsWithoutDimensionsArePlannedAsReplicated) {
  TempFolder tmp;
  const std::pair<const char*, std::string> ops[] = {
      {"linear.default", arg("input", in("s")) + "," + arg("weight", in("p_w"))},
      {"linear.default", arg("input", in("x")) + "," + arg("weight", in("s"))},
      {"matmul.default", arg("self", in("s")) + "," + arg("other", in("x"))},
      {"mm.default", arg("self", in("x")) + "," + arg("mat2", in("s"))},
      {"bmm.default", arg("self", in("x")) + "," + arg("mat2", in("x"))},
      {"addmm.default", arg("self", in("p_w")) + "," + arg("mat1", in("s")) + "," + arg("mat2", in("x"))},
      {"embedding.default", arg("weight", in("s")) + "," + arg("indices", in("x"))},
      {"layer_norm.default", arg("input", in("s")) + "," + arg("normalized_shape", R"({"as_ints": [8]})")},
      {"cross_entropy_loss.default", arg("self", in("s")) + "," + arg("target", in("x"))},
      {"scaled_dot_product_attention.default", arg("query", in("s")) + "," + arg("key", in("s")) + "," + arg("value", in("s"))},
  };
  for (const auto& [op, arguments] : ops) {
    SCOPED_TRACE(op);
    Program p;
    p.value(tensor("s", 7, "") + ", " + tensor("y", 7, R"({"as_int": 2}, )" + kS));
    p.add(node("torch.ops.aten.sum.default", arg("self", in("x")), in("s"), "s"));
    p.add(node(std::string("torch.ops.aten.") + op, arguments, in("y"), "y"));
    p.add(node("torch.ops.aten.sum.default", arg("self", in("y")), in("loss"), "loss"));
    DiagnosticSink sink;
    io::OpenOptions options;
    options.sequence_marks = {{"x", 1}};
    auto model = io::openModel(tmp.file("m.pt2", p.archive()), options, sink);
    ASSERT_TRUE(model) << model.error().format();
    Settings settings;
    settings.sp = 2;
    settings.sequence_marks = options.sequence_marks;
    std::map<std::string, std::int64_t> statistics;
    PassContext context{settings};
    context.diagnostics = &sink;
    context.statistics = &statistics;
    const Pass pass = planSequencePass();
    const auto legal = pass.checkLegal(model->graph, context);
    ASSERT_TRUE(legal) << legal.error().format();
    const auto planned = pass.run(model->graph, context);
    if (!planned) {
      EXPECT_EQ(planned.error().outcome, Outcome::kRefused) << planned.error().format();
    }
  }
}

}  // namespace
}  // namespace spscope::passes
