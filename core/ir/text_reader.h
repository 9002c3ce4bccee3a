// SPDX-License-Identifier: Apache-2.0
// What a parser of one-token look-ahead needs: take, expect, numbers, texts, lists. Private to core/ir.
#pragma once

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/ir/text_lexer.h"

namespace spscope::ir {

class TokenReader {
 public:
  TokenReader(std::string_view text, std::string_view file) : text_(text), file_(file), lexer_(text) {}

 protected:
  void advance() { token_ = lexer_.next(); }
  Error wrong(const Token& at, const std::string& message) const {
    return syntaxError(text_, file_, at.offset, message);
  }
  Error expected(const std::string& what) const;  ///< at the current token
  bool take(char c) {
    if (!token_.is(c)) return false;
    advance();
    return true;
  }
  bool takeWord(std::string_view w) {
    if (!token_.isWord(w)) return false;
    advance();
    return true;
  }
  Status need(char c) {
    if (!take(c)) return expected(std::string("'") + c + "'");
    return {};
  }
  Status needWord(std::string_view w) {
    if (!takeWord(w)) return expected("'" + std::string(w) + "'");
    return {};
  }
  Result<std::int64_t> integer();
  Result<std::int64_t> integer(std::string_view what, std::int64_t low, std::int64_t high);
  Result<double> real();
  Result<std::string> string();
  Result<std::string> wordOrString(std::string_view what);
  Result<Dims> intList();
  /// Calls each() for every entry up to the closing character, which is taken.
  template <typename F>
  Status listUntil(char close, F&& each) {
    if (take(close)) return {};
    while (true) {
      SP_TRY(each());
      if (take(close)) return {};
      if (!take(',')) return expected(std::string("',' or '") + close + "'");
    }
  }

  std::string_view text_, file_;
  Lexer lexer_;
  Token token_;
};

}  // namespace spscope::ir
