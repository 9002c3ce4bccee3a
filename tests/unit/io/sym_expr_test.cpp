// SPDX-License-Identifier: Apache-2.0
#include "core/io/sym_expr.h"

#include <gtest/gtest.h>

#include "core/io/sym_scalars.h"

namespace spscope::io {
namespace {

const SymBindings kBindings{{"s38", 64}, {"s1", 3}};

std::optional<std::int64_t> valueOf(const std::string& text) {
  const auto e = SymExpr::parse(text);
  EXPECT_TRUE(e) << (e ? "" : e.error().message);
  return e ? e->evaluate(kBindings) : std::nullopt;
}

TEST(SymExpr, EvaluatesTheHeadsOfTheExporter) {
  const std::string s = "Symbol('s38', positive=True, integer=True)";
  EXPECT_EQ(valueOf(s), 64);
  EXPECT_EQ(valueOf("Mul(Integer(8), " + s + ")"), 512);
  EXPECT_EQ(valueOf("Add(" + s + ", Integer(-1))"), 63);
  EXPECT_EQ(valueOf("Mul(Rational(1, 2), " + s + ")"), 32);
  EXPECT_EQ(valueOf("Pow(" + s + ", Integer(2))"), 4096);
  EXPECT_EQ(valueOf("Mul(" + s + ", Symbol('s1'), Pow(Integer(4), Integer(-1)))"), 48);
  EXPECT_EQ(valueOf("Min(" + s + ", Integer(17))"), 17);
  EXPECT_EQ(valueOf("Max(" + s + ", Integer(17), Integer(100))"), 100);
  EXPECT_EQ(valueOf("FloorDiv(" + s + ", Integer(7))"), 9);
  EXPECT_EQ(valueOf("FloorDiv(Integer(-7), Integer(2))"), -4);
  EXPECT_EQ(valueOf("CeilDiv(" + s + ", Integer(7))"), 10);
  EXPECT_EQ(valueOf("CleanDiv(" + s + ", Integer(4))"), 16);
  EXPECT_EQ(valueOf("Mod(" + s + ", Integer(7))"), 1);
  EXPECT_EQ(valueOf("PythonMod(Integer(-1), Integer(7))"), 6);
  EXPECT_EQ(valueOf("floor(Mul(Rational(1, 5), " + s + "))"), 12);
  EXPECT_EQ(valueOf("ceiling(Mul(Rational(1, 5), " + s + "))"), 13);
  EXPECT_EQ(valueOf("Add(Integer(1), " + s + ", evaluate=False)"), 65);
}

TEST(SymExpr, HasNoValueWhereItIsNotAnInteger) {
  EXPECT_EQ(valueOf("Mul(Rational(1, 3), Symbol('s38'))"), std::nullopt);
  EXPECT_EQ(valueOf("Symbol('u0', integer=True)"), std::nullopt);
  EXPECT_EQ(valueOf("FloorDiv(Integer(3), Integer(0))"), std::nullopt);
  EXPECT_EQ(valueOf("Where(Symbol('s38'), Integer(1), Integer(2))"), std::nullopt);
  EXPECT_EQ(valueOf("Pow(Integer(10), Integer(30))"), std::nullopt) << "beyond 64 bits";
  EXPECT_EQ(valueOf("Mul(Integer(9223372036854775807), Integer(9223372036854775807), Symbol('s38'))"), std::nullopt);
  EXPECT_EQ(valueOf("Add(Integer(9223372036854775807), Integer(1))"), std::nullopt);
}

TEST(SymExpr, SolvesLinearExpressions) {
  const auto e = SymExpr::parse("Add(Mul(Integer(8), Symbol('s1')), Integer(1))");
  ASSERT_TRUE(e);
  EXPECT_EQ(e->solve("s1", 33, {}), 4);
  EXPECT_EQ(e->solve("s1", 34, {}), std::nullopt) << "no integer solves it";
  const auto square = SymExpr::parse("Pow(Symbol('s1'), Integer(2))");
  EXPECT_EQ(square->solve("s1", 49, {}), std::nullopt);
  EXPECT_EQ(e->symbols(), std::vector<std::string>{"s1"});
  EXPECT_EQ(e->str(), "8*s1 + 1");
  EXPECT_EQ(SymExpr::parse("Symbol('s1')")->asSymbol(), "s1");
}

TEST(SymExpr, RefusesWhatIsNoExpression) {
  for (const char* bad : {"", "(", "Add(", "Add(Integer(1)", "Integer(x)", "Symbol(s1)", "Add(Integer(1)) x",
                          "Rational(1, 0)", "Integer(99999999999999999999)", "Symbol('s1", "Add(,)", "1.5"})
    EXPECT_FALSE(SymExpr::parse(bad)) << bad;
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "Add(";
  EXPECT_FALSE(SymExpr::parse(deep)) << "nesting must not eat the stack";
}

TEST(SymScalars, ComputeAsPythonDoes) {
  const auto run = [](std::string_view op, std::vector<Scalar> v) { return evaluateScalar(op, v); };
  const auto i = [](std::int64_t n) { return Scalar(n); };
  EXPECT_EQ(run("_operator.mul", {i(3), i(4)}), i(12));
  EXPECT_EQ(run("_operator.floordiv", {i(-7), i(2)}), i(-4));
  EXPECT_EQ(run("_operator.mod", {i(-7), i(2)}), i(1));
  EXPECT_EQ(run("_operator.truediv", {i(7), i(2)}), Scalar(3.5));
  EXPECT_EQ(run("_operator.pow", {i(2), i(10)}), i(1024));
  EXPECT_EQ(run("_operator.neg", {i(3)}), i(-3));
  EXPECT_EQ(run("_operator.ge", {i(3), i(3)}), Scalar(true));
  EXPECT_EQ(run("torch.sym_max", {i(3), i(9)}), i(9));
  EXPECT_EQ(run("torch.sym_int", {Scalar(2.9)}), i(2));
  EXPECT_EQ(run("_operator.floordiv", {i(7), i(0)}), std::nullopt);
  EXPECT_EQ(run("_operator.mul", {i(INT64_MAX), i(2)}), std::nullopt);
  EXPECT_EQ(run("_operator.frobnicate", {i(1), i(2)}), std::nullopt);
}

}  // namespace
}  // namespace spscope::io
