// SPDX-License-Identifier: Apache-2.0
#include "ui/model/debug/breakpoint_list.h"

#include <algorithm>

#include "core/base/strings.h"

namespace spscope::ui {

namespace dbg = session::debug;

namespace {

Result<dbg::Breakpoint> parsed(const std::string& text) {
  std::vector<std::string> words;
  for (const std::string& word : split(text, ' '))
    if (!word.empty()) words.push_back(word);
  return dbg::parseBreakpoint(std::move(words));
}

}  // namespace

int BreakpointList::find(const std::string& text) const {
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (all_[i].text == text) return static_cast<int>(i);
  return -1;
}

Result<std::size_t> BreakpointList::add(const std::string& text, bool enabled) {
  SP_ASSIGN(dbg::Breakpoint breakpoint, parsed(text));
  if (const int there = find(breakpoint.text()); there >= 0) {
    if (enabled) enable(static_cast<std::size_t>(there), true);
    return static_cast<std::size_t>(there);
  }
  ListedBreakpoint one;
  one.key = ++last_key_;
  one.text = breakpoint.text();
  one.parsed = std::move(breakpoint);
  one.enabled = enabled;
  all_.push_back(std::move(one));
  return all_.size() - 1;
}

Status BreakpointList::change(std::size_t place, const std::string& text) {
  if (place >= all_.size()) return {};
  SP_ASSIGN(dbg::Breakpoint breakpoint, parsed(text));
  if (breakpoint.text() == all_[place].text) return {};
  ListedBreakpoint one;
  one.key = ++last_key_;  // to the debugger it is another one
  one.text = breakpoint.text();
  one.parsed = std::move(breakpoint);
  one.enabled = all_[place].enabled;
  all_[place] = std::move(one);
  return {};
}

void BreakpointList::enable(std::size_t place, bool on) {
  if (place >= all_.size()) return;
  all_[place].enabled = on;
  if (!on) all_[place].problem.clear();
}

void BreakpointList::remove(std::size_t place) {
  if (place < all_.size()) all_.erase(all_.begin() + static_cast<std::ptrdiff_t>(place));
}

std::vector<BreakpointList::Wanted> BreakpointList::wanted() const {
  std::vector<Wanted> out;
  for (const ListedBreakpoint& b : all_)
    if (b.enabled) out.push_back({b.key, b.id, b.parsed, {}});
  return out;
}

void BreakpointList::bring(dbg::Debugger& debugger, std::vector<Wanted>& wanted) {
  std::vector<int> unwanted;
  for (const dbg::Breakpoint& b : debugger.breakpoints())
    if (std::none_of(wanted.begin(), wanted.end(), [&](const Wanted& w) { return w.id == b.id; })) unwanted.push_back(b.id);
  for (const int id : unwanted) debugger.remove(id);
  for (Wanted& w : wanted) {
    if (w.id != 0) continue;
    if (auto added = debugger.add(w.breakpoint); added) w.id = added->id;
    else w.problem = added.error().message + (added.error().legal.empty() ? "" : "; did you mean " + added.error().legal + "?");
  }
}

bool BreakpointList::adopt(const std::vector<Wanted>& given, const std::vector<dbg::Breakpoint>& now) {
  bool changed = false;
  const auto has = [&](int id) { return std::find_if(now.begin(), now.end(), [&](const dbg::Breakpoint& b) { return b.id == id; }); };
  for (std::size_t i = 0; i < all_.size();) {
    ListedBreakpoint& b = all_[i];
    const auto told = std::find_if(given.begin(), given.end(), [&](const Wanted& w) { return w.key == b.key; });
    if (told == given.end()) {  // not enabled when the command began
      changed = changed || b.id != 0;
      b.id = 0;
      ++i;
      continue;
    }
    if (told->id != 0 && has(told->id) == now.end()) {  // the command removed it
      remove(i);
      changed = true;
      continue;
    }
    const std::int64_t hits = told->id == 0 ? b.hits : has(told->id)->hits;
    changed = changed || b.id != told->id || b.problem != told->problem || b.hits != hits;
    b.id = told->id;
    b.problem = told->problem;
    b.hits = hits;
    ++i;
  }
  for (const dbg::Breakpoint& b : now) {
    if (std::any_of(given.begin(), given.end(), [&](const Wanted& w) { return w.id == b.id; })) continue;
    if (auto place = add(b.text()); place) {  // the command made it
      all_[*place].id = b.id;
      all_[*place].hits = b.hits;
      changed = true;
    }
  }
  return changed;
}

void BreakpointList::detach() {
  for (ListedBreakpoint& b : all_) {
    b.id = 0;
    b.hits = 0;
    b.problem.clear();
  }
}

}  // namespace spscope::ui
