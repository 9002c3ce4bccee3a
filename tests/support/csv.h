// SPDX-License-Identifier: Apache-2.0
// CSV as RFC 4180 has it, read for tests.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace spscope {

inline std::vector<std::vector<std::string>> parseCsv(const std::string& text) {
  std::vector<std::vector<std::string>> out{{""}};
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') out.back().back() += text[++i];
    else if (c == '"') quoted = !quoted;
    else if (!quoted && c == ',') out.back().emplace_back();
    else if (!quoted && c == '\n') out.push_back({""});
    else out.back().back() += c;
  }
  if (out.back() == std::vector<std::string>{""}) out.pop_back();
  return out;
}

/// Rows by the names of the first line; empty lines are none.
inline std::vector<std::map<std::string, std::string>> csvRows(const std::string& text) {
  const auto all = parseCsv(text);
  std::vector<std::map<std::string, std::string>> out;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i] == std::vector<std::string>{""}) continue;
    out.emplace_back();
    for (std::size_t c = 0; c < all[i].size() && c < all[0].size(); ++c) out.back()[all[0][c]] = all[i][c];
  }
  return out;
}

}  // namespace spscope
