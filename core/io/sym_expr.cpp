// SPDX-License-Identifier: Apache-2.0
#include "core/io/sym_expr.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>

#include "core/base/strings.h"
#include "core/io/int128.h"

namespace spscope::io {

enum class Head : std::uint8_t { kNumber, kSymbol, kAdd, kMul, kPow, kMin, kMax, kMod, kFloorDiv, kTrueDiv, kCeilDiv,
                                 kFloor, kCeiling, kIdentity, kUnknown };

struct SymExpr::Node {
  Head head = Head::kUnknown;
  std::string name;            ///< symbol, or the unknown head
  std::int64_t num = 0, den = 1;  ///< kNumber
  std::vector<Node> args;
};

namespace {

constexpr int kMaxDepth = 200;
constexpr int kMaxTokens = 100000;

const std::pair<std::string_view, Head> kHeads[] = {
    {"Add", Head::kAdd},           {"Mul", Head::kMul},           {"Pow", Head::kPow},
    {"PowByNatural", Head::kPow},  {"Min", Head::kMin},           {"Max", Head::kMax},
    {"Mod", Head::kMod},           {"PythonMod", Head::kMod},     {"FloorDiv", Head::kFloorDiv},
    {"CleanDiv", Head::kTrueDiv},  {"IntTrueDiv", Head::kTrueDiv},{"CeilDiv", Head::kCeilDiv},
    {"floor", Head::kFloor},       {"FloorToInt", Head::kFloor},  {"ceiling", Head::kCeiling},
    {"CeilToInt", Head::kCeiling}, {"Identity", Head::kIdentity}, {"ToFloat", Head::kIdentity},
};

class Parser {
 public:
  Parser(std::string_view text, std::vector<std::string>* symbols) : text_(text), symbols_(symbols) {}

  Result<SymExpr::Node> parse() {
    SP_ASSIGN(SymExpr::Node node, expression(0));
    space();
    if (at_ != text_.size()) return fail("text after the expression");
    return node;
  }

 private:
  Error fail(const std::string& what) const {
    return makeError("sym-syntax", strf("symbolic size \"%.80s\": %s at column %zu", std::string(text_).c_str(),
                                        what.c_str(), at_ + 1));
  }
  void space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string_view word() {
    space();
    const std::size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' ||
                                  text_[at_] == '.'))
      ++at_;
    return text_.substr(start, at_ - start);
  }
  bool integer(std::int64_t* out) {
    space();
    const char* first = text_.data() + at_;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), *out);
    if (error != std::errc()) return false;
    at_ += static_cast<std::size_t>(end - first);
    return true;
  }
  bool quoted(std::string* out) {
    space();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return false;
    const char quote = text_[at_];
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return false;
    out->assign(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return true;
  }

  Result<SymExpr::Node> expression(int depth) {
    if (depth > kMaxDepth) return fail("nested too deeply");
    if (++tokens_ > kMaxTokens) return fail("too long");
    space();
    SymExpr::Node node;
    if (at_ < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[at_])) || text_[at_] == '-')) {
      node.head = Head::kNumber;
      if (!integer(&node.num)) return fail("a number that is none");
      if (at_ < text_.size() && text_[at_] == '.') return fail("a number that is no integer");
      return node;
    }
    const std::string_view head = word();
    if (head.empty()) return fail("a name expected");
    if (!take('(')) {  // true, false, oo: constants of sympy that no size has
      node.name = head;
      return node;
    }
    if (head == "Symbol" || head == "Dummy") return symbol();
    if (head == "Integer" || head == "Rational") {
      node.head = Head::kNumber;
      if (!integer(&node.num)) return fail("an integer of 64 bits expected");
      if (head == "Rational" && !(take(',') && integer(&node.den) && node.den > 0)) return fail("a denominator expected");
      if (!take(')')) return fail(") expected");
      return node;
    }
    for (const auto& [name, kind] : kHeads)
      if (name == head) node.head = kind;
    if (node.head == Head::kUnknown) node.name = head;
    if (take(')')) return node;
    for (;;) {
      SP_TRY(argument(&node, depth));
      if (take(')')) return node;
      if (!take(',')) return fail(", or ) expected");
    }
  }

  /// One argument: an expression; of unknown heads also text and keywords, which are skipped.
  Status argument(SymExpr::Node* node, int depth) {
    std::string ignored;
    if (quoted(&ignored)) {
      node->head = Head::kUnknown;
      return {};
    }
    const std::size_t start = at_;
    const std::string_view key = word();
    if (!key.empty() && take('=')) {  // evaluate=False and the like change nothing
      SP_ASSIGN(SymExpr::Node value, expression(depth + 1));
      (void)value;
      return {};
    }
    at_ = start;
    SP_ASSIGN(SymExpr::Node value, expression(depth + 1));
    node->args.push_back(std::move(value));
    return {};
  }

  Result<SymExpr::Node> symbol() {
    SymExpr::Node node;
    node.head = Head::kSymbol;
    if (!quoted(&node.name)) return fail("a symbol's name expected");
    while (take(',')) {  // assumptions: positive=True, integer=True
      if (word().empty() || !take('=') || word().empty()) return fail("an assumption expected");
    }
    if (!take(')')) return fail(") expected");
    if (std::find(symbols_->begin(), symbols_->end(), node.name) == symbols_->end()) symbols_->push_back(node.name);
    return node;
  }

  std::string_view text_;
  std::vector<std::string>* symbols_;
  std::size_t at_ = 0;
  int tokens_ = 0;
};

