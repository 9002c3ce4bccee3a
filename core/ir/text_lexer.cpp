// SPDX-License-Identifier: Apache-2.0
#include "core/ir/text_lexer.h"

#include <algorithm>

#include "core/ir/text_words.h"

namespace spscope::ir {

using words::isDigit;
using words::isNameChar;
using words::isWordChar;
using words::isWordStart;

void Lexer::skipBlanks() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '/') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

bool Lexer::scanString() {
  ++at_;
  while (at_ < text_.size() && text_[at_] != '\n') {
    const char c = text_[at_++];
    if (c == '"') return true;
    if (c == '\\' && at_ < text_.size() && text_[at_] != '\n') ++at_;
  }
  return false;
}

Token Lexer::next() {
  skipBlanks();
  const std::size_t start = at_;
  if (start >= text_.size()) return {Tok::kEnd, {}, start};
  const auto peek = [&](std::size_t ahead) { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; };
  const char c = text_[start];
  if (isWordStart(c)) {
    while (at_ < text_.size() && isWordChar(text_[at_])) ++at_;
    return make(Tok::kWord, start, start);
  }
  if (c == '%') {
    ++at_;
    if (peek(0) == '"') {
      const bool ends = scanString();
      return make(ends ? Tok::kName : Tok::kBad, start, start + 1);
    }
    while (at_ < text_.size() && isNameChar(text_[at_])) ++at_;
    return make(at_ > start + 1 ? Tok::kName : Tok::kBad, start, start + 1);
  }
  if (c == '"') {
    const bool ends = scanString();
    return make(ends ? Tok::kString : Tok::kBad, start, start);
  }
  if (isDigit(c) || (c == '-' && isDigit(peek(1)))) {
    bool real = false;
    ++at_;
    const auto digits = [&] {
      while (isDigit(peek(0))) ++at_;
    };
    digits();
    if (peek(0) == '.' && isDigit(peek(1))) {
      real = true;
      ++at_;
      digits();
    }
    if (peek(0) == 'e' && (isDigit(peek(1)) || ((peek(1) == '+' || peek(1) == '-') && isDigit(peek(2))))) {
      real = true;
      at_ += 2;
      digits();
    }
    return make(real ? Tok::kReal : Tok::kInt, start, start);
  }
  if (text_.substr(start, 4) == "-inf") {
    at_ += 4;
    return make(Tok::kReal, start, start);
  }
  ++at_;
  const bool known = std::string_view("(){}[]=,:#*?").find(c) != std::string_view::npos;
  return make(known ? Tok::kPunct : Tok::kBad, start, start);
}

bool unquote(std::string_view quoted, std::string* out) {
  const std::string_view body = quoted.substr(1, quoted.size() - 2);
  out->clear();
  out->reserve(body.size());
  const auto hex = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      *out += body[i];
      continue;
    }
    const char e = ++i < body.size() ? body[i] : '\0';
    if (e == '"' || e == '\\') {
      *out += e;
    } else if (e == 'n') {
      *out += '\n';
    } else if (e == 't') {
      *out += '\t';
    } else if (e == 'r') {
      *out += '\r';
    } else if (e == 'x' && i + 2 < body.size() && hex(body[i + 1]) >= 0 && hex(body[i + 2]) >= 0) {
      *out += static_cast<char>(hex(body[i + 1]) * 16 + hex(body[i + 2]));
      i += 2;
    } else {
      return false;
    }
  }
  return true;
}

Error syntaxError(std::string_view text, std::string_view file, std::size_t offset, const std::string& message) {
  offset = std::min(offset, text.size());
  std::size_t line_start = offset == 0 ? std::string_view::npos : text.rfind('\n', offset - 1);
  line_start = line_start == std::string_view::npos ? 0 : line_start + 1;
  const auto line_number = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(line_start), '\n') + 1;
  const std::size_t line_end = std::min(text.find('\n', offset), text.size());
  const std::size_t column = offset - line_start;
  // Long lines: a window around the place.
  constexpr std::size_t kBefore = 60, kAfter = 60;
  const std::size_t from = column > kBefore ? offset - kBefore : line_start;
  const std::size_t to = std::min(line_end, offset + kAfter);
  std::string shown(text.substr(from, to - from));
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';  // a tab would move the caret
  const std::string lead = from > line_start ? "..." : "";
  const std::string place = std::string(file) + ":" + std::to_string(line_number) + ":" + std::to_string(column + 1);
  Error error = makeError("text-syntax", place + ": " + message + "\n  " + lead + shown + (to < line_end ? "..." : "") +
                                             "\n  " + std::string(lead.size() + (offset - from), ' ') + "^");
  error.source = std::string(file) + ":" + std::to_string(line_number);
  return error;
}

}  // namespace spscope::ir
