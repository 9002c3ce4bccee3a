// SPDX-License-Identifier: Apache-2.0
// What a command tells a person: headings, lines and tables, rendered as text, Markdown or a HTML page.
#pragma once

#include <string>
#include <vector>

namespace spscope::app {

class Page {
 public:
  void heading(std::string text) { blocks_.push_back({Kind::kHeading, std::move(text), {}}); }
  void line(std::string text) { blocks_.push_back({Kind::kLine, std::move(text), {}}); }
  /// The first row is the header. Columns whose cells all start with a digit (or are "-") stand to the right.
  void table(std::vector<std::vector<std::string>> rows) { blocks_.push_back({Kind::kTable, {}, std::move(rows)}); }

  std::string text() const;
  std::string markdown(const std::string& title) const;
  std::string html(const std::string& title) const;
  bool empty() const { return blocks_.empty(); }

 private:
  enum class Kind { kHeading, kLine, kTable };
  struct Block {
    Kind kind;
    std::string text;
    std::vector<std::vector<std::string>> rows;
  };
  std::vector<Block> blocks_;
};

}  // namespace spscope::app
