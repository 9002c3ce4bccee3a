// SPDX-License-Identifier: Apache-2.0
// Programs written by hand, for what no model at hand contains: sub-graphs without gradient, numbers on sizes,
// several outputs, odd metadata, and files that contradict themselves.
#include "core/io/program.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/io/node_metadata.h"
#include "core/io/weights.h"
#include "tests/support/program_text.h"
#include "tests/support/temp_folder.h"

namespace spscope::io {
namespace {

using namespace testing::program;

class ProgramTest : public ::testing::Test {
 protected:
  Result<ImportedModel> open(const Program& p, OpenOptions options = {}) {
    return openModel(tmp_.file("p.pt2", p.archive()), options, sink_);
  }
  static std::vector<std::string> ops(const ir::Graph& g) {
    std::vector<std::string> out;
    for (const auto id : g.order) out.push_back(g.node(id).op.str());
    return out;
  }
  TempFolder tmp_;
  DiagnosticSink sink_;
};

TEST_F(ProgramTest, NumbersOnSizesAreComputedAway) {
  Program p;
  p.sym_ints = R"("n": )" + kS;
  p.add(node("torch.ops.aten.sym_size.int", arg("self", in("x")) + "," + arg("dim", R"({"as_int": 1})"),
             R"({"as_sym_int": {"as_name": "n"}})", "n"));
  p.add(node("_operator.mul", arg("a", R"({"as_sym_int": {"as_name": "n"}})") + "," + arg("b", R"({"as_int": 2})"),
             R"({"as_sym_int": {"as_name": "m"}})", "m"));
  p.value(tensor("v", 7, R"j({"as_expr": {"expr_str": "Mul(Integer(2), Symbol('s1'))", "hint": {"as_int": 16}}})j"));
  p.add(node("torch.ops.aten.view.default",
             arg("self", in("x")) + "," + arg("size", R"({"as_sym_ints": [{"as_name": "m"}, {"as_int": -1}]})"), in("v"), "v"));
  p.add(node("torch.ops.aten.sum.default", arg("self", in("v")), in("loss"), "loss"));
  OpenOptions options;
  options.sequence_marks = {{"x", 1}};
  options.seq = 20;
  const auto model = open(p, options);
  ASSERT_TRUE(model) << model.error().format();
  EXPECT_EQ(ops(model->graph), (std::vector<std::string>{"aten.view.default", "aten.sum.default"}));
  const ir::Node& view = model->graph.node(model->graph.order[0]);
  EXPECT_EQ(ir::intListArg(view, "size"), (ir::Dims{40, -1}));
  EXPECT_EQ(model->graph.value(view.outputs[0]).shape, (ir::Dims{40}));
  EXPECT_EQ(model->seq, 20);
  EXPECT_EQ(model->file_seq, 8);
}

/// A float input that feeds only what nobody reads, an integer one that feeds nothing; one that is written into a buffer's place
/// is needed, though its node's result is not read.
TEST_F(ProgramTest, InputsThatNoResultDependsOnAreWarnedOf) {
  Program p;
  for (const auto& [name, dtype] : {std::pair{"y", 7}, {"ids", 5}, {"z", 7}}) {
    p.inputs += ", " + in(name);
    p.specs += R"(, {"user_input": {"arg": )" + in(name) + "}}";
    p.value(tensor(name, dtype, R"({"as_int": 4})"));
  }
  for (const char* name : {"n", "c", "w2", "wx"}) p.value(tensor(name, 7, R"({"as_int": 4})"));
  p.add(node("torch.ops.aten.neg.default", arg("self", in("y")), in("n"), "n"));
  p.add(node("torch.ops.aten.clone.default", arg("self", in("p_w")), in("w2"), "w2"));
  p.add(node("torch.ops.aten.add_.Tensor", arg("self", in("w2")) + "," + arg("other", in("z")), in("c"), "c"));
  p.add(node("torch.ops.aten.mul.Tensor", arg("self", in("w2")) + "," + arg("other", in("p_w")), in("wx"), "wx"));
  p.add(node("torch.ops.aten.sum.default", arg("self", in("wx")), in("loss"), "loss"));
  const auto model = open(p);
  ASSERT_TRUE(model) << model.error().format();
  std::vector<std::string> dead;
  for (const Diagnostic& d : sink_.all())
    if (d.code == "dead-input") {
      dead.push_back(d.message.substr(0, d.message.find(' ', 6)));
      EXPECT_EQ(d.message.find("labels=input_ids"), std::string::npos) << "not this one: " << d.message;
    }
  EXPECT_EQ(dead, (std::vector<std::string>{"input x", "input y", "input ids"}));
}

TEST_F(ProgramTest, SP_42_sizes_that_depend_on_data_are_refused_with_their_node) {
  Program p;
  p.sym_ints = R"j("u": {"as_expr": {"expr_str": "Symbol('u0', integer=True)", "hint": null}})j";
  p.add(node("torch.ops.aten.item.default", arg("self", in("x")), R"({"as_sym_int": {"as_name": "u"}})", "item"));
  const auto model = open(p);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, "size-unknown");
  EXPECT_EQ(model.error().node, "%item");
}

std::string subgraph(const std::string& hop, const std::string& leading) {
  const std::string body = R"({"as_graph": {"name": "g", "graph": {"inputs": [)" + in("a") + R"(], "outputs": [)" + in("mul") +
                           R"(], "nodes": [)" + node("torch.ops.aten.mul.Tensor", arg("self", in("a")) + "," + arg("other", in("a")), in("mul"), "mul") +
                           R"(], "tensor_values": {)" + tensor("a", 7, R"({"as_int": 4})") + "," +
                           tensor("mul", 7, R"({"as_int": 4})") + R"(}, "sym_int_values": {}}}})";
  return node("torch.ops.higher_order." + hop, leading + arg("", body) + "," + arg("", in("p_w")), in("out"), "out");
}

TEST_F(ProgramTest, SubgraphsAreInlinedAndNoGradientPassesWhereNoneMay) {
  for (const bool enabled : {false, true}) {
    Program p;
    p.add(subgraph("wrap_with_set_grad_enabled", arg("", enabled ? R"({"as_bool": true})" : R"({"as_bool": false})") + ","));
    p.add(node("torch.ops.aten.sum.default", arg("self", in("out")), in("loss"), "loss"));
    const auto model = open(p);
    ASSERT_TRUE(model) << model.error().format();
    const auto expected = enabled ? std::vector<std::string>{"aten.mul.Tensor", "aten.sum.default"}
                                  : std::vector<std::string>{"aten.mul.Tensor", "aten.detach.default", "aten.sum.default"};
    EXPECT_EQ(ops(model->graph), expected);
    const ir::Node& mul = model->graph.node(model->graph.order[0]);
    EXPECT_EQ(ir::useArg(mul, "self"), model->graph.inputs[0].value);
    EXPECT_EQ(model->file_nodes, 3);
  }
  Program checkpoint;
  checkpoint.add(subgraph("tag_activation_checkpoint", ""));
  checkpoint.add(node("torch.ops.aten.sum.default", arg("self", in("out")), in("loss"), "loss"));
  const auto model = open(checkpoint);
  ASSERT_TRUE(model) << model.error().format();
  EXPECT_EQ(ops(model->graph), (std::vector<std::string>{"aten.mul.Tensor", "aten.sum.default"}));
  Program cond;
  cond.add(subgraph("cond", ""));
  EXPECT_EQ(open(cond).error().code, "subgraph-unsupported");
}

TEST_F(ProgramTest, TheUsersMarksAndCheckpointsAreRead) {
  const std::string sizes = R"({"as_int": 2}, )" + kS;
  const auto add = [&](Program& p, const std::string& op, const std::string& from, const std::string& to, const std::string& module,
                       const std::string& custom) {
    std::string metadata = R"("nn_module_stack": "k,)" + module + R"(,M")";
    if (!custom.empty()) metadata += R"(, "custom": "{\")" + custom + R"(\"}")";
    p.value(tensor(to, 7, sizes));
    p.add(node("torch.ops.aten." + op + ".default", arg("self", in(from)), in(to), to, metadata));
  };
  Program p;
  p.sym_ints = R"("s1": )" + kS;
  const std::string checkpoint = R"(_torchdynamo_disable_method\": \"checkpoint)";
  add(p, "sin", "x", "a", "h.0", R"(recompute\": \"must_save)");
  add(p, "cos", "a", "b", "h.0", checkpoint);
  add(p, "exp", "b", "c", "h.0.mlp", checkpoint);
  add(p, "sin", "c", "d", "h.1", checkpoint);                       // the next layer is a region of its own
  add(p, "cos", "d", "e", "h.1", R"(recompute\": \"prefer_save)");  // says nothing, and ends the region
  add(p, "exp", "e", "f", "h.1", R"(recompute\": \"prefer_recompute)");
  add(p, "sin", "f", "g", "h.1", "");
  p.add(node("torch.ops.aten.sum.default", arg("self", in("g")), in("loss"), "loss"));
  const auto model = open(p);
  ASSERT_TRUE(model) << model.error().format();
  std::vector<int> regions;
  std::vector<bool> saved;
  for (const auto id : model->graph.order) {
    const ir::Node& node = model->graph.node(id);
    regions.push_back(node.location ? node.location->checkpoint : 0);
    saved.push_back(node.must_save);
  }
  EXPECT_EQ(regions, (std::vector<int>{0, 1, 1, 2, 0, 3, 0, 0}));
  EXPECT_EQ(saved, (std::vector<bool>{true, false, false, false, false, false, false, false}));

  Program wrapped;  // a checkpoint that torch.compile's capture left as a sub-graph
  wrapped.add(subgraph("tag_activation_checkpoint", ""));
  wrapped.add(node("torch.ops.aten.sum.default", arg("self", in("out")), in("loss"), "loss"));
  const auto inlined = open(wrapped);
  ASSERT_TRUE(inlined) << inlined.error().format();
  const ir::Node& inside = inlined->graph.node(inlined->graph.order[0]);
  ASSERT_TRUE(inside.location);
  EXPECT_EQ(inside.location->checkpoint, 1);
  EXPECT_FALSE(inlined->graph.node(inlined->graph.order[1]).location);
}

TEST_F(ProgramTest, CudaAutocastHasItsOwnList) {
  const auto build = [](const std::string& device) {
    const std::string body =
        R"({"as_graph": {"name": "g", "graph": {"inputs": [)" + in("a") + R"(], "outputs": [)" + in("e") + R"(], "nodes": [)" +
        node("torch.ops.aten.matmul.default", arg("self", in("a")) + "," + arg("other", in("a")), in("m"), "m") + "," +
        node("torch.ops.aten.exp.default", arg("self", in("m")), in("e"), "e") + R"(], "tensor_values": {)" +
        tensor("a", 7, R"({"as_int": 4})") + "," + tensor("m", 13, "") + "," + tensor("e", device == "cuda" ? 7 : 13, "") +
        R"(}, "sym_int_values": {}}}})";
    Program p;
    p.add(node("torch.ops.higher_order.wrap_with_autocast",
               arg("", R"({"as_string": ")" + device + "\"}") + "," + arg("", R"({"as_scalar_type": 13})") + "," +
                   arg("", R"({"as_bool": true})") + "," + arg("", R"({"as_bool": true})") + "," + arg("", body) + "," +
                   arg("", in("p_w")),
               in("out"), "out"));
    p.add(node("torch.ops.aten.sum.default", arg("self", in("out")), in("loss"), "loss"));
    return p;
  };
  const auto cpu = open(build("cpu"));
  ASSERT_TRUE(cpu) << cpu.error().format();
  EXPECT_EQ(ops(cpu->graph), (std::vector<std::string>{"aten.to.dtype", "aten.matmul.default", "aten.exp.default", "aten.sum.default"}))
      << "the weight is cast once, exp runs in bf16";
  const auto cuda = open(build("cuda"));
  ASSERT_TRUE(cuda);
  EXPECT_EQ(ops(cuda->graph), (std::vector<std::string>{"aten.to.dtype", "aten.matmul.default", "aten.to.dtype",
                                                        "aten.exp.default", "aten.sum.default"}));
}

