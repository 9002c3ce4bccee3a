// SPDX-License-Identifier: Apache-2.0
// The breakpoints of a model as the window keeps them, also while nothing is debugged and from one start to the next. A debugger
// has those that are enabled: before every command it is given what changed, and what a command changed is taken over.
#pragma once

#include <string>
#include <vector>

#include "core/session/debug/debugger.h"

namespace spscope::ui {

struct ListedBreakpoint {
  std::int64_t key = 0;    ///< of this list, for as long as it is in it
  std::string text;        ///< as it is typed behind "break"
  session::debug::Breakpoint parsed;
  bool enabled = true;
  int id = 0;              ///< the debugger's number; 0: it does not have it
  std::int64_t hits = 0;   ///< in this session of the debugger
  std::string problem;     ///< why the debugger did not take it
};

class BreakpointList {
 public:
  const std::vector<ListedBreakpoint>& all() const { return all_; }
  /// Its place; one that is there already is enabled. Errors: usage (with what is legal).
  Result<std::size_t> add(const std::string& text, bool enabled = true);
  /// Another text in its place. Errors: as above; then it stays as it was.
  Status change(std::size_t place, const std::string& text);
  void enable(std::size_t place, bool on);
  void remove(std::size_t place);
  void clear() { all_.clear(); }
  /// -1: there is none of exactly this text.
  int find(const std::string& text) const;

  /// What the debugger is to have.
  struct Wanted {
    std::int64_t key = 0;
    int id = 0;
    session::debug::Breakpoint breakpoint;
    std::string problem;
  };
  std::vector<Wanted> wanted() const;
  /// On the debugger's thread: those that it has and that are not wanted go, those that it lacks come; fills id and problem.
  static void bring(session::debug::Debugger& debugger, std::vector<Wanted>& wanted);
  /// `given`: what bring() made of wanted(); `now`: what the debugger has after the command. True where anything is another.
  bool adopt(const std::vector<Wanted>& given, const std::vector<session::debug::Breakpoint>& now);
  /// There is no debugger any more.
  void detach();

 private:
  std::vector<ListedBreakpoint> all_;
  std::int64_t last_key_ = 0;
};

}  // namespace spscope::ui
