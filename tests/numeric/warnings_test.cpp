// SPDX-License-Identifier: Apache-2.0
// What is warned of, and that nothing else is: each warning on a model that deserves it, and all models of tests/data.
#include <gmock/gmock.h>

#include "tests/support/zoo.h"

namespace spscope::zoo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Compiled {
  std::vector<Diagnostic> warnings;
  std::vector<std::string> codes;
  std::string refused;
};

Compiled compileWith(const session::Model& model, const passes::Settings& settings, DiagnosticSink diagnostics = {}) {
  session::Request request;
  request.diagnostics = &diagnostics;
  session::CompileRequest what;
  what.settings = settings;
  what.keep_graphs = false;
  Compiled out;
  const auto compiled = session::compile(model, what, request);
  if (!compiled) out.refused = compiled.error().code;
  for (const Diagnostic& d : diagnostics.all())
    if (d.severity == Severity::kWarning) out.warnings.push_back(d), out.codes.push_back(d.code);
  return out;
}

/// With the warnings of opening.
Compiled compileFile(const std::string& path, const passes::Settings& settings) {
  DiagnosticSink diagnostics;
  session::Request request;
  request.diagnostics = &diagnostics;
  session::OpenRequest open;
  open.path = path;
  open.sequence_marks = settings.sequence_marks;
  const auto model = session::open(open, request);
  if (!model) return {{}, {}, model.error().code};
  return compileWith(**model, settings, diagnostics);
}

/// The model with its graph changed by hand.
template <typename F>
session::Model changed(const std::string& name, F&& change) {
  DiagnosticSink diagnostics;
  session::Request request;
  request.diagnostics = &diagnostics;
  session::OpenRequest open;
  open.path = folder() + name + ".pt2";
  const auto model = session::open(open, request);
  if (!model) return ADD_FAILURE() << model.error().format(), session::Model();
  session::Model out = **model;
  ir::Graph graph = *out.graph;
  change(graph);
  out.graph = std::make_shared<const ir::Graph>(std::move(graph));
  return out;
}

const ir::Node& lossNode(const ir::Graph& graph) {
  for (const ir::Output& o : graph.outputs)
    if (o.kind == ir::OutputKind::kLoss) return graph.node(graph.value(o.value).producer);
  throw std::runtime_error("no loss");
}

passes::Settings meshOf(int dp, int sp) {
  passes::Settings out;
  out.dp = dp, out.sp = sp;
  return out;
}

TEST(Warnings, OutputsInPartsAreNamedAndWholeMetricsAreNot) {
  const auto tokens = [](ir::Graph& graph) {
    graph.outputs.push_back({ir::useArg(lossNode(graph), "self"), ir::OutputKind::kUser, ir::kNone});
  };
  const auto metric = [](ir::Graph& graph) {  // a scalar made of the loss, and one of the predictions
    const ir::ValueId loss = lossNode(graph).outputs[0], logits = ir::useArg(lossNode(graph), "self"), labels = ir::useArg(lossNode(graph), "target");
    const auto add = [&](const char* op, const char* name, std::vector<ir::Argument> args, ir::DType type, ir::Dims shape) {
      const ir::NodeId n = graph.addNode(op, name);
      for (const ir::Argument& a : args) graph.node(n).set(a.name, a.value);
      graph.order.push_back(n);
      return graph.addOutput(n, type, std::move(shape));
    };
    const ir::Dims rows{graph.value(logits).shape[0]};
    const ir::ValueId twice = add("aten.mul.Scalar", "twice", {{"self", ir::Use{loss}}, {"other", 2.0}}, graph.value(loss).dtype, {});
    const ir::ValueId best = add("aten.argmax.default", "best", {{"self", ir::Use{logits}}, {"dim", std::int64_t{-1}}}, ir::DType::kI64, rows);
    const ir::ValueId hit = add("aten.eq.Tensor", "hit", {{"self", ir::Use{best}}, {"other", ir::Use{labels}}}, ir::DType::kBool, rows);
    const ir::ValueId hits = add("aten.sum.default", "hits", {{"self", ir::Use{hit}}}, ir::DType::kI64, {});
    for (const ir::ValueId v : {twice, hits}) graph.outputs.push_back({v, ir::OutputKind::kUser, ir::kNone});
  };
  const session::Model with = changed("llama_causal_gqa_pos", tokens), scalar = changed("llama_causal_gqa_pos", metric);
  for (const auto& [dp, sp, says] : {std::tuple{1, 2, "its part of dimension"}, {2, 1, "the rows of its replica"}, {2, 2, "of the rows of its replica"}}) {
    const Compiled parts = compileWith(with, meshOf(dp, sp));
    ASSERT_EQ(parts.refused, "");
    ASSERT_THAT(parts.codes, ElementsAre("output-in-parts")) << dp << "x" << sp;
    EXPECT_THAT(parts.warnings[0].message, HasSubstr(says));
    EXPECT_FALSE(parts.warnings[0].node.empty());
    const Compiled whole = compileWith(scalar, meshOf(dp, sp));
    ASSERT_EQ(whole.refused, "");
    EXPECT_THAT(whole.codes, IsEmpty()) << dp << "x" << sp;
  }
  EXPECT_THAT(compileWith(with, meshOf(1, 1)).codes, IsEmpty());
}

