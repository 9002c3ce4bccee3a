// SPDX-License-Identifier: Apache-2.0
#include "ui/model/actions.h"

#include <algorithm>

#include "core/base/numbers.h"
#include "core/base/strings.h"
#include "ui/model/debug/debug_session.h"

namespace spscope::ui {
namespace {

struct Form {
  const char* name;
  std::size_t least, most;
};
constexpr Form kForms[] = {{"open", 1, 1},   {"beside", 1, 1}, {"set", 2, 2},    {"compile", 0, 0}, {"verify", 0, 0},   {"values", 0, 0}, {"run", 0, 0},    {"start-run", 0, 0}, {"wait", 0, 0},
                           {"stop", 1, 1},   {"stage", 1, 1},  {"diff", 2, 2},    {"undiff", 0, 0},   {"select", 1, 1}, {"back", 0, 0},      {"forward", 0, 0},
                           {"event", 1, 1},  {"expand", 1, 1}, {"collapse", 1, 1}, {"colour", 1, 1},  {"fit", 0, 1},    {"search", 1, 100},  {"theme", 1, 1},
                           {"size", 2, 2},   {"panel", 1, 1},  {"curve", 1, 1},  {"plan", 2, 3}, {"take", 1, 1},  {"screenshot", 1, 1}, {"export", 1, 1}, {"close", 0, 0},
                           {"debug", 0, 100}, {"end-debug", 0, 0}, {"pause", 0, 0}};

Error usage(std::string message, std::string legal = {}) {
  Error e = makeError("usage", std::move(message), Outcome::kNo);
  e.legal = std::move(legal);
  return e;
}

Result<std::vector<std::string>> wordsOf(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false, any = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
      any = true;
    } else if (!quoted && (c == ' ' || c == '\t' || c == '\r')) {
      if (any) words.push_back(std::move(word));
      word.clear();
      any = false;
    } else {
      word += c;
      any = true;
    }
  }
  if (quoted) return usage("a quotation mark is not closed");
  if (any) words.push_back(std::move(word));
  return words;
}

/// "until op aten.mm" of "  debug until op aten.mm"; the debugger's own words have no quotation marks.
std::string debugLine(const Action& action) {
  const std::size_t begin = std::min(action.text.find_first_not_of(" \t"), action.text.size());
  std::string line = action.text.substr(begin);
  if (line.starts_with("debug")) line = line.substr(std::min(line.find_first_not_of(" \t", 5), line.size()));
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

bool isDebugCommand(const std::string& name) {
  const auto& table = session::debug::commandTable();
  return std::any_of(table.begin(), table.end(), [&](const session::debug::CommandInfo& c) { return c.name == name; });
}

Result<ModuleIndex> moduleNamed(const GraphDocument& graph, const std::string& path) {
  if (!graph.source()) return usage("no graph is open");
  const ModuleTree& tree = *graph.source()->tree;
  for (const std::string& candidate : {path, "forward/" + path})
    if (const ModuleIndex m = tree.find(candidate); m >= 0) return m;
  // The end of a path is enough where only one has it; of a joint graph's branches the forward one is meant.
  std::vector<std::string> paths, ending, forward;
  for (const Module& m : tree.modules()) {
    paths.push_back(m.path);
    if (path.empty() || !(m.path.ends_with("." + path) || m.path.ends_with("/" + path))) continue;
    ending.push_back(m.path);
    if (!m.path.starts_with("backward/")) forward.push_back(m.path);
  }
  for (const auto* found : {&ending, &forward})
    if (found->size() == 1) return tree.find(found->front());
  if (ending.size() > 1) return usage("several modules of this graph end so: " + path, join(ending, ", "));
  const std::string near = nearest(path, paths);
  return usage("this graph has no module " + path + (near.empty() ? "" : "; did you mean " + near + "?"));
}

}  // namespace

Result<std::vector<Action>> parseActions(const std::string& text) {
  std::vector<Action> actions;
  int number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    const auto failed = [&](Error e) {
      e.source = "line " + std::to_string(number);
      e.outcome = Outcome::kUsage;
      return e;
    };
    auto words = wordsOf(line);
    if (!words) return failed(words.error());
    if (words->empty() || words->front().starts_with('#')) continue;
    Action action{number, words->front(), {words->begin() + 1, words->end()}, line};
    const auto form = std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& f) { return f.name == action.name; });
    const bool fits = form != std::end(kForms) && action.words.size() >= form->least && action.words.size() <= form->most;
    if (!fits && isDebugCommand(action.name)) {
      action.name = "debug";
      action.words = std::move(*words);
      actions.push_back(std::move(action));
      continue;
    }
    if (form == std::end(kForms)) {
      std::vector<std::string> names;
      for (const Form& f : kForms) names.emplace_back(f.name);
      return failed(usage("there is no action " + action.name, join(names, ", ")));
    }
    if (!fits)
      return failed(usage(strf("%s takes %zu words, not %zu", form->name, action.words.size() < form->least ? form->least : form->most, action.words.size())));
    actions.push_back(std::move(action));
  }
  return actions;
}

