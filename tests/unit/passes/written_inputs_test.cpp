// SPDX-License-Identifier: Apache-2.0
// Programs that write into what they were given: the effect is kept (buffers) or the program refused (user inputs),
// whether the file says so in its signature or only an op does it.
#include <gtest/gtest.h>

#include "core/io/program.h"
#include "passes/training/functionalize.h"
#include "tests/support/program_text.h"
#include "tests/support/temp_folder.h"

namespace spscope::passes {
namespace {

using namespace testing::program;

/// Programs that write, through functionalize.
class Functionalizer {
 public:
  /// The program's graph after functionalize, or why it was refused.
  Result<ir::Graph> functional(const Program& p, const std::string& output_specs = "") {
    std::string archive = p.archive();
    if (!output_specs.empty()) {
      std::string json = p.json();
      const std::string start = R"("output_specs": [)";
      json.insert(json.find(start) + start.size(), output_specs + ", ");
      testing::ZipWriter zip;
      zip.add("r/models/model.json", json);
      zip.add("r/data/weights/model_weights_config.json", p.weights);
      zip.add("r/data/weights/weight_0", std::string(16, 'w'));
      archive = zip.bytes();
    }
    SP_ASSIGN(io::ImportedModel model, io::openModel(tmp_.file("m.pt2", archive), {}, sink_));
    const Settings settings;
    std::map<std::string, std::int64_t> statistics;
    PassContext context{settings};
    context.diagnostics = &sink_;
    context.statistics = &statistics;
    const Pass pass = functionalizePass();
    SP_TRY(pass.checkLegal(model.graph, context));
    SP_ASSIGN(const bool changed, pass.run(model.graph, context));
    (void)changed;
    return std::move(model.graph);
  }
  /// p_w is a buffer; %new is its negative; the loss is the sum of x.
  static Program withBuffer() {
    Program p;
    p.specs.replace(p.specs.find(R"({"parameter": {"arg": {"name": "p_w"}, "parameter_name": "w"}})"), 62,
                    R"({"buffer": {"arg": {"name": "p_w"}, "buffer_name": "w", "persistent": true}})");
    p.value(tensor("new", 7, R"({"as_int": 4})") + ", " + tensor("written", 7, R"({"as_int": 4})"));
    p.add(node("torch.ops.aten.neg.default", arg("self", in("p_w")), in("new"), "new"));
    p.add(node("torch.ops.aten.sum.default", arg("self", in("x")), in("loss"), "loss"));
    return p;
  }
  static void expectUpdate(const ir::Graph& graph) {
    int updates = 0;
    for (const ir::Output& o : graph.outputs) {
      if (o.kind != ir::OutputKind::kBufferUpdate) continue;
      ++updates;
      EXPECT_EQ(graph.inputs[static_cast<std::size_t>(o.input)].name, "w");
      EXPECT_EQ(graph.node(graph.value(o.value).producer).op.str(), "aten.neg.default") << "the new value";
    }
    EXPECT_EQ(updates, 1);
  }

 private:
  TempFolder tmp_;
  DiagnosticSink sink_;
};

TEST(FieldCases, PT_13_a_final_copy_into_a_buffer_is_kept) {
  Functionalizer f;
  Program p = f.withBuffer();  // the signature does not mention it
  p.add(node("torch.ops.aten.copy_.default", arg("self", in("p_w")) + "," + arg("src", in("new")), in("written"), "copy_"));
  const auto graph = f.functional(p);
  ASSERT_TRUE(graph) << graph.error().format();
  f.expectUpdate(*graph);
  for (const ir::NodeId id : graph->order) EXPECT_NE(graph->node(id).op.str(), "aten.copy_.default");

  const auto recorded = f.functional(f.withBuffer(), R"({"buffer_mutation": {"arg": {"name": "new"}, "buffer_name": "w"}})");
  ASSERT_TRUE(recorded) << recorded.error().format();
  f.expectUpdate(*recorded);
}

TEST(FieldCases, PT_14_a_program_that_writes_into_its_input_is_refused_by_name) {
  Functionalizer f;
  Program p = f.withBuffer();
  p.value(tensor("y", 7, R"({"as_int": 2}, )" + kS) + ", " + tensor("z", 7, R"({"as_int": 2}, )" + kS));
  p.add(node("torch.ops.aten.neg.default", arg("self", in("x")), in("y"), "y"));
  Program in_place = p;
  in_place.add(node("torch.ops.aten.copy_.default", arg("self", in("x")) + "," + arg("src", in("y")), in("z"), "copy_"));
  for (const auto& refused : {f.functional(in_place), f.functional(p, R"({"user_input_mutation": {"arg": {"name": "y"}, "user_input_name": "x"}})")}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, "mutates-input");
    EXPECT_NE(refused.error().message.find("the input x"), std::string::npos) << refused.error().message;
  }
}

}  // namespace
}  // namespace spscope::passes
