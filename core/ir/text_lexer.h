// SPDX-License-Identifier: Apache-2.0
// Tokens of the text form. Private to core/ir. Never reads past the text, whatever its bytes; tokens are views of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace spscope::ir {

enum class Tok : std::uint8_t {
  kEnd,
  kWord,    ///< letters, digits, '_', '.', '-'
  kName,    ///< %name or %"name"; the text is without '%', quotes included
  kInt,     ///< [-]digits
  kReal,    ///< has a point or exponent, or -inf (inf and nan are words)
  kString,  ///< quotes included; decode with unquote()
  kPunct,   ///< one character
  kBad,     ///< a byte that starts no token, or a string that does not end
};

struct Token {
  Tok kind = Tok::kEnd;
  std::string_view text;
  std::size_t offset = 0;

  bool is(char c) const { return kind == Tok::kPunct && text[0] == c; }
  bool isWord(std::string_view w) const { return kind == Tok::kWord && text == w; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text, std::size_t start = 0) : text_(text), at_(start) {}
  Token next();

 private:
  Token make(Tok kind, std::size_t start, std::size_t text_start) const {
    return {kind, text_.substr(text_start, at_ - text_start), start};
  }
  void skipBlanks();
  bool scanString();  ///< from the opening quote to behind the closing one; false where it does not end on its line

  std::string_view text_;
  std::size_t at_;
};

/// The text of a string token. False for an unknown escape.
bool unquote(std::string_view quoted, std::string* out);

/// text-syntax: "file:line:col: message", then the line (cut where long) and a caret.
Error syntaxError(std::string_view text, std::string_view file, std::size_t offset, const std::string& message);

}  // namespace spscope::ir