int stageNamed(const Workspace& workspace, const std::string& name) {
  const auto& stages = workspace.stages();
  int beginning = -1, matches = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (stages[i].name == name) return static_cast<int>(i);
    if (stages[i].name.starts_with(name)) beginning = static_cast<int>(i), ++matches;
  }
  if (const auto n = numberIn<int>(name); n && *n >= 0 && *n < static_cast<int>(stages.size())) return *n;
  return matches == 1 ? beginning : -1;
}

Result<Selection> selectionNamed(const GraphDocument& graph, const std::string& given) {
  if (!graph.source()) return usage("no graph is open");
  const GraphSource& source = *graph.source();
  const std::string name = given.starts_with('%') ? given.substr(1) : given;
  Selection s;
  std::vector<std::string> names;
  for (const SourceNode& n : source.nodes) {
    if (n.node == ir::kNone) {
      if (n.title == name) return s.value = n.input, s;
      names.push_back(n.title);
      continue;
    }
    const ir::Graph& g = n.change == Change::kRemoved ? *source.previous : *source.graph;
    const ir::Node& node = g.node(n.node);
    if (node.name == name) return s.node = n.node, s;
    for (const ir::ValueId v : node.outputs)
      if (v != ir::kNone && g.value(v).name == name) return s.node = n.node, s.value = v, s;
    names.push_back(node.name);
  }
  const auto m = moduleNamed(graph, name);
  if (m) return s.module = source.tree->at(*m).path, s;
  if (!m.error().legal.empty()) return m.error();  // several end so
  const std::string near = nearest(name, names);
  return usage("this graph has no node or module " + given + (near.empty() ? "" : "; did you mean " + near + "?"));
}

ActionRunner::ActionRunner(Workspace& workspace, GraphDocument& graph, ActionView& view, std::vector<Action> actions, std::function<void(std::optional<Error>)> done)
    : workspace_(workspace), graph_(graph), view_(view), actions_(std::move(actions)), done_(std::move(done)) {
  listener_ = workspace_.listen([this](Topic) { poke(); });
}

ActionRunner::~ActionRunner() {
  *alive_ = false;
  workspace_.unlisten(listener_);
}

void ActionRunner::start() { poke(); }

/// Looks again after everything that is happening now has happened.
void ActionRunner::poke() {
  if (poked_ || finished_) return;
  poked_ = true;
  workspace_.jobs().post([this, alive = alive_] {
    if (!*alive) return;
    poked_ = false;
    step();
  });
}

bool ActionRunner::idle() const {
  if (waits_for_run_) return !workspace_.jobs().busy();
  // A run that was started without waiting goes on beside the other actions.
  for (const char* lane : {"open", "compile", "verify", "values", "trace", "beside", "memory", "debug", "plan"})
    if (workspace_.jobs().busy(lane)) return false;
  if (workspace_.debug().busy()) return false;
  return !graph_.busy();
}

void ActionRunner::step() {
  if (finished_) return;
  Status status;
  int line = 0;
  if (waiting_) {
    if (!idle()) return;
    waiting_ = false;
    line = actions_[at_].line;
    if (check_) status = check_();
    check_ = nullptr;
    ++at_;
  }
  if (status && at_ < actions_.size()) {
    const Action& action = actions_[at_];
    line = action.line;
    waiting_ = true;
    waits_for_run_ = action.name == "run" || action.name == "wait";
    const std::shared_ptr<bool> alive = alive_;
    status = begin(action);
    if (!*alive) return;  // it closed the window
    if (status) return poke();
  }
  if (status && at_ < actions_.size()) return;
  finished_ = true;
  std::optional<Error> error;
  if (!status) {
    error = status.error();
    error->notes.insert(error->notes.begin(), strf("line %d: %s", line, actions_[at_ < actions_.size() && actions_[at_].line == line ? at_ : at_ - 1].text.c_str()));
    error->outcome = Outcome::kNo;
  }
  done_(std::move(error));
}