TEST_F(ProgramTest, ArgumentsOfEveryKind) {
  Program p;
  p.value(tensor("a", 7, "") + "," + tensor("b", 5, ""));
  p.add(node("torch.ops.custom.everything.default",
             arg("t", R"({"as_optional_tensors": [)" + in("x") + R"(, {"as_none": true}]})") + "," +
                 arg("f", R"({"as_float": "-Infinity"})") + "," + arg("n", R"({"as_none": true})") + "," +
                 arg("d", R"({"as_device": {"type": "cuda", "index": 0}})") + "," + arg("m", R"({"as_memory_format": 4})") + "," +
                 arg("l", R"({"as_layout": 7})") + "," + arg("y", R"({"as_scalar_type": 13})") + "," +
                 arg("fs", R"({"as_floats": [1.5, "NaN"]})") + "," + arg("bs", R"({"as_bools": [true, false]})") + "," +
                 arg("ss", R"({"as_strings": ["a", "b"]})") + "," + arg("e", R"({"as_int": 9223372036854775807})"),
             in("a") + "," + in("b"), "everything"));
  p.add(node("torch.ops.aten.sum.default", arg("self", in("a")), in("loss"), "loss"));
  const auto model = open(p);
  ASSERT_TRUE(model) << model.error().format();
  const ir::Node& n = model->graph.node(model->graph.order[0]);
  EXPECT_EQ(n.op, Symbol("custom.everything.default")) << "ops of others keep their name for others to refuse";
  EXPECT_EQ(n.outputs.size(), 2U);
  EXPECT_EQ(model->graph.value(n.outputs[1]).name, "b");
  EXPECT_EQ(*n.find("t"), ir::Attribute(ir::UseList{{model->graph.inputs[1].value}, {ir::kNone}}));
  EXPECT_EQ(*n.find("f"), ir::Attribute(-std::numeric_limits<double>::infinity()));
  EXPECT_EQ(*n.find("n"), ir::Attribute());
  EXPECT_EQ(*n.find("d"), ir::Attribute(ir::Device{"cuda"}));
  EXPECT_EQ(*n.find("m"), ir::Attribute(ir::MemoryFormat::kPreserve));
  EXPECT_EQ(*n.find("y"), ir::Attribute(ir::DType::kBF16));
  EXPECT_TRUE(std::isnan(std::get<std::vector<double>>(*n.find("fs"))[1]));
  EXPECT_EQ(*n.find("bs"), ir::Attribute(std::vector<bool>{true, false}));
  EXPECT_EQ(ir::intArg(n, "e", 0), INT64_MAX);
}

