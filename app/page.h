// SPDX-License-Identifier: Apache-2.0
// What a command tells a person: headings, lines, tables, curves and pictures, rendered as text, Markdown or a HTML page.
#pragma once

#include <string>
#include <vector>

#include "app/chart.h"

namespace spscope::app {

class Page {
 public:
  void heading(std::string text) { add(Kind::kHeading, std::move(text)); }
  /// Text with line ends in it keeps them.
  void line(std::string text) { add(Kind::kLine, std::move(text)); }
  /// The first row is the header. Columns whose cells all start with a digit (or are "-") stand to the right.
  void table(std::vector<std::vector<std::string>> rows) {
    add(Kind::kTable, {});
    blocks_.back().rows = std::move(rows);
  }
  /// In HTML pages only: text and Markdown hold the same figures as tables.
  void chart(Chart chart) {
    add(Kind::kChart, {});
    blocks_.back().chart = std::move(chart);
  }
  /// Inline SVG, or other well-formed HTML of one's own; in HTML pages only.
  void picture(std::string svg) { add(Kind::kPicture, std::move(svg)); }
  void append(const Page& other) { blocks_.insert(blocks_.end(), other.blocks_.begin(), other.blocks_.end()); }

  std::string text() const;
  std::string markdown(const std::string& title) const;
  /// Well-formed as XML, too.
  std::string html(const std::string& title) const;
  /// A page that html() or markdown() made, with this one's blocks at its end; "" where it is none of those.
  std::string addedTo(const std::string& page) const;
  bool empty() const { return blocks_.empty(); }

 private:
  enum class Kind { kHeading, kLine, kTable, kChart, kPicture };
  struct Block {
    Kind kind;
    std::string text;
    std::vector<std::vector<std::string>> rows;
    Chart chart;
  };
  std::string markdownBody() const;
  std::string htmlBody() const;
  void add(Kind kind, std::string text) { blocks_.push_back({kind, std::move(text), {}, {}}); }
  std::vector<Block> blocks_;
};

}  // namespace spscope::app
