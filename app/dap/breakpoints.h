// SPDX-License-Identifier: Apache-2.0
// The breakpoints that a client has set, and what they are in the debugger. A client sends all of one source (or kind) at a time;
// those that it sends again as they were keep their number and their count.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/dap/sources.h"
#include "app/dap/wire/message.h"
#include "core/session/debug/debugger.h"

namespace spscope::app::dap {

class Breakpoints {
 public:
  enum class Kind : std::uint8_t { kLine, kFunction, kException };
  struct Entry {
    int id = 0;  ///< the client's; never used again
    Kind kind = Kind::kLine;
    std::string group;           ///< of those that are sent together: "path x.py", "text 1", "functions"
    Json source;                 ///< as the client named it; null: of none
    std::string name;            ///< of a function or of an exception's filter
    std::int64_t line = 0;       ///< that was asked for, from 1 on
    std::string condition, hit, log;
    // What became of it:
    std::optional<int> core;     ///< its number in the debugger
    std::int64_t actual = 0;     ///< its line
    std::string problem;         ///< why it is not placed
    bool sameAs(const Entry& other) const;
  };

  /// Lines go to the client as `shown` has them. Until debug() was called nothing is placed.
  explicit Breakpoints(std::function<std::int64_t(std::int64_t)> shown) : shown_(std::move(shown)) {}
  /// From here on, on these: what the client has set by now is placed. The entries that are now other than the client knows them.
  Json debug(session::debug::Debugger& debugger, const Sources& sources);
  void forget();  ///< the debugger goes

  /// Requests setBreakpoints, setFunctionBreakpoints, setExceptionBreakpoints: their bodies. `line`: the client's as ours.
  Result<Json> setLines(const Fields& arguments, const std::function<std::int64_t(std::int64_t)>& line);
  Result<Json> setFunctions(const Fields& arguments);
  Result<Json> setExceptions(const Fields& arguments);
  static Json filters();

  const Entry* ofCore(int core) const;  ///< nullptr: it was made by a command

 private:
  Json replace(const std::string& group, std::vector<Entry> wanted);
  void place(Entry& entry);
  Result<session::debug::NodeQuery> where(Entry& entry) const;
  Json shown(const Entry& entry) const;

  std::function<std::int64_t(std::int64_t)> shown_;
  session::debug::Debugger* debugger_ = nullptr;
  const Sources* sources_ = nullptr;
  std::vector<Entry> entries_;
  int last_id_ = 0;
};

}  // namespace spscope::app::dap
