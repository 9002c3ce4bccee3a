// SPDX-License-Identifier: Apache-2.0
// The lines that were typed before, as a shell gives them back: up to older ones, down to newer ones, at the end what was begun.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace spscope::ui {

class LineHistory {
 public:
  void add(std::string line) {
    if (!line.empty() && (lines_.empty() || lines_.back() != line)) lines_.push_back(std::move(line));
    at_ = lines_.size();
    begun_.clear();
  }
  /// `now`: what stands in the line. Returns what is to stand there.
  std::string older(const std::string& now) {
    if (at_ == lines_.size()) begun_ = now;
    if (at_ > 0) --at_;
    return at_ < lines_.size() ? lines_[at_] : now;
  }
  std::string newer(const std::string& now) {
    if (at_ == lines_.size()) return now;
    return ++at_ == lines_.size() ? begun_ : lines_[at_];
  }

 private:
  std::vector<std::string> lines_;
  std::string begun_;
  std::size_t at_ = 0;
};

}  // namespace spscope::ui