/// An exact fraction, denominator positive. Every operation reports overflow.
struct Fraction {
  std::int64_t num = 0, den = 1;
};
using Maybe = std::optional<Fraction>;

Maybe reduce(Int128 num, Int128 den) {
  if (den == 0) return std::nullopt;
  if (den < 0) { num = -num; den = -den; }
  Int128 a = num < 0 ? -num : num, b = den;
  while (b != 0) { const Int128 t = a % b; a = b; b = t; }
  if (a > 1) { num /= a; den /= a; }
  if (num > INT64_MAX || num < -INT64_MAX || den > INT64_MAX) return std::nullopt;
  return Fraction{static_cast<std::int64_t>(num), static_cast<std::int64_t>(den)};
}
Maybe add(Fraction a, Fraction b) {
  const auto n = static_cast<Int128>(a.num) * b.den, m = static_cast<Int128>(b.num) * a.den;
  return reduce(n + m, static_cast<Int128>(a.den) * b.den);
}
Maybe mul(Fraction a, Fraction b) {
  return reduce(static_cast<Int128>(a.num) * b.num, static_cast<Int128>(a.den) * b.den);
}
Maybe inverse(Fraction a) { return reduce(a.den, a.num); }
std::int64_t floorOf(Fraction a) {
  return a.num / a.den - (a.num % a.den < 0 ? 1 : 0);
}
bool less(Fraction a, Fraction b) {
  return static_cast<Int128>(a.num) * b.den < static_cast<Int128>(b.num) * a.den;
}

Maybe power(Fraction base, Fraction exponent) {
  if (exponent.den != 1 || exponent.num > 64 || exponent.num < -64) return std::nullopt;
  Fraction result{1, 1};
  for (std::int64_t i = 0; i < std::abs(exponent.num); ++i) {
    const Maybe next = mul(result, base);
    if (!next) return std::nullopt;
    result = *next;
  }
  return exponent.num < 0 ? inverse(result) : Maybe(result);
}

Maybe evaluateNode(const SymExpr::Node& node, const SymBindings& bindings) {
  if (node.head == Head::kNumber) return reduce(node.num, node.den);
  if (node.head == Head::kSymbol) {
    const auto it = bindings.find(node.name);
    if (it == bindings.end()) return std::nullopt;
    return reduce(it->second, 1);
  }
  if (node.head == Head::kUnknown || node.args.empty()) return std::nullopt;
  std::vector<Fraction> args;
  args.reserve(node.args.size());
  for (const auto& a : node.args) {
    const Maybe v = evaluateNode(a, bindings);
    if (!v) return std::nullopt;
    args.push_back(*v);
  }
  const auto fold = [&](auto&& f) -> Maybe {
    Fraction acc = args[0];
    for (std::size_t i = 1; i < args.size(); ++i) {
      const Maybe next = f(acc, args[i]);
      if (!next) return std::nullopt;
      acc = *next;
    }
    return acc;
  };
  const auto quotient = [&]() -> Maybe {
    if (args.size() != 2) return std::nullopt;
    const Maybe inv = inverse(args[1]);
    return inv ? mul(args[0], *inv) : std::nullopt;
  };
  switch (node.head) {
    case Head::kAdd: return fold(add);
    case Head::kMul: return fold(mul);
    case Head::kMin: return fold([](Fraction a, Fraction b) -> Maybe { return less(b, a) ? b : a; });
    case Head::kMax: return fold([](Fraction a, Fraction b) -> Maybe { return less(a, b) ? b : a; });
    case Head::kPow: return args.size() == 2 ? power(args[0], args[1]) : std::nullopt;
    case Head::kTrueDiv: return quotient();
    case Head::kFloorDiv: {
      const Maybe q = quotient();
      return q ? Maybe(Fraction{floorOf(*q), 1}) : std::nullopt;
    }
    case Head::kCeilDiv: {
      const Maybe q = quotient();
      return q ? reduce(-static_cast<Int128>(floorOf({-q->num, q->den})), 1) : std::nullopt;
    }
    case Head::kMod: {  // sign of the divisor, as Python's
      const Maybe q = quotient();
      if (!q) return std::nullopt;
      const Maybe product = mul({floorOf(*q), 1}, args[1]);
      return product ? add(args[0], {-product->num, product->den}) : std::nullopt;
    }
    case Head::kFloor: return Fraction{floorOf(args[0]), 1};
    case Head::kCeiling: return reduce(-static_cast<Int128>(floorOf({-args[0].num, args[0].den})), 1);
    case Head::kIdentity: return args.size() == 1 ? Maybe(args[0]) : std::nullopt;
    default: return std::nullopt;
  }
}