TEST_F(ProgramTest, OddMetadataIsWarnedOfAndTheRestOpens) {
  Program p;
  p.value(tensor("a", 7, R"({"as_int": 4})") + "," + tensor("b", 7, R"({"as_int": 4})"));
  p.add(node("torch.ops.aten.neg.default", arg("self", in("p_w")), in("a"), "a", R"("nn_module_stack": "broken[,;")"));
  p.add(node("torch.ops.aten.neg.default", arg("self", in("a")), in("b"), "b",
             R"("nn_module_stack": "L__self__,,m.Top;k,blocks.1,pkg.Stack[pkg.A,pkg.B;x]", "stack_trace": "  File \"m.py\", line 12, in forward\n    x\n  File \"site-packages/torch/nn/x.py\", line 3, in f\n")"));
  p.add(node("torch.ops.aten.sum.default", arg("self", in("b")), in("loss"), "loss"));
  const auto model = open(p);
  ASSERT_TRUE(model) << model.error().format();
  ASSERT_EQ(sink_.all().size(), 2U);
  EXPECT_EQ(sink_.all()[0].code, "dead-input") << "x, which this program does not use";
  EXPECT_EQ(sink_.all()[1].code, "metadata-unreadable");
  const auto& location = model->graph.node(model->graph.order[1]).location;
  EXPECT_EQ(location->module_path, "blocks.1");
  EXPECT_EQ(location->module_type, "Stack[pkg.A,pkg.B;x]");
  EXPECT_EQ(location->source, "m.py:12") << "PyTorch's own frames are not the user's line";
  EXPECT_EQ(model->graph.node(model->graph.order[2]).location, nullptr);
}

TEST(NodeMetadata, ModulePathsAreDotted) {
  ModuleRef m;
  ASSERT_TRUE(parseModuleStack("k,L['self'].blocks['a'].attn,x.Attn", &m));
  EXPECT_EQ(m.path, "blocks.a.attn");
  ASSERT_TRUE(parseModuleStack("k,model.layers.slice(None, 2, None).0,x.Layer", &m));
  EXPECT_EQ(m.path, "model.layers.0");
  ASSERT_TRUE(parseModuleStack("k,,test.<locals>.Net", &m));
  EXPECT_EQ(m.path, "");
  EXPECT_EQ(m.type, "Net");
  EXPECT_FALSE(parseModuleStack("only,two", &m));
  EXPECT_EQ(sourceOfStack("garbage"), "");
  EXPECT_EQ(sourceOfStack("File \"/usr/lib/torch/x.py\", line 3"), "x.py:3");
}

TEST_F(ProgramTest, FilesThatContradictThemselvesAreRefused) {
  const auto code = [&](const Program& p) {
    const auto model = open(p);
    return model ? std::string("opened") : model.error().code;
  };
  Program undefined;
  undefined.add(node("torch.ops.aten.sum.default", arg("self", in("nothing")), in("loss"), "loss"));
  EXPECT_EQ(code(undefined), "program-corrupt");
  Program untyped;
  untyped.add(node("torch.ops.aten.neg.default", arg("self", in("x")), in("y"), "y"));
  EXPECT_EQ(code(untyped), "program-corrupt");
  Program future;
  future.schema_major = "9";
  EXPECT_EQ(code(future), "schema-unknown");
  Program wrong_size;
  wrong_size.weights = std::string(wrong_size.weights).replace(wrong_size.weights.find("\"as_int\": 4"), 11, "\"as_int\": 5");
  EXPECT_EQ(code(wrong_size), "weight-size-mismatch");
  Program pickled;
  pickled.weights.replace(pickled.weights.find("\"use_pickle\": false"), 19, "\"use_pickle\": true ");
  EXPECT_EQ(code(pickled), "weight-pickled");
  Program other_record;
  other_record.weights.replace(other_record.weights.find("weight_0"), 8, "weight_9");
  EXPECT_EQ(code(other_record), "weight-record-missing");
  Program broken;
  broken.nodes = "{";
  EXPECT_EQ(code(broken), "json-syntax");
  Program cancelled;
  OpenOptions options;
  options.cancel.cancel();
  EXPECT_EQ(open(cancelled, options).error().code, "cancelled");
}

TEST_F(ProgramTest, WeightsAreCheckedAgainstTheirRecord) {
  Program p;
  p.add(node("torch.ops.aten.sum.default", arg("self", in("p_w")), in("loss"), "loss"));
  for (const std::size_t bytes : {16U, 15U, 0U}) {
    const auto model = openModel(tmp_.file("w.pt2", p.archive(bytes)), {}, sink_);
    ASSERT_TRUE(model) << model.error().format();
    EXPECT_EQ(model->weightless, bytes == 0);
    const WeightSource weights(model->archive);
    const auto window = weights.window(model->graph, model->graph.inputs[0]);
    if (bytes == 16) {
      ASSERT_TRUE(window) << window.error().format();
      EXPECT_EQ(window->size(), 16U);
    } else {
      ASSERT_FALSE(window);
      EXPECT_EQ(window.error().code, bytes == 0 ? "weightless" : "weight-size-mismatch");
    }
  }
}

TEST_F(ProgramTest, EveryByteOfTheProgramMayBeWrong) {
  Program p;
  p.value(tensor("a", 7, R"({"as_int": 4})"));
  p.add(subgraph("wrap_with_set_grad_enabled", arg("", R"({"as_bool": false})") + ","));
  p.add(node("torch.ops.aten.sum.default", arg("self", in("out")), in("loss"), "loss"));
  const std::string good = p.archive();
  const std::size_t start = good.find("{\"graph_module\""), end = good.find("2.15.0");
  ASSERT_NE(start, std::string::npos);
  std::uint64_t random = 1;
  for (int i = 0; i < 400; ++i) {  // swaps, digits and deletions keep many texts valid JSON with another meaning
    std::string bad = good;
    for (int k = 0; k < 2; ++k) {
      random = random * 6364136223846793005ULL + 1442695040888963407ULL;
      const std::size_t at = start + (random >> 33) % (end - start);
      const char replacements[] = {'0', '9', '"', ' ', '}', ']', 'x', '-'};
      bad[at] = replacements[(random >> 20) % 8];
    }
    DiagnosticSink sink;
    (void)openModel(tmp_.file("f.pt2", bad), {}, sink);
  }
}

}  // namespace
}  // namespace spscope::io
