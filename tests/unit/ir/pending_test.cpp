// SPDX-License-Identifier: Apache-2.0
// Started collectives: what the verifier lets pass and what it refuses, the text, the sequence that ranks compare.
#include "core/ir/pending.h"

#include <gmock/gmock.h>

#include "core/base/codes.h"
#include "core/ir/sp_ops.h"
#include "core/ir/text.h"
#include "core/ir/verifier.h"

namespace spscope::ir {
namespace {

// Rank 1 of 2 holds 5 of 8 rows of x, and gets 2 of 4 columns.
const std::string kHead =
    "// spscope-graph 1\ngraph \"t\" joint mesh(sp=2) rank=1 {\n"
    "  input %x : f32[5, 4] user \"x\"\n"
    "  %n = aten.neg.default(self=%x) : f32[5, 4] bytes=80\n";
const std::string kStart =
    "  %r, %s = sp.all_to_all_start.default(self=[%n], gather_dim=[0], gather_blocks=[3, 5], scatter_dim=[1], "
    "scatter_blocks=[2, 2]) : f32[16] bytes=64, f32[20] bytes=80\n";
const std::string kWait = "  %y = sp.wait.default(self=[%r, %s]) : f32[8, 2] alias=%r\n";
const std::string kSum = "  %t = aten.sum.default(self=%y) : f32[]\n  output loss %t\n";

Graph parsed(const std::string& body) {
  auto g = parseGraph(kHead + body + "}\n", "t");
  if (!g) ADD_FAILURE() << g.error().message;
  return g ? std::move(*g) : Graph{};
}
std::string codeOf(const std::string& body) {
  const Status s = verifyGraph(parsed(body));
  if (s) return "ok";
  EXPECT_NE(findCode(s.error().code), nullptr) << s.error().code;
  EXPECT_NE(s.error().node, "");
  return s.error().code;
}

TEST(Pending, AcceptsAStartAndItsWait) {
  EXPECT_EQ(codeOf(kStart + kWait + kSum), "ok");
  // What is behind the sequence is put together after the wait.
  EXPECT_EQ(codeOf("  %r, %s = sp.all_gather_start.default(self=[%n], dim=[1], blocks=[4, 4]) : f32[40] bytes=160, f32[20] alias=%n\n"
                   "  %w = sp.wait.default(self=[%r, %s]) : f32[40] alias=%r\n"
                   "  %u = sp.unpack.default(self=%w, dim=1, blocks=[4, 4]) : f32[5, 8] bytes=160\n"
                   "  output user %u\n"),
            "ok");
  // A sum in its operand; what follows from the result may be read, views too.
  EXPECT_EQ(codeOf("  %r = sp.all_reduce_start.default(self=[%n]) : f32[5, 4] alias=%n\n"
                   "  %w = sp.wait.default(self=[%r]) : f32[5, 4] alias=%n\n"
                   "  %v = aten.t.default(self=%w) : f32[4, 5] alias=%n\n"
                   "  %t = aten.sum.default(self=%v) : f32[]\n  output loss %t\n"),
            "ok");
}

TEST(Pending, RefusesAWaitThatIsMissing) {
  EXPECT_EQ(codeOf(kStart + "  %t = aten.sum.default(self=%n) : f32[]\n  output loss %t\n"), "verify-wait");
}

TEST(Pending, RefusesASecondWait) {
  EXPECT_EQ(codeOf(kStart + kWait + "  %z = sp.wait.default(self=[%r, %s]) : f32[8, 2] alias=%r\n" + kSum), "verify-wait");
}

TEST(Pending, RefusesABufferThatIsReadBeforeItsWait) {
  EXPECT_EQ(codeOf(kStart + "  %e = aten.neg.default(self=%r) : f32[16]\n" + kWait + kSum), "verify-wait");
  EXPECT_EQ(codeOf(kStart + "  %e = aten.neg.default(self=%s) : f32[20]\n" + kWait + kSum), "verify-wait");
}

TEST(Pending, RefusesABufferThatIsReadBesideItsWait) {
  EXPECT_EQ(codeOf(kStart + kWait + "  %e = aten.neg.default(self=%r) : f32[16]\n" + kSum), "verify-wait");
  EXPECT_EQ(codeOf(kStart + kWait + "  output user %s\n" + kSum), "verify-wait");
}

TEST(Pending, RefusesAWaitForHalfOfAStart) {
  EXPECT_EQ(codeOf(kStart + "  %y = sp.wait.default(self=[%r]) : f32[8, 2] alias=%r\n" + kSum), "verify-wait");
  EXPECT_EQ(codeOf(kStart + "  %y = sp.wait.default(self=[%s, %r]) : f32[8, 2] alias=%r\n" + kSum), "verify-wait");
}

TEST(Pending, RefusesWhatAnInPlaceSumWouldSpoil) {
  const std::string sum = "  %r = sp.all_reduce_start.default(self=[%n]) : f32[5, 4] alias=%n\n";
  const std::string wait = "  %w = sp.wait.default(self=[%r]) : f32[5, 4] alias=%n\n";
  const std::string out = "  output user %w\n";
  EXPECT_EQ(codeOf(sum + wait + out), "ok");
  EXPECT_EQ(codeOf(sum + "  %e = aten.neg.default(self=%n) : f32[5, 4]\n" + wait + out), "verify-wait");
  EXPECT_EQ(codeOf(sum + wait + "  %e = aten.neg.default(self=%n) : f32[5, 4]\n" + out), "verify-wait");
  EXPECT_EQ(codeOf(sum + wait + "  output user %n\n" + out), "verify-wait");
  // The operand is on its way elsewhere.
  EXPECT_EQ(codeOf("  %b, %s = sp.all_gather_start.default(self=[%n], dim=[0], blocks=[3, 5]) : f32[32] bytes=128, f32[20] alias=%n\n" + sum +
                   "  %g = sp.wait.default(self=[%b, %s]) : f32[8, 4] alias=%b\n" + wait + out),
            "verify-wait");
  // An input belongs to somebody else.
  EXPECT_EQ(codeOf("  %r = sp.all_reduce_start.default(self=[%x]) : f32[5, 4] alias=%x\n"
                   "  %w = sp.wait.default(self=[%r]) : f32[5, 4] alias=%x\n" + out),
            "verify-wait");
}

TEST(Pending, RefusesBuffersAndShapesThatDoNotFit) {
  const auto start = [](const std::string& args, const std::string& types) {
    return "  %r, %s = sp.all_to_all_start.default(self=[%n], " + args + ") : " + types + "\n" + kWait + kSum;
  };
  const std::string args = "gather_dim=[0], gather_blocks=[3, 5], scatter_dim=[1], scatter_blocks=[2, 2]";
  EXPECT_EQ(codeOf(start(args, "f32[16] bytes=64, f32[20] bytes=80")), "ok");
  EXPECT_EQ(codeOf(start(args, "f32[15] bytes=60, f32[20] bytes=80")), "verify-collective");
  EXPECT_EQ(codeOf(start(args, "f32[16] bytes=64, f32[19] bytes=76")), "verify-collective");
  EXPECT_EQ(codeOf(start("gather_dim=[0], gather_blocks=[3, 5, 8], scatter_dim=[1], scatter_blocks=[2, 2]", "f32[16] bytes=64, f32[20] bytes=80")),
            "verify-collective");
  EXPECT_EQ(codeOf(kStart + "  %y = sp.wait.default(self=[%r, %s]) : f32[4, 4] alias=%r\n" + kSum), "verify-collective");
  EXPECT_EQ(codeOf(kStart + "  %y = sp.wait.default(self=[%r, %s]) : f32[8, 2]\n" + kSum), "verify-collective");
  EXPECT_EQ(codeOf("  %u = sp.unpack.default(self=%n, dim=0, blocks=[3, 5]) : f32[8, 4]\n  output user %u\n"), "verify-collective");
}

TEST(Pending, TheSequenceTellsPartsAndGroups) {
  const Graph one = parsed(kStart + kWait + kSum);
  const auto sequence = collectiveSequence(one);
  ASSERT_TRUE(sequence) << sequence.error().format();
  EXPECT_EQ(*sequence, "start of 1\nall_to_all forward gather=0(3, 5) scatter=1(2, 2) f32[8, 4]\n");
  EXPECT_EQ(printGraph(*parseGraph(printGraph(one), "again")), printGraph(one));
}

TEST(Pending, APartIsThePlainCollective) {
  const Graph g = parsed(kStart + kWait + kSum);
  const Node& start = g.node(g.order[1]);
  ASSERT_TRUE(isStart(start.op));
  EXPECT_EQ(plainOf(start.op), sp::kAllToAll);
  EXPECT_EQ(startOf(sp::kAllToAll), start.op);
  const Node part = partOf(start, 0, 2);
  EXPECT_EQ(intArg(part, "gather_dim", -1), 0);
  EXPECT_EQ(*intListArg(part, "gather_blocks"), (Dims{3, 5}));
  EXPECT_EQ(useArg(part, "self"), g.node(g.order[0]).outputs[0]);
  Node rebuilt;
  rebuilt.op = start.op;
  appendPart(rebuilt, part);
  EXPECT_EQ(rebuilt.args.size(), start.args.size());
  for (const Argument& a : start.args) EXPECT_EQ(*rebuilt.find(a.name), a.value) << a.name.str();
}

}  // namespace
}  // namespace spscope::ir
