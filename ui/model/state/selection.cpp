// SPDX-License-Identifier: Apache-2.0
#include "ui/model/state/selection.h"

namespace spscope::ui {

bool SelectionHistory::set(Selection selection) {
  if (selection == current()) return false;
  past_.resize(at_ + 1);
  past_.push_back(std::move(selection));
  if (past_.size() > kKept) past_.erase(past_.begin());
  at_ = past_.size() - 1;
  return true;
}

bool SelectionHistory::back() {
  if (!canBack()) return false;
  --at_;
  return true;
}

bool SelectionHistory::forward() {
  if (!canForward()) return false;
  ++at_;
  return true;
}

void SelectionHistory::clear() {
  past_.assign(1, Selection{});
  at_ = 0;
}

}  // namespace spscope::ui
