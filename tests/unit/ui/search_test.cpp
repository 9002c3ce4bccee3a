// SPDX-License-Identifier: Apache-2.0
// Search, colours and themes: what is found, by which field, and that colour never stands alone.
#include "ui/model/graph/search.h"

#include <gtest/gtest.h>

#include <cctype>

#include <set>

#include "core/ir/sp_ops.h"
#include "ui/model/graph/colouring.h"

namespace spscope::ui {
namespace {

using ir::Graph;
using ir::NodeId;
using ir::ValueId;

struct Small {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  NodeId mm = ir::kNone, a2a = ir::kNone;
  Small() {
    Graph& g = *graph;
    g.mesh.axes = {{"dp", 1}, {"sp", 2}};
    const ValueId x = g.addValue("x", ir::DType::kF32, {2, 8, 64});
    ir::Input in;
    in.value = x, in.kind = ir::InputKind::kUser, in.name = "tokens";
    g.inputs.push_back(in);
    mm = node("aten.mm.default", "projection", x, "layers.3.attn", "llama.py:71", {2, 8, 128});
    g.node(mm).args.push_back({"transpose", true});
    a2a = node("sp.all_to_all.default", "exchange", g.node(mm).outputs[0], "layers.3.attn", "llama.py:80", {2, 8, 128});
    ir::Value& v = g.value(g.node(mm).outputs[0]);
    v.factors = ir::plainFactors(v.shape);
    v.factors[1][0].tag = ir::Tag::kSequence;
    v.placement = ir::Placement::sharded(1, 0, {4, 4});
  }
  NodeId node(const char* op, const char* name, ValueId operand, const char* module, const char* source, ir::Dims shape) {
    Graph& g = *graph;
    const NodeId n = g.addNode(op, name);
    g.node(n).args.push_back({"self", ir::Use{operand}});
    ir::Location location;
    location.module_path = module;
    location.source = source;
    g.node(n).location = std::make_shared<const ir::Location>(location);
    g.order.push_back(n);
    g.addOutput(n, ir::DType::kF32, std::move(shape));
    return n;
  }
};

std::vector<NodeId> nodes(const std::vector<SearchHit>& hits) {
  std::vector<NodeId> out;
  for (const SearchHit& h : hits) out.push_back(h.node);
  return out;
}

TEST(Search, FindsByEveryField) {
  const Small small;
  const SearchIndex index(makeGraphSource(small.graph));
  const auto found = [&](const char* query) { return nodes(index.find(query, 10)); };
  const std::vector<NodeId> mm{small.mm}, a2a{small.a2a}, both{small.mm, small.a2a};
  EXPECT_EQ(found("name:projection"), mm);
  EXPECT_EQ(found("projection"), both) << "who uses it is found after it";
  EXPECT_EQ(found("op:all_to_all"), a2a);
  EXPECT_EQ(found("aten.mm"), mm);
  EXPECT_EQ(found("arg:transpose=true"), mm);
  EXPECT_EQ(found("shape:128"), both);
  EXPECT_EQ(found("placement:sequence"), mm);
  EXPECT_EQ(found("module:layers.3"), both);
  EXPECT_EQ(found("source:llama.py:80"), a2a);
  EXPECT_EQ(found("LLAMA.PY exch"), a2a) << "all words, without regard to case";
  EXPECT_EQ(found("tokens"), std::vector<NodeId>{ir::kNone}) << "inputs, too";
  EXPECT_TRUE(found("op:projection").empty()) << "a name is no op";
  EXPECT_TRUE(found("").empty());
  EXPECT_TRUE(found("   ").empty());
}

TEST(Search, BestFirstAndCountsWhatItDoesNotShow) {
  Small small;
  for (int i = 0; i < 30; ++i) small.node("aten.add.Tensor", "other", small.graph->node(small.mm).outputs[0], "exchange", "a.py:1", {1});
  const SearchIndex index(makeGraphSource(small.graph));
  std::size_t total = 0;
  const auto hits = index.find("exchange", 5, &total);
  ASSERT_EQ(hits.size(), 5u);
  EXPECT_EQ(hits[0].node, small.a2a) << "the name before the module";
  EXPECT_EQ(total, 31u);
  EXPECT_NE(hits[1].why.find("module"), std::string::npos);
}

TEST(Colouring, SaysByLetterWhatItSaysByColour) {
  const Small small;
  auto source = makeGraphSource(small.graph);
  GraphScene scene(source, 10);
  for (const std::string& name : colourings()) {
    const Colouring colouring(source, *colouringNamed(name));
    std::set<std::string> legend;
    for (const LegendEntry& e : colouring.legend()) {
      EXPECT_FALSE(e.text.empty());
      legend.insert(e.fill.letter);
    }
    for (const SceneBox& b : scene.scene().boxes)
      if (const BoxFill fill = colouring.of(b); b.node >= 0 && !fill.letter.empty()) {
        // Of a scale the legend has the ends and the middle.
        EXPECT_TRUE(fill.heat >= 0 ? std::isdigit(fill.letter[0]) != 0 && fill.letter.size() == 1 : legend.count(fill.letter) == 1) << name << ": " << b.title;
      }
  }
  const Colouring placement(source, ColourBy::kPlacement);
  for (const SceneBox& b : scene.scene().boxes) {
    if (b.node < 0) continue;
    const NodeId n = source->nodes[static_cast<std::size_t>(b.node)].node;
    if (n == small.mm) EXPECT_EQ(placement.of(b).letter, "S");
    if (n == small.a2a) EXPECT_EQ(placement.of(b).letter, "C");
    EXPECT_NE(boxTip(*source, b).find(n == ir::kNone ? "input tokens" : small.graph->node(n).name), std::string::npos);
  }
  EXPECT_FALSE(colouringNamed("taste"));
}

TEST(Colouring, MeasuredTimesAreHottestWhereTheyAreLongest) {
  const Small small;
  auto source = makeGraphSource(small.graph);
  GraphScene scene(source, 10);
  const Colouring times(source, ColourBy::kTime, {{small.mm, 100}, {small.a2a, 400}});
  float mm = -1, a2a = -1;
  for (const SceneBox& b : scene.scene().boxes) {
    if (b.node < 0) continue;
    const NodeId n = source->nodes[static_cast<std::size_t>(b.node)].node;
    if (n == small.mm) mm = times.of(b).heat;
    if (n == small.a2a) a2a = times.of(b).heat;
  }
  EXPECT_FLOAT_EQ(a2a, 1.0f);
  EXPECT_GT(mm, 0.0f);
  EXPECT_LT(mm, a2a);
  EXPECT_NE(Colouring(source, ColourBy::kTime).legend().at(0).text.find("no times"), std::string::npos) << "says what to do";
}

}  // namespace
}  // namespace spscope::ui
