// SPDX-License-Identifier: Apache-2.0
// What a client sees of the ranks where they stand: threads, frames, scopes, values; and the console.
#include <algorithm>

#include "app/commands/debug_answer.h"
#include "app/dap/session.h"
#include "core/base/strings.h"
#include "core/ir/python_stack.h"

namespace spscope::app::dap {
namespace {

namespace dbg = session::debug;

constexpr std::int64_t kFrames = 1000;  // of one thread, at most: a frame's id is rank * kFrames + depth + 1

/// Commands that only look: a client evaluates watches over and over, and hovers without being asked to.
constexpr std::string_view kLooks[] = {"where", "list", "find", "breakpoints", "print", "gather", "heat", "diff", "why", "help"};

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n' || text.back() == '\t')) text.pop_back();
  return text.substr(std::min(text.size(), text.find_first_not_of(" \n\t")));
}

const dbg::CommandInfo* commandOf(const std::string& line) {
  const std::string word = line.substr(0, line.find(' '));
  for (const dbg::CommandInfo& c : dbg::commandTable())
    if (word == c.name || (!c.alias.empty() && word == c.alias)) return &c;
  return nullptr;
}

}  // namespace

Result<Json> Session::threads(const Fields&) {
  Json out = Json::array();
  for (int r = 0; r < debugger_->ranks(); ++r) out.push_back({{"id", r + 1}, {"name", strf("rank %d", r)}});
  return Json{{"threads", std::move(out)}};
}

Result<Json> Session::stackTrace(const Fields& arguments) {
  SP_ASSIGN(const int rank, rankOfThread(arguments));
  SP_ASSIGN(const std::int64_t first, arguments.number("startFrame", 0));
  SP_ASSIGN(const std::int64_t levels, arguments.number("levels", 0));
  const Sources::Program& program = sources_->programOf(rank);
  const dbg::RankPlace place = debugger_->where().ranks[static_cast<std::size_t>(rank)];
  Json all = Json::array();
  const auto frame = [&](std::string name, Json source, std::int64_t line) {
    all.push_back({{"id", rank * kFrames + static_cast<std::int64_t>(all.size()) + 1}, {"name", std::move(name)}, {"source", std::move(source)}, {"line", line}, {"column", shownColumn()}});
  };
  const ir::Graph& graph = debugger_->graph(rank);
  if (place.ended) {
    frame("the end of the step", Sources::sourceOf(program), shownLine(program.lineOf(graph.order.size())));
  } else {
    const ir::Node& node = graph.node(graph.order[static_cast<std::size_t>(place.next.place)]);
    frame("%" + node.name + " = " + place.next.op + (place.next.phase == "forward" ? "" : ", " + place.next.phase), Sources::sourceOf(program),
          shownLine(program.lineOf(static_cast<std::size_t>(place.next.place))));
    const std::string module = node.location ? node.location->module_path + (node.location->module_type.empty() ? "" : " (" + node.location->module_type + ")") : std::string();
    std::vector<ir::PythonFrame> python;
    if (node.location) python = ir::framesOf(node.location->stack);
    std::reverse(python.begin(), python.end());
    for (std::size_t i = 0; i < python.size() && static_cast<std::int64_t>(all.size()) < kFrames; ++i) {
      const Sources::PythonFile* const file = sources_->recordedFile(python[i].file);
      std::string name = python[i].function.empty() ? std::string("Python") : std::string(python[i].function);
      if (i == 0 && !module.empty()) name += " in " + module;
      frame(std::move(name), file != nullptr ? Sources::sourceOf(*file) : Json(), shownLine(python[i].line));
      if (ir::isTorchFile(python[i].file)) all.back()["presentationHint"] = "subtle";
    }
    if (python.empty() && !module.empty()) all.push_back({{"id", rank * kFrames + 2}, {"name", module}, {"line", 0}, {"column", 0}, {"presentationHint", "label"}});
  }
  const auto total = static_cast<std::int64_t>(all.size());
  const std::int64_t from = std::clamp<std::int64_t>(first, 0, total), to = levels > 0 ? from + std::min(levels, total - from) : total;
  return Json{{"stackFrames", Json(all.begin() + from, all.begin() + to)}, {"totalFrames", total}};
}

Result<int> Session::rankOfFrame(std::int64_t frame) const {
  const std::int64_t rank = (frame - 1) / kFrames;
  if (frame < 1 || rank >= debugger_->ranks()) return makeError("dap-argument", strf("there is no frame %lld", static_cast<long long>(frame)), Outcome::kUsage);
  return static_cast<int>(rank);
}

Result<Json> Session::scopes(const Fields& arguments) {
  SP_ASSIGN(const std::int64_t frame, arguments.number("frameId"));
  SP_ASSIGN(const int rank, rankOfFrame(frame));
  return Json{{"scopes", variables_->scopes(rank)}};
}

Result<Json> Session::variables(const Fields& arguments) {
  SP_ASSIGN(const std::int64_t reference, arguments.number("variablesReference"));
  SP_ASSIGN(const std::int64_t start, arguments.number("start", 0));
  SP_ASSIGN(const std::int64_t count, arguments.number("count", 0));
  SP_ASSIGN(const std::string filter, arguments.text("filter", ""));
  SP_ASSIGN(Json children, variables_->children(reference, start, count));
  Json out = Json::array();
  for (Json& one : children) {
    // Indexed ones are those in brackets.
    const bool is_indexed = one["name"].get_ref<const std::string&>().starts_with('[');
    if ((filter == "indexed" && !is_indexed) || (filter == "named" && is_indexed)) continue;
    withoutTypes(one);
    out.push_back(std::move(one));
  }
  return Json{{"variables", std::move(out)}};
}