TEST(Warnings, BatchesThatAreAveragedWithoutACount) {
  const session::Model odd = changed("llama_causal_gqa_pos", [](ir::Graph& graph) {
    for (ir::Output& o : graph.outputs) {
      if (o.kind != ir::OutputKind::kLoss) continue;
      const ir::NodeId n = graph.addNode("aten.exp.default", "perplexity");
      graph.node(n).set("self", ir::Use{o.value});
      graph.order.push_back(n);
      o.value = graph.addOutput(n, graph.value(o.value).dtype, {});
      graph.value(o.value).requires_grad = true;
    }
  });
  passes::Settings settings = meshOf(1, 2);
  EXPECT_THAT(compileWith(odd, settings).codes, IsEmpty());
  settings.accumulate = 2;
  const Compiled said = compileWith(odd, settings);
  ASSERT_THAT(said.codes, ElementsAre("accumulate-averaged"));
  EXPECT_EQ(said.warnings[0].node, "%perplexity");
  EXPECT_THAT(compileFile(folder() + "llama_causal_gqa_pos.pt2", settings).codes, IsEmpty());
}

/// Every warning of every model is here, with the reason why it is right.
TEST(Warnings, NoFalseAlarmOverAllModels) {
  std::map<std::string, std::vector<std::string>> said;
  int compiled = 0;
  for (const bool stress : {false, true})
    for (const std::string& name : names(stress)) {
      const Case c = caseOf(name, 2, stress);
      passes::Settings settings = meshOf(1, 2);
      settings.accumulate = 2;
      settings.sequence_marks = c.marks;
      const Compiled out = compileFile(c.path, settings);
      compiled += out.refused.empty();
      if (!out.codes.empty()) said[name] = out.codes;
    }
  EXPECT_GE(compiled, 66);
  const std::map<std::string, std::vector<std::string>> right{
      {"llama_alias_labels", {"dead-input"}},            // exported with labels=input_ids
      {"gpt2_dropout_pos", {"mask-kept"}},               // its attention drops out: written out over whole rows
      {"s_rel_bias", {"mask-kept"}},                     // a trained bias is no mask
      {"s_lin_attn", {"no-attention"}},                  // attention without a softmax
      {"vit", {"nothing-sharded", "nothing-long"}},      // nothing is marked; it takes pixels
  };
  for (const auto& [name, codes] : said) {
    const auto it = right.find(name);
    EXPECT_EQ(codes, it == right.end() ? std::vector<std::string>() : it->second) << name;
  }
  for (const auto& [name, codes] : right) EXPECT_TRUE(said.contains(name)) << name;
}

}  // namespace
}  // namespace spscope::zoo
