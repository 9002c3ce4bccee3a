// SPDX-License-Identifier: Apache-2.0
// The text form: exact round trip, readable lines, good errors, no crash on any bytes.
#include "core/ir/text.h"

#include <gmock/gmock.h>

#include <ctime>
#include <fstream>
#include <random>
#include <sstream>

#include "core/base/codes.h"
#include "core/ir/equal.h"
#include "core/ir/verifier.h"
#include "tests/support/synthetic_graph.h"

namespace spscope::ir {
namespace {

/// Processor time: other work on the machine does not count.
double milliseconds(std::clock_t ticks) { return 1e3 * static_cast<double>(ticks) / CLOCKS_PER_SEC; }

using ::testing::HasSubstr;

Graph parsed(const std::string& text) {
  auto g = parseGraph(text, "test.txt");
  if (!g) ADD_FAILURE() << g.error().message;
  return g ? std::move(*g) : Graph{};
}

TEST(TextForm, EveryRandomGraphComesBackEqual) {
  for (unsigned seed = 0; seed < 600; ++seed) {
    const Graph g = test::randomGraph(seed);
    const std::string text = printGraph(g);
    const auto back = parseGraph(text, "g");
    ASSERT_TRUE(back) << "seed " << seed << "\n" << text << back.error().message;
    std::string why;
    ASSERT_TRUE(structurallyEqual(g, *back, &why)) << "seed " << seed << ": " << why << "\n" << text;
    ASSERT_EQ(printGraph(*back), text) << "seed " << seed;
  }
}

TEST(TextForm, KeepsNodeIdsAndTheIdsOfDeadNodes) {
  Graph g;
  g.addNode("aten.ones.default", "dead");
  const NodeId kept = g.addNode("aten.ones.default", "kept");
  g.addOutput(kept, DType::kF32, {2});
  g.addNode("aten.ones.default", "dead");
  g.order = {kept};
  Graph back = parsed(printGraph(g));
  EXPECT_EQ(back.order, std::vector<NodeId>{kept});
  EXPECT_EQ(back.addNode("aten.ones.default", "fresh"), 3) << "ids of dead nodes are not used again";
}

TEST(TextForm, SharesEqualLocations) {
  const Graph back = parsed(printGraph(test::syntheticJoint(200)));
  const auto first = back.node(back.order[0]).location;
  ASSERT_TRUE(first);
  EXPECT_GT(first.use_count(), 2) << "one Location object for one place in the source";
}

TEST(TextForm, HandwrittenTextNeedsNoIds) {
  const Graph g = parsed(
      "// spscope-graph 1\n"
      "graph \"t\" planned mesh(sp=2) {\n"
      "  // a comment\n"
      "  input %x : f32{2b, 8s, 4} S1[4, 4] user \"x\"\n"
      "  %a, _ = aten.foo.default(self=%x, dims=[1, 2], eps=1.0, flag=true, dtype=bf16) : f32{2b, 8s, 4} P grad, _\n"
      "  () = aten.check.default(a=%a)\n"
      "  output loss %a\n"
      "}\n");
  ASSERT_EQ(g.order.size(), 2u);
  const Node& n = g.node(g.order[0]);
  EXPECT_EQ(n.name, "a");
  EXPECT_EQ(std::get<Dims>(*n.find("dims")), (Dims{1, 2}));
  EXPECT_EQ(std::get<double>(*n.find("eps")), 1.0);
  EXPECT_EQ(std::get<DType>(*n.find("dtype")), DType::kBF16);
  EXPECT_EQ(n.outputs[1], kNone);
  const Value& x = g.value(g.inputs[0].value);
  EXPECT_EQ(x.shape, (Dims{2, 8, 4}));
  EXPECT_TRUE(x.placement.isSharded());
  EXPECT_EQ(x.factors[1][0].tag, Tag::kSequence);
  EXPECT_TRUE(g.value(n.outputs[0]).placement.isPartial());
}

TEST(TextForm, HeaderRoundTrips) {
  TextHeader header;
  header.set("source", "model.pt2 0123abc");
  header.set("note", "two\nlines \\ and a backslash");
  const std::string text = printGraph(Graph{}, header);
  const auto back = parseGraphText(text, "g");
  ASSERT_TRUE(back) << back.error().message;
  ASSERT_NE(back->header.find("source"), nullptr);
  EXPECT_EQ(*back->header.find("source"), "model.pt2 0123abc");
  EXPECT_EQ(*back->header.find("note"), "two\nlines \\ and a backslash");
  EXPECT_EQ(printGraph(back->graph, back->header), text);
  EXPECT_TRUE(isGraphText(text));
  EXPECT_FALSE(isGraphText("PK\x03\x04"));
}

TEST(TextForm, ExamplesOfTheManualAreCanonicalAndVerify) {
  std::ostringstream page;
  page << std::ifstream(SPSCOPE_SOURCE_DIR "/docs/ir.md").rdbuf();
  const std::string text = page.str();
  int examples = 0;
  for (std::size_t at = text.find("```graph\n"); at != std::string::npos; at = text.find("```graph\n", at + 1), ++examples) {
    const std::size_t start = at + 9, end = text.find("```\n", start);
    const std::string example = text.substr(start, end - start);
    const auto g = parseGraphText(example, "docs/ir.md");
    ASSERT_TRUE(g) << g.error().message;
    EXPECT_EQ(printGraph(g->graph, g->header), example);
    const Status verified = verifyGraph(g->graph);
    EXPECT_TRUE(verified) << verified.error().format();
  }
  EXPECT_EQ(examples, 3);
}

struct BadCase {
  const char* body;
  const char* place;
  const char* message;
};

TEST(TextForm, ErrorsNameThePlaceAndShowTheLine) {
  const BadCase cases[] = {
      {"  input %x : f32[2 user \"x\"\n}", "3:20", "',' or ']'"},
      {"  %a = aten.f.default(self=%b) : f32[2]\n}", "3:28", "%b is not defined"},
      {"  %a = aten.f.default() : f32[2] #0\n  %a = aten.f.default() : f32[2] #1\n}", "4:3", "defined twice"},
      {"  %a = aten.f.default() : f32[2] #0\n  %b = aten.f.default() : f32[2] #0\n}", "4:35", "used twice"},
      {"  %a = aten.f.default() : f99[2]\n}", "3:27", "a type like"},
      {"  %a = aten.f.default(x=9223372036854775808) : f32[2]\n}", "3:25", "64 bits"},
      {"  %a = aten.f.default(x=\"open) : f32[2]\n}", "3:25", "does not end"},
      {"  %a = aten.f.default() : f32[-1]\n}", "3:27", "negative"},
      {"  %a = aten.f.default() : f32[4611686018427387904, 16]\n}", "3:27", "too many elements"},
      {"  %a = aten.f.default() : f32[2] #99999999\n}", "3:35", "node id"},
      {"}\ntail", "4:1", "text after the graph"},
      {"  output loss", "3:14", "the text ends"},
      {"  what\n}", "3:3", "a node"},
  };
  for (const BadCase& c : cases) {
    const auto r = parseGraph(std::string("// spscope-graph 1\ngraph \"t\" global mesh() rank=0 {\n") + c.body, "f.txt");
    ASSERT_FALSE(r) << c.body;
    EXPECT_EQ(r.error().code, "text-syntax");
    EXPECT_NE(findCode(r.error().code), nullptr);
    EXPECT_THAT(r.error().message, HasSubstr(std::string("f.txt:") + c.place + ": ")) << c.body;
    EXPECT_THAT(r.error().message, HasSubstr(c.message)) << c.body;
    EXPECT_THAT(r.error().message, HasSubstr("^"));
  }
}

TEST(TextForm, RefusesOtherVersionsAndOtherFiles) {
  EXPECT_THAT(parseGraph("// spscope-graph 2\n", "f").error().message, HasSubstr("unknown version"));
  EXPECT_THAT(parseGraph("", "f").error().message, HasSubstr("version line"));
  EXPECT_THAT(parseGraph("graph \"t\" global {}", "f").error().message, HasSubstr("version line"));
}

TEST(TextForm, DamagedTextNeverCrashes) {
  std::mt19937 rng(7);
  for (unsigned seed = 0; seed < 120; ++seed) {
    const std::string text = printGraph(test::randomGraph(seed));
    for (int k = 0; k < 40; ++k) {
      std::string bad = text;
      switch (rng() % 4) {
        case 0: bad.resize(rng() % bad.size()); break;
        case 1: bad[rng() % bad.size()] = static_cast<char>(rng()); break;
        case 2: bad.erase(rng() % bad.size(), 1 + rng() % 8); break;
        default: bad.insert(rng() % bad.size(), text.substr(rng() % text.size(), rng() % 40)); break;
      }
      const auto r = parseGraph(bad, "g");
      if (r) {
        printGraph(*r);
      } else {
        EXPECT_EQ(r.error().code, "text-syntax");
      }
    }
  }
}

TEST(TextForm, SevenThousandNodesAreFast) {
  const Graph g = test::syntheticJoint(7000);
  double print_ms = 1e9, parse_ms = 1e9;
  std::string text;
  for (int i = 0; i < 3; ++i) {
    const auto t0 = std::clock();
    text = printGraph(g);
    const auto t1 = std::clock();
    const auto back = parseGraph(text, "g");
    const auto t2 = std::clock();
    ASSERT_TRUE(back);
    print_ms = std::min(print_ms, milliseconds(t1 - t0));
    parse_ms = std::min(parse_ms, milliseconds(t2 - t1));
  }
  std::printf("%zu bytes: print %.1f ms, parse %.1f ms\n", text.size(), print_ms, parse_ms);
  EXPECT_LT(print_ms, 200) << "10 times the budget: the machine may be busy, or this a debug build";
  EXPECT_LT(parse_ms, 600);
}

}  // namespace
}  // namespace spscope::ir
