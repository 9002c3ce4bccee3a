// SPDX-License-Identifier: Apache-2.0
#include "core/base/xml_text.h"

#include "core/base/json_text.h"

namespace spscope {

std::string xmlEscaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8Length(text);
    const char c = text[0];
    const std::string_view character = text.substr(0, length);
    const bool none = length == 0 || (length == 1 && static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') ||
                      character == "\xef\xbf\xbe" || character == "\xef\xbf\xbf";  // U+FFFE, U+FFFF
    if (none) out += "\xef\xbf\xbd";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else out += character;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace spscope
