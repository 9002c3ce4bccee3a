// SPDX-License-Identifier: Apache-2.0
#include "profiler/import/json_repair.h"

#include "core/base/strings.h"

namespace spscope::trace {
namespace {

/// Bytes of the UTF-8 sequence at the beginning of `text`, 0 where there is none (RFC 3629).
std::size_t sequenceLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80 ? 1 : first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xf0 && first < 0xf5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) || (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f)) return 0;
  return length;
}

int hexDigit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

/// The four digits behind \u; -1: they are none.
int codeUnit(std::string_view digits) {
  if (digits.size() < 4) return -1;
  int unit = 0;
  for (int i = 0; i < 4; ++i) {
    const int digit = hexDigit(digits[static_cast<std::size_t>(i)]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

/// Reads the escape that begins at text[0] == '\\': its length and its character. 0: it is not valid.
std::size_t escapeAt(std::string_view text, char32_t* character) {
  if (text.size() < 2) return 0;
  switch (text[1]) {
    case '"': case '\\': case '/': *character = static_cast<char32_t>(text[1]); return 2;
    case 'b': *character = '\b'; return 2;
    case 'f': *character = '\f'; return 2;
    case 'n': *character = '\n'; return 2;
    case 'r': *character = '\r'; return 2;
    case 't': *character = '\t'; return 2;
    case 'u': break;
    default: return 0;
  }
  const int unit = codeUnit(text.substr(2));
  if (unit < 0 || (unit >= 0xdc00 && unit < 0xe000)) return 0;
  *character = static_cast<char32_t>(unit);
  if (unit < 0xd800 || unit >= 0xdc00) return 6;
  const int low = text.size() >= 12 && text[6] == '\\' && text[7] == 'u' ? codeUnit(text.substr(8)) : -1;
  if (low < 0xdc00 || low >= 0xe000) return 0;
  *character = 0x10000 + (static_cast<char32_t>(unit - 0xd800) << 10) + static_cast<char32_t>(low - 0xdc00);
  return 12;
}

void appendUtf8(std::string& out, char32_t c) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (c >> shift & 0x3f)); };
  if (c < 0x80) return void(out += static_cast<char>(c));
  if (c < 0x800) return void(out += static_cast<char>(0xc0 | c >> 6)), tail(0);
  if (c < 0x10000) return void(out += static_cast<char>(0xe0 | c >> 12)), tail(6), tail(0);
  out += static_cast<char>(0xf0 | c >> 18);
  tail(12), tail(6), tail(0);
}

/// What stands between two quotes, as JSON demands it.
void repairString(std::string_view raw, std::string_view where, std::string& out, Problems& problems) {
  bool escapes_fine = true;
  for (std::size_t i = 0; i < raw.size() && escapes_fine;) {
    char32_t ignored;
    if (raw[i] != '\\') ++i;
    else if (const std::size_t length = escapeAt(raw.substr(i), &ignored)) i += length;
    else escapes_fine = false;
  }
  // One unknown escape: whoever wrote it did not escape at all, so "C:\x\temp" has no tabulator. Quotes excepted.
  if (!escapes_fine) problems.count(Problem::kBadEscape, where);
  bool utf8_fine = true, controls = false;
  for (std::size_t i = 0; i < raw.size();) {
    const char c = raw[i];
    const std::size_t length = sequenceLength(raw.substr(i));
    if (length == 0) {
      out += "\xef\xbf\xbd";
      utf8_fine = false, ++i;
    } else if (c == '\\') {
      const bool pair = i + 1 < raw.size() && (escapes_fine || raw[i + 1] == '"' || raw[i + 1] == '\\');
      if (pair) out += raw.substr(i, 2);
      else out += "\\\\";
      i += pair ? 2 : 1;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += strf("\\u%04x", static_cast<unsigned>(c));
      controls = true, ++i;
    } else {
      out += raw.substr(i, length);
      i += length;
    }
  }
  if (!utf8_fine) problems.count(Problem::kBadUtf8, where);
  if (controls) problems.count(Problem::kControlCharacter, where);
}

bool isNumber(std::string_view t) {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t first = i;
    while (i < t.size() && t[i] >= '0' && t[i] <= '9') ++i;
    return i - first;
  };
  if (i < t.size() && t[i] == '-') ++i;
  const std::size_t whole_at = i, whole = digits();
  if (whole == 0 || (whole > 1 && t[whole_at] == '0')) return false;
  if (i < t.size() && t[i] == '.' && (++i, digits() == 0)) return false;
  if (i < t.size() && (t[i] == 'e' || t[i] == 'E')) {
    ++i;
    if (i < t.size() && (t[i] == '+' || t[i] == '-')) ++i;
    if (digits() == 0) return false;
  }
  return i == t.size();
}

}  // namespace

std::string repairedJson(std::string_view text, std::string_view where, Problems& problems) {
  std::string out;
  out.reserve(text.size() + 16);
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"') {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end, text.size());
      out += '"';
      repairString(text.substr(i + 1, end - i - 1), where, out, problems);
      if (end < text.size()) out += '"';
      i = end + 1;
    } else if (std::string_view(" \n\r\t{}[],:").find(c) != std::string_view::npos) {
      out += c, ++i;
    } else {
      std::size_t end = i;
      while (end < text.size() && std::string_view(" \n\r\t{}[],:\"").find(text[end]) == std::string_view::npos) ++end;
      const std::string_view token = text.substr(i, end - i);
      if (token == "true" || token == "false" || token == "null" || isNumber(token)) {
        out += token;
      } else {
        out += "null";
        problems.count(Problem::kBadNumber, where);
      }
      i = end;
    }
  }
  return out;
}

std::string repairedText(std::string_view text, std::string_view where, Problems& problems) {
  std::string out;
  bool utf8_fine = true, controls = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = sequenceLength(text.substr(i));
    if (length == 0) out += "\xef\xbf\xbd", utf8_fine = false;
    else out += text.substr(i, length);
    controls = controls || static_cast<unsigned char>(text[i]) < 0x20;
    i += length == 0 ? 1 : length;
  }
  if (!utf8_fine) problems.count(Problem::kBadUtf8, where);
  if (controls) problems.count(Problem::kControlCharacter, where);
  return out;
}

bool unescape(std::string_view raw, std::string* out) {
  out->clear();
  for (std::size_t i = 0; i < raw.size();) {
    const std::size_t escape = raw.find('\\', i);
    out->append(raw.substr(i, escape - i));
    if (escape == std::string_view::npos) break;
    char32_t character = 0;
    const std::size_t length = escapeAt(raw.substr(escape), &character);
    if (length == 0) return false;
    appendUtf8(*out, character);
    i = escape + length;
  }
  return true;
}

}  // namespace spscope::trace
