// SPDX-License-Identifier: Apache-2.0
#include "app/dap/breakpoints.h"

#include <algorithm>
#include <charconv>

#include "core/base/strings.h"

namespace spscope::app::dap {
namespace {

namespace dbg = session::debug;
using By = dbg::NodeQuery::By;

struct Filter {
  const char *filter, *label, *description;
};
constexpr Filter kFilters[] = {
    {"nan", "NaN", "stop behind a node whose result holds a NaN"},
    {"inf", "Infinite values", "stop behind a node whose result holds an infinite element"},
    {"differs", "Differs from the unsharded run", "stop behind a node whose result, put together from the ranks, is not the unsharded one"},
    {"ranks", "Ranks differ", "stop behind a node whose result should be the same on every rank and is not"},
};

std::vector<std::string> wordsOf(const std::string& text) {
  std::vector<std::string> out;
  for (const std::string& word : split(text, ' '))
    if (!word.empty()) out.push_back(word);
  return out;
}

/// "3" and ">= 3": from the third time on.
Result<std::int64_t> hitsOf(const std::string& text) {
  std::string digits;
  for (const char c : text)
    if (c != ' ') digits += c;
  if (digits.starts_with(">=")) digits.erase(0, 2);
  std::int64_t out = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  if (error != std::errc() || end != digits.data() + digits.size() || out < 1) {
    Error wrong = makeError("usage", "the hit condition " + text + " is not understood", Outcome::kUsage);
    wrong.legal = "3 or >= 3: from the third time on";
    return wrong;
  }
  return out;
}

/// Condition and count as behind "break" in the debugger: "nan", "abs>3", "differs>1e-3 rank 1".
Result<dbg::Breakpoint> conditionOf(const std::string& condition, const std::string& hit) {
  std::vector<std::string> words{"any"}, when = wordsOf(condition);
  if (!when.empty() && when.front() == "if") when.erase(when.begin());
  if (std::find(when.begin(), when.end(), "do") != when.end()) return makeError("usage", "a condition does nothing: " + condition, Outcome::kUsage);
  if (!when.empty() && when.front() != "rank") words.push_back("if");
  words.insert(words.end(), when.begin(), when.end());
  SP_ASSIGN(dbg::Breakpoint out, dbg::parseBreakpoint(std::move(words)));
  if (!hit.empty()) {
    SP_ASSIGN(out.condition.hit, hitsOf(hit));
  }
  return out;
}

}  // namespace

bool Breakpoints::Entry::sameAs(const Entry& o) const {
  return kind == o.kind && group == o.group && name == o.name && line == o.line && condition == o.condition && hit == o.hit && log == o.log;
}

Json Breakpoints::filters() {
  Json out = Json::array();
  for (const Filter& f : kFilters) {
    const bool bound = std::string_view(f.filter) == "differs";
    const std::string condition = std::string("of one rank only, from the n-th time on") + (bound ? ", by more than a share of its norm: >1e-3 rank 1 hit 2" : ": rank 1 hit 2");
    out.push_back({{"filter", f.filter}, {"label", f.label}, {"description", f.description}, {"default", false}, {"supportsCondition", true}, {"conditionDescription", condition}});
  }
  return out;
}

Result<dbg::NodeQuery> Breakpoints::where(Entry& e) const {
  if (e.kind == Kind::kException) return dbg::NodeQuery{};
  if (e.kind == Kind::kFunction) {
    std::vector<std::string> words = wordsOf(e.name);
    SP_ASSIGN(dbg::NodeQuery query, dbg::takeQuery(words));
    if (!words.empty()) return makeError("usage", e.name + ": " + words.front() + " is one word too many", Outcome::kUsage);
    if (query.by != By::kName || debugger_->find(query)) return query;
    // A name of its own: of a node, else of an op, else of a module.
    for (const By by : {By::kOp, By::kModule})
      if (const dbg::NodeQuery other{by, query.pattern}; debugger_->find(other)) return other;
    return query;
  }
  const Fields source("setBreakpoints", e.source);
  SP_ASSIGN(const std::int64_t reference, source.number("sourceReference", 0));
  SP_ASSIGN(const std::string path, source.text("path", ""));
  SP_ASSIGN(const std::string name, source.text("name", ""));
  if (const Sources::Program* const program = sources_->program(reference, path.empty() ? name : path)) {
    const auto place = program->placeAt(e.line);
    if (!place) return makeError("debug-no-node", strf("line %lld of the program has no node, nor has any line behind it", static_cast<long long>(e.line)), Outcome::kUsage);
    e.actual = program->lineOf(*place);
    return dbg::NodeQuery{By::kName, program->graph->node(program->graph->order[*place]).name};
  }
  const Sources::PythonFile* const file = path.empty() ? nullptr : sources_->file(path);
  if (file == nullptr) return makeError("debug-no-node", "no node of the model comes from " + (path.empty() ? name : path), Outcome::kUsage);
  const auto line = file->lines.lower_bound(e.line);
  if (line == file->lines.end()) return makeError("debug-no-node", strf("no node comes from line %lld of the file or a line behind it", static_cast<long long>(e.line)), Outcome::kUsage);
  e.actual = *line;
  return dbg::NodeQuery{By::kLine, file->recorded + ":" + std::to_string(*line)};
}

void Breakpoints::place(Entry& e) {
  e.problem.clear();
  e.actual = e.line;
  if (debugger_ == nullptr) {
    e.problem = "it is placed once the model is loaded";
    return;
  }
  const auto added = [&]() -> Result<dbg::Breakpoint> {
    std::string condition = e.condition;
    if (e.kind == Kind::kException) {
      const bool share = condition.starts_with('>');
      condition = e.name + (share ? "" : " ") + condition;
    }
    SP_ASSIGN(dbg::Breakpoint wanted, conditionOf(condition, e.hit));
    SP_ASSIGN(wanted.where, where(e));
    return debugger_->add(std::move(wanted));
  }();
  if (added) e.core = added->id;
  else e.problem = added.error().message + (added.error().legal.empty() ? "" : "; legal: " + added.error().legal);
}

Json Breakpoints::shown(const Entry& e) const {
  Json out = {{"id", e.id}, {"verified", e.core.has_value()}};
  if (!e.problem.empty()) out["message"] = e.problem;
  if (e.kind != Kind::kLine) return out;
  out["source"] = e.source;
  out["line"] = shown_(e.actual);
  return out;
}

Json Breakpoints::replace(const std::string& group, std::vector<Entry> wanted) {
  std::vector<Entry> kept, old;
  for (Entry& e : entries_) (e.group == group ? old : kept).push_back(std::move(e));
  Json answer = Json::array();
  for (Entry& e : wanted) {
    e.group = group;
    const auto same = std::find_if(old.begin(), old.end(), [&](const Entry& o) { return o.sameAs(e); });
    if (same != old.end()) {
      e = std::move(*same);
      old.erase(same);
    } else {
      e.id = ++last_id_;
      place(e);
    }
    answer.push_back(shown(e));
    kept.push_back(std::move(e));
  }
  for (const Entry& e : old)
    if (e.core && debugger_ != nullptr) debugger_->remove(*e.core);
  entries_ = std::move(kept);
  return answer;
}

Result<Json> Breakpoints::setLines(const Fields& arguments, const std::function<std::int64_t(std::int64_t)>& ours) {
  SP_ASSIGN(const Fields source, arguments.object("source"));
  SP_ASSIGN(const std::int64_t reference, source.number("sourceReference", 0));
  SP_ASSIGN(const std::string path, source.text("path", ""));
  SP_ASSIGN(const std::string name, source.text("name", ""));
  if (reference <= 0 && path.empty() && name.empty()) return makeError("dap-argument", "setBreakpoints: source has neither path nor sourceReference", Outcome::kUsage);
  Json of_lines = Json::array();  // the older form: numbers only
  if (const Json* const lines = arguments.has("breakpoints") ? nullptr : arguments.find("lines"); lines != nullptr && lines->is_array())
    for (const Json& line : *lines) of_lines.push_back({{"line", line}});
  const Json older = {{"breakpoints", std::move(of_lines)}};
  SP_ASSIGN(const std::vector<Fields> asked, (arguments.has("breakpoints") ? arguments : Fields("setBreakpoints", older)).objects("breakpoints"));
  std::vector<Entry> wanted;
  for (const Fields& one : asked) {
    Entry e;
    SP_ASSIGN(const std::int64_t line, one.number("line"));
    SP_ASSIGN(e.condition, one.text("condition", ""));
    SP_ASSIGN(e.hit, one.text("hitCondition", ""));
    SP_ASSIGN(e.log, one.text("logMessage", ""));
    e.line = ours(line);
    e.source = source.json();
    wanted.push_back(std::move(e));
  }
  return Json{{"breakpoints", replace(reference > 0 ? strf("text %lld", static_cast<long long>(reference)) : "path " + (path.empty() ? name : path), std::move(wanted))}};
}

Result<Json> Breakpoints::setFunctions(const Fields& arguments) {
  SP_ASSIGN(const std::vector<Fields> asked, arguments.objects("breakpoints"));
  std::vector<Entry> wanted;
  for (const Fields& one : asked) {
    Entry e;
    e.kind = Kind::kFunction;
    SP_ASSIGN(e.name, one.text("name"));
    SP_ASSIGN(e.condition, one.text("condition", ""));
    SP_ASSIGN(e.hit, one.text("hitCondition", ""));
    wanted.push_back(std::move(e));
  }
  return Json{{"breakpoints", replace("functions", std::move(wanted))}};
}

Result<Json> Breakpoints::setExceptions(const Fields& arguments) {
  SP_ASSIGN(const std::vector<std::string> plain, arguments.texts("filters"));
  SP_ASSIGN(const std::vector<Fields> options, arguments.objects("filterOptions"));
  std::vector<Entry> wanted;
  const auto want = [&](std::string name, std::string condition) -> Status {
    std::vector<std::string> known;
    for (const Filter& f : kFilters) known.push_back(f.filter);
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      Error error = makeError("dap-argument", "setExceptionBreakpoints: there is no filter " + name, Outcome::kUsage);
      error.legal = join(known, ", ");
      return error;
    }
    Entry e;
    e.kind = Kind::kException;
    e.name = std::move(name);
    e.condition = std::move(condition);
    wanted.push_back(std::move(e));
    return {};
  };
  for (const std::string& name : plain) SP_TRY(want(name, ""));
  for (const Fields& one : options) {
    SP_ASSIGN(std::string name, one.text("filterId"));
    SP_ASSIGN(std::string condition, one.text("condition", ""));
    SP_TRY(want(std::move(name), std::move(condition)));
  }
  return Json{{"breakpoints", replace("exceptions", std::move(wanted))}};
}

Json Breakpoints::debug(dbg::Debugger& debugger, const Sources& sources) {
  debugger_ = &debugger;
  sources_ = &sources;
  Json changed = Json::array();
  for (Entry& e : entries_) {
    e.core.reset();
    place(e);
    changed.push_back(shown(e));
  }
  return changed;
}

void Breakpoints::forget() {
  debugger_ = nullptr;
  sources_ = nullptr;
  for (Entry& e : entries_) e.core.reset();
}

const Breakpoints::Entry* Breakpoints::ofCore(int core) const {
  for (const Entry& e : entries_)
    if (e.core == core) return &e;
  return nullptr;
}

}  // namespace spscope::app::dap
