// SPDX-License-Identifier: Apache-2.0
// Breakpoints as a client sets them, and what it asks about one that was met.
#include "app/dap/session.h"

namespace spscope::app::dap {

Result<Json> Session::setBreakpoints(const Fields& arguments) {
  return breakpoints_.setLines(arguments, [this](std::int64_t line) { return ourLine(line); });
}

Result<Json> Session::setFunctionBreakpoints(const Fields& arguments) { return breakpoints_.setFunctions(arguments); }

Result<Json> Session::setExceptionBreakpoints(const Fields& arguments) { return breakpoints_.setExceptions(arguments); }

Result<Json> Session::breakpointLocations(const Fields& arguments) {
  SP_ASSIGN(const Fields source, arguments.object("source"));
  SP_ASSIGN(const std::int64_t reference, source.number("sourceReference", 0));
  SP_ASSIGN(const std::string path, source.text("path", ""));
  SP_ASSIGN(const std::string name, source.text("name", ""));
  SP_ASSIGN(const std::int64_t from, arguments.number("line"));
  SP_ASSIGN(const std::int64_t to, arguments.number("endLine", from));
  const std::int64_t first = ourLine(from), last = ourLine(to);
  Json lines = Json::array();
  if (const Sources::Program* const program = sources_->program(reference, path.empty() ? name : path)) {
    for (std::size_t place = 0; place < program->graph->order.size(); ++place)
      if (const int line = program->lineOf(place); line >= first && line <= last) lines.push_back({{"line", shownLine(line)}});
  } else if (const Sources::PythonFile* const file = path.empty() ? nullptr : sources_->file(path)) {
    for (const std::int64_t line : file->lines)
      if (line >= first && line <= last) lines.push_back({{"line", shownLine(line)}});
  }
  return Json{{"breakpoints", std::move(lines)}};
}

Result<Json> Session::exceptionInfo(const Fields& arguments) {
  SP_TRY(rankOfThread(arguments));
  if (!failure_.empty()) return Json{{"exceptionId", "failed"}, {"description", failure_}, {"breakMode", "always"}};
  if (!exception_) return makeError("dap-order", "exceptionInfo: it did not stop for an exception", Outcome::kUsage);
  const Json details = {{"message", last_.message}, {"typeName", exception_->name}, {"evaluateName", "%" + last_.node}};
  return Json{{"exceptionId", exception_->name}, {"description", last_.message}, {"breakMode", "always"}, {"details", details}};
}

}  // namespace spscope::app::dap