Result<Json> Session::valueOf(std::string expression, int rank) {
  expression = trimmed(std::move(expression));
  if (expression.starts_with('%')) expression.erase(0, 1);
  const std::size_t bracket = expression.find('[');
  const std::string name = trimmed(expression.substr(0, bracket));
  if (!variables_->knows(rank, name)) return makeError("value-unknown", "there is no value " + name.substr(0, 80), Outcome::kUsage);
  if (bracket == std::string::npos) {
    SP_ASSIGN(Json value, variables_->value(rank, name));
    Json out = {{"result", value["value"]}, {"type", value["type"]}, {"variablesReference", value["variablesReference"]}};
    withoutTypes(out);
    return out;
  }
  const dbg::Answer answer = dbg::execute(*debugger_, "print %" + name + " " + expression.substr(bracket) + strf(" rank %d", rank));
  if (answer.error) return *answer.error;
  std::vector<std::string> cells;
  if (answer.window)
    for (const double x : answer.window->cells.values) cells.push_back(formatDouble(x));
  return Json{{"result", cells.size() == 1 ? cells.front() : "[" + join(cells, ", ") + "]"}, {"variablesReference", 0}};
}

Result<Json> Session::evaluate(const Fields& arguments) {
  SP_ASSIGN(std::string expression, arguments.text("expression"));
  SP_ASSIGN(const std::string context, arguments.text("context", "repl"));
  SP_ASSIGN(const std::int64_t frame, arguments.number("frameId", focus_ * kFrames + 1));
  SP_ASSIGN(const int rank, rankOfFrame(frame));
  expression = trimmed(std::move(expression));
  const dbg::CommandInfo* const info = commandOf(expression);
  if (context == "hover" || info == nullptr) {
    Result<Json> value = valueOf(expression, rank);
    if (value || context == "hover" || context == "watch" || expression.starts_with('%')) return value;
    const dbg::Answer answer = dbg::execute(*debugger_, expression);  // says what commands there are
    return answer.error ? *answer.error : value.error();
  }
  const bool looks = std::find(std::begin(kLooks), std::end(kLooks), info->name) != std::end(kLooks);
  if (context != "repl" && !looks) return makeError("usage", info->name + " is for the console: a " + context + " only looks", Outcome::kUsage);
  if (info->name == "continue" && expression.find(' ') == std::string::npos) {  // so that it can be paused
    Motion motion;
    motion.focus = rank;
    after_.push_back([this, motion] {
      connection_.event("continued", {{"threadId", motion.focus + 1}, {"allThreadsContinued", true}});
      start(motion);
    });
    return Json{{"result", ""}, {"variablesReference", 0}};
  }
  return command(expression);
}

Result<Json> Session::command(const std::string& line) {
  const dbg::Answer answer = dbg::execute(*debugger_, line);
  if (answer.error) return *answer.error;
  if (answer.quit) after_.push_back([this] { terminated(); });
  if (answer.stop && answer.stop->moves != 0) {
    const bool met = answer.stop->reason == dbg::StopReason::kBreakpoint;
    after_.push_back([this, stop = *answer.stop, met] { stopped(stop, met ? "breakpoint" : "step", std::max(stop.rank, 0), stop.message); });
  }
  return Json{{"result", trimmed(debugPage(answer).text())}, {"variablesReference", 0}};
}

Result<Json> Session::completions(const Fields& arguments) {
  SP_ASSIGN(const std::string text, arguments.text("text"));
  SP_ASSIGN(const std::int64_t column, arguments.number("column"));
  const std::string line = text.substr(0, static_cast<std::size_t>(std::clamp<std::int64_t>(column - shownColumn(), 0, static_cast<std::int64_t>(text.size()))));
  const std::size_t blank = line.find_last_of(" \t");
  const std::size_t start = blank == std::string::npos ? 0 : blank + 1;
  Json targets = Json::array();
  constexpr std::size_t kMost = 200;
  for (const std::string& one : dbg::completions(*debugger_, line)) {
    if (targets.size() == kMost) break;
    const char* const type = one.starts_with('%') ? "variable" : start == 0 ? "function" : "keyword";
    targets.push_back({{"label", one}, {"type", type}, {"start", static_cast<std::int64_t>(start)}, {"length", line.size() - start}});
  }
  return Json{{"targets", std::move(targets)}};
}

Result<Json> Session::source(const Fields& arguments) {
  SP_ASSIGN(std::int64_t reference, arguments.number("sourceReference", 0));
  if (reference <= 0 && arguments.has("source")) {
    SP_ASSIGN(const Fields source, arguments.object("source"));
    SP_ASSIGN(reference, source.number("sourceReference", 0));
  }
  const Sources::Program* const program = reference > 0 ? sources_->program(reference, "") : nullptr;
  if (program == nullptr) return makeError("dap-argument", strf("source: there is no sourceReference %lld", static_cast<long long>(reference)), Outcome::kUsage);
  return Json{{"content", program->text}, {"mimeType", "text/plain"}};
}

Result<Json> Session::loadedSources(const Fields&) {
  Json out = Json::array();
  for (const Sources::Program& p : sources_->programs()) out.push_back(Sources::sourceOf(p));
  for (const Sources::PythonFile& f : sources_->files()) out.push_back(Sources::sourceOf(f));
  return Json{{"sources", std::move(out)}};
}

}  // namespace spscope::app::dap
