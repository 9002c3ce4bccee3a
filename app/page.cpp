// SPDX-License-Identifier: Apache-2.0
#include "app/page.h"

#include <algorithm>
#include <cctype>

namespace spscope::app {
namespace {

/// Characters on the screen: continuation bytes of UTF-8 take no place.
std::size_t width(const std::string& s) {
  return static_cast<std::size_t>(std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::size_t columnsOf(const std::vector<std::vector<std::string>>& rows) {
  std::size_t n = 0;
  for (const auto& row : rows) n = std::max(n, row.size());
  return n;
}

const std::string& cell(const std::vector<std::string>& row, std::size_t column) {
  static const std::string none;
  return column < row.size() ? row[column] : none;
}

bool standsRight(const std::vector<std::vector<std::string>>& rows, std::size_t column) {
  bool any = false;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    const std::string& c = cell(rows[r], column);
    if (c.empty() || c == "-") continue;
    if (!std::isdigit(static_cast<unsigned char>(c[0])) && c[0] != '+') return false;
    any = true;
  }
  return any;
}

std::string escaped(const std::string& s, bool html) {
  std::string out;
  for (const char c : s) {
    if (html && c == '<') out += "&lt;";
    else if (html && c == '>') out += "&gt;";
    else if (html && c == '&') out += "&amp;";
    else if (!html && c == '|') out += "\\|";
    else out += c;
  }
  return out;
}

}  // namespace

std::string Page::text() const {
  std::string out;
  for (const Block& b : blocks_) {
    if (b.kind == Kind::kHeading) out += (out.empty() ? "" : "\n") + b.text + "\n";
    if (b.kind == Kind::kLine) out += b.text + "\n";
    if (b.kind != Kind::kTable) continue;
    const std::size_t columns = columnsOf(b.rows);
    std::vector<std::size_t> widths(columns, 0);
    for (const auto& row : b.rows)
      for (std::size_t c = 0; c < columns; ++c) widths[c] = std::max(widths[c], width(cell(row, c)));
    for (const auto& row : b.rows) {
      std::string text = " ";
      for (std::size_t c = 0; c < columns; ++c) {
        const std::string& s = cell(row, c);
        const std::string pad(widths[c] - width(s), ' ');
        text += " " + (standsRight(b.rows, c) ? pad + s : s + pad) + " ";
      }
      while (!text.empty() && text.back() == ' ') text.pop_back();
      out += text + "\n";
    }
  }
  return out;
}

std::string Page::markdown(const std::string& title) const {
  std::string out = "# " + title + "\n";
  for (const Block& b : blocks_) {
    if (b.kind == Kind::kHeading) out += "\n## " + b.text + "\n\n";
    if (b.kind == Kind::kLine) out += b.text + "  \n";
    if (b.kind != Kind::kTable || b.rows.empty()) continue;
    const std::size_t columns = columnsOf(b.rows);
    out += "\n";
    for (std::size_t r = 0; r < b.rows.size(); ++r) {
      out += "|";
      for (std::size_t c = 0; c < columns; ++c) out += " " + escaped(cell(b.rows[r], c), false) + " |";
      out += "\n";
      if (r > 0) continue;
      out += "|";
      for (std::size_t c = 0; c < columns; ++c) out += standsRight(b.rows, c) ? "---:|" : "---|";
      out += "\n";
    }
    out += "\n";
  }
  return out;
}

std::string Page::html(const std::string& title) const {
  std::string out = "<!doctype html>\n<html><head><meta charset=\"utf-8\"><title>" + escaped(title, true) +
                    "</title>\n<style>body{font:15px/1.5 system-ui,sans-serif;max-width:62em;margin:2em auto;padding:0 1em}"
                    "table{border-collapse:collapse;margin:.6em 0}td,th{padding:.15em .8em;border-bottom:1px solid #ddd;"
                    "text-align:left}.n{text-align:right;font-variant-numeric:tabular-nums}</style></head><body>\n<h1>" +
                    escaped(title, true) + "</h1>\n";
  for (const Block& b : blocks_) {
    if (b.kind == Kind::kHeading) out += "<h2>" + escaped(b.text, true) + "</h2>\n";
    if (b.kind == Kind::kLine) out += "<p>" + escaped(b.text, true) + "</p>\n";
    if (b.kind != Kind::kTable) continue;
    const std::size_t columns = columnsOf(b.rows);
    out += "<table>\n";
    for (std::size_t r = 0; r < b.rows.size(); ++r) {
      out += "<tr>";
      const std::string tag = r == 0 ? "th" : "td";
      for (std::size_t c = 0; c < columns; ++c)
        out += "<" + tag + (standsRight(b.rows, c) ? " class=\"n\"" : "") + ">" + escaped(cell(b.rows[r], c), true) + "</" + tag + ">";
      out += "</tr>\n";
    }
    out += "</table>\n";
  }
  return out + "</body></html>\n";
}

}  // namespace spscope::app