std::string strOf(const SymExpr::Node& node) {
  const auto list = [&](const char* separator) {
    std::vector<std::string> parts;
    for (const auto& a : node.args) {
      const bool wrap = node.head != Head::kAdd && a.head == Head::kAdd && separator[0] != ',';
      parts.push_back(wrap ? "(" + strOf(a) + ")" : strOf(a));
    }
    return join(parts, separator);
  };
  switch (node.head) {
    case Head::kNumber:
      return node.den == 1 ? std::to_string(node.num) : strf("%lld/%lld", static_cast<long long>(node.num),
                                                             static_cast<long long>(node.den));
    case Head::kSymbol: return node.name;
    case Head::kAdd: return list(" + ");
    case Head::kMul: return list("*");
    case Head::kPow: return list("**");
    case Head::kFloorDiv: return list("//");
    case Head::kTrueDiv: return list("/");
    case Head::kMod: return list("%");
    case Head::kIdentity: return list(", ");
    case Head::kMin: return "min(" + list(", ") + ")";
    case Head::kMax: return "max(" + list(", ") + ")";
    case Head::kFloor: return "floor(" + list(", ") + ")";
    case Head::kCeiling: case Head::kCeilDiv: return "ceil(" + list(", ") + ")";
    case Head::kUnknown: return node.args.empty() ? node.name : node.name + "(" + list(", ") + ")";
  }
  return "?";
}

}  // namespace

Result<SymExpr> SymExpr::parse(std::string_view srepr) {
  SymExpr out;
  SP_ASSIGN(Node root, Parser(srepr, &out.symbols_).parse());
  out.root_ = std::make_shared<const Node>(std::move(root));
  return out;
}

std::optional<std::int64_t> SymExpr::evaluate(const SymBindings& bindings) const {
  if (!root_) return std::nullopt;
  const Maybe v = evaluateNode(*root_, bindings);
  if (!v || v->den != 1) return std::nullopt;
  return v->num;
}

std::optional<std::int64_t> SymExpr::solve(std::string_view symbol, std::int64_t wanted,
                                           const SymBindings& bindings) const {
  // Linear functions are found by two probes far apart and confirmed by evaluating at the answer.
  constexpr std::int64_t kLow = 1 << 10, kHigh = 1 << 20;
  SymBindings b = bindings;
  const auto at = [&](std::int64_t x) {
    b[std::string(symbol)] = x;
    return evaluate(b);
  };
  const auto low = at(kLow), high = at(kHigh);
  if (!low || !high) return std::nullopt;
  const Int128 rise = static_cast<Int128>(*high) - *low, run = kHigh - kLow;
  if (rise == 0) return std::nullopt;
  const Int128 numerator = (static_cast<Int128>(wanted) - *low) * run;
  if (numerator % rise != 0) return std::nullopt;
  const Int128 x = numerator / rise + kLow;
  if (x > INT64_MAX || x < INT64_MIN) return std::nullopt;
  const auto check = at(static_cast<std::int64_t>(x));
  return check && *check == wanted ? std::optional(static_cast<std::int64_t>(x)) : std::nullopt;
}

std::string_view SymExpr::asSymbol() const {
  return root_ && root_->head == Head::kSymbol ? std::string_view(root_->name) : std::string_view();
}

std::string SymExpr::str() const { return root_ ? strOf(*root_) : "?"; }

}  // namespace spscope::io