Status ActionRunner::begin(const Action& action) {
  const std::string& name = action.name;
  const std::vector<std::string>& words = action.words;
  const auto failure = [](const std::optional<Error>& error) -> Status {
    if (error) return *error;
    return {};
  };
  if (name == "open") {
    workspace_.open(words[0]);
    check_ = [this, model = workspace_.model(), trace = workspace_.trace(), failure]() -> Status {
      if (workspace_.model() != model || workspace_.trace() != trace) return {};
      return failure(workspace_.openError());
    };
  } else if (name == "beside") {
    if (!workspace_.trace()) return usage("beside: no trace is open");
    workspace_.openTracesBeside(words);
    check_ = [this, before = workspace_.traceBeside(), file = words[0]]() -> Status {
      if (workspace_.traceBeside() != before) return {};
      return usage("beside: " + file + " could not be read: " + workspace_.logEntries().back().message);
    };
  } else if (name == "set") {
    SP_TRY(workspace_.set(words[0], words[1]));
    check_ = [this, failure] { return failure(workspace_.compileError() ? workspace_.compileError() : workspace_.openError()); };
  } else if (name == "compile" || name == "verify" || name == "run" || name == "start-run") {
    if (!workspace_.model()) return usage(name + ": no model is open");
    if (name == "compile") {
      workspace_.compile();
      check_ = [this, failure] { return failure(workspace_.compileError()); };
    } else if (name == "verify") {
      workspace_.verify();
      check_ = [this]() -> Status {
        if (workspace_.verifyError()) return *workspace_.verifyError();
        if (workspace_.verified() && workspace_.verified()->equal) return {};
        return usage("verify: loss or gradients differ from the unsharded graph's");
      };
    } else {
      workspace_.run();
      if (name == "run") check_ = [this, failure] { return failure(workspace_.runProgress().error ? workspace_.runProgress().error : workspace_.traceError()); };
    }
  } else if (name == "values") {
    if (!workspace_.compiled() || workspace_.selection().node == ir::kNone) return usage("values: compile, and select a node");
    workspace_.readValues(workspace_.selection().node);
    check_ = [this, failure] { return failure(workspace_.valuesError()); };
  } else if (name == "debug") {
    if (!workspace_.model()) return usage("debug: no model is open");
    DebugSession& debug = workspace_.debug();
    if (words.empty()) {
      debug.start();
      check_ = [&debug, failure] { return failure(debug.startError()); };
    } else {
      debug.send(debugLine(action));
      check_ = [&debug, failure] { return failure(debug.lastError()); };
    }
  } else if (name == "end-debug") {
    workspace_.debug().end();
  } else if (name == "pause") {
    workspace_.debug().pause();
  } else if (name == "stop") {
    workspace_.stop(words[0]);
  } else if (name == "stage" || name == "diff") {
    std::vector<int> stages;
    for (const std::string& word : words) {
      stages.push_back(stageNamed(workspace_, word));
      if (stages.back() >= 0) continue;
      std::vector<std::string> names;
      for (const Workspace::Stage& s : workspace_.stages()) names.push_back(s.name);
      return usage("there is no stage " + word, join(names, ", "));
    }
    workspace_.showStages(stages.back(), name == "diff" ? stages.front() : workspace_.comparedWith());
  } else if (name == "undiff") {
    workspace_.compareWith(-1);
  } else if (name == "select") {
    SP_ASSIGN(Selection s, selectionNamed(graph_, words[0]));
    s.rank = workspace_.selection().rank;
    workspace_.select(s);
  } else if (name == "back") {
    workspace_.back();
  } else if (name == "forward") {
    workspace_.forward();
  } else if (name == "event") {
    const auto n = numberIn<int>(words[0]);
    if (!workspace_.trace()) return usage("event: no trace is open");
    const auto events = static_cast<std::int64_t>(workspace_.trace()->trace.events.size());
    if (!n || *n < 0 || *n >= events) return usage("event: " + words[0] + strf(" is no event of the trace: it has 0 to %lld", static_cast<long long>(events - 1)));
    workspace_.selectEvent(*n);
  } else if (name == "expand" || name == "collapse") {
    const bool open = name == "expand";
    if (words[0] == "all") {
      if (open) graph_.openAll(0, 100);
      else graph_.closeAll();
    } else {
      SP_ASSIGN(const ModuleIndex m, moduleNamed(graph_, words[0]));
      graph_.setOpen(m, open);
    }
  } else if (name == "colour") {
    const auto by = colouringNamed(words[0]);
    if (!by) return usage("there is no colouring " + words[0], join(colourings(), ", "));
    graph_.setColourBy(*by);
  } else if (name == "fit") {
    if (!words.empty()) {
      SP_ASSIGN(const Selection s, selectionNamed(graph_, words[0]));
      workspace_.select(s);
    }
    return view_.fit(!words.empty());
  } else if (name == "search") {
    return view_.search(join(words, " "));
  } else if (name == "theme") {
    if (words[0] != "dark" && words[0] != "light") return usage("theme " + words[0] + " is unknown", "dark, light");
    return view_.setTheme(words[0] == "dark");
  } else if (name == "size") {
    const auto width = numberIn<int>(words[0]), height = numberIn<int>(words[1]);
    if (!width || !height || *width < 200 || *height < 200 || *width > 16384 || *height > 16384) return usage("size takes two numbers from 200 to 16384");
    return view_.resizeTo(*width, *height);
  } else if (name == "panel") {
    return view_.showPanel(words[0]);
  } else if (name == "curve") {
    return view_.showCurve(words[0]);
  } else if (name == "plan") {
    if (!workspace_.model()) return usage("plan: no model is open");
    SP_TRY(view_.plan(words[0], words[1], words.size() > 2 ? words[2] : "max-seq"));
    check_ = [this] { return view_.planned(); };
  } else if (name == "take") {
    SP_TRY(view_.takeRow(words[0]));
    check_ = [this, failure] { return failure(workspace_.compileError() ? workspace_.compileError() : workspace_.openError()); };
  } else if (name == "screenshot") {
    return view_.screenshot(words[0]);
  } else if (name == "export") {
    return view_.exportGraph(words[0]);
  } else if (name == "close") {
    view_.closeWindow();
  }
  return {};
}

}  // namespace spscope::ui
