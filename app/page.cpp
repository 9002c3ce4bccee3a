// SPDX-License-Identifier: Apache-2.0
#include "app/page.h"

#include <algorithm>
#include <cctype>

#include "core/base/xml_text.h"

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

/// A cell of a Markdown table: one line, no bar.
std::string markdownCell(const std::string& s) {
  std::string out;
  for (const char c : s) {
    if (c == '|') out += "\\|";
    else if (c == '\n') out += "<br>";
    else out += c;
  }
  return out;
}

bool hasLines(const std::string& s) { return s.find('\n') != std::string::npos; }

constexpr const char* kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:76em;margin:2em auto;padding:0 1em;color:#222;background:#fff}"
    "h1{font-size:1.5em}h2{font-size:1.15em;margin:1.6em 0 .4em}p{margin:.3em 0}"
    "table{border-collapse:collapse;margin:.6em 0}td,th{padding:.15em .8em;border-bottom:1px solid #ddd;text-align:left;"
    "vertical-align:top;overflow-wrap:break-word}.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}"
    "pre{background:#f6f6f6;padding:.6em .8em;overflow-x:auto;font-size:13px}svg{max-width:100%;height:auto}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#1b1d20}td,th{border-color:#444}pre{background:#26292d}}";

constexpr std::string_view kHtmlEnd = "</body></html>\n";

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

std::string Page::markdown(const std::string& title) const { return "# " + title + "\n" + markdownBody(); }

std::string Page::markdownBody() const {
  std::string out;
  for (const Block& b : blocks_) {
    if (b.kind == Kind::kHeading) out += "\n## " + b.text + "\n\n";
    if (b.kind == Kind::kLine) out += hasLines(b.text) ? "\n```\n" + b.text + "\n```\n" : b.text + "  \n";
    if (b.kind != Kind::kTable || b.rows.empty()) continue;
    const std::size_t columns = columnsOf(b.rows);
    out += "\n";
    for (std::size_t r = 0; r < b.rows.size(); ++r) {
      out += "|";
      for (std::size_t c = 0; c < columns; ++c) out += " " + markdownCell(cell(b.rows[r], c)) + " |";
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
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>" + xmlEscaped(title) + "</title>\n<style>" + kStyle +
         "</style></head><body>\n<h1>" + xmlEscaped(title) + "</h1>\n" + htmlBody() + std::string(kHtmlEnd);
}

std::string Page::htmlBody() const {
  std::string out;
  for (const Block& b : blocks_) {
    if (b.kind == Kind::kHeading) out += "<h2>" + xmlEscaped(b.text) + "</h2>\n";
    const std::string tag_of_line = hasLines(b.text) ? "pre" : "p";
    if (b.kind == Kind::kLine) out += "<" + tag_of_line + ">" + xmlEscaped(b.text) + "</" + tag_of_line + ">\n";
    if (b.kind == Kind::kChart) out += svg(b.chart);
    if (b.kind == Kind::kPicture) out += b.text;
    if (b.kind != Kind::kTable) continue;
    const std::size_t columns = columnsOf(b.rows);
    out += "<table>\n";
    for (std::size_t r = 0; r < b.rows.size(); ++r) {
      out += "<tr>";
      const std::string tag = r == 0 ? "th" : "td";
      for (std::size_t c = 0; c < columns; ++c)
        out += "<" + tag + (standsRight(b.rows, c) ? " class=\"n\"" : "") + ">" + xmlEscaped(cell(b.rows[r], c)) + "</" + tag + ">";
      out += "</tr>\n";
    }
    out += "</table>\n";
  }
  return out;
}

std::string Page::addedTo(const std::string& page) const {
  if (page.ends_with(kHtmlEnd)) return page.substr(0, page.size() - kHtmlEnd.size()) + htmlBody() + std::string(kHtmlEnd);
  return page.starts_with("# ") ? page + markdownBody() : std::string();
}

}  // namespace spscope::app
