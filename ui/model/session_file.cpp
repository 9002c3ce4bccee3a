// SPDX-License-Identifier: Apache-2.0
#include "ui/model/session_file.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/base/new_file.h"
#include "core/base/strings.h"
#include "ui/model/actions.h"
#include "ui/model/settings_model.h"

namespace spscope::ui {
namespace {

constexpr std::size_t kRecentKept = 10;
constexpr const char* kHeader = "spscope session 1";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') out += "\\\\";
    else if (c == '\n') out += "\\n";
    else if (c == '\t') out += "\\t";
    else out += c;
  }
  return out;
}

std::string unescaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    ++i;
    out += text[i] == 'n' ? '\n' : text[i] == 't' ? '\t' : text[i];
  }
  return out;
}

}  // namespace

std::string sessionPath() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  if (config != nullptr && *config == '/') return std::string(config) + "/spscope/session";
  if (home != nullptr && *home != '\0') return std::string(home) + "/.config/spscope/session";
  return {};
}

Status saveSession(const std::string& path, const SessionState& state) {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  SP_ASSIGN(NewFile file, NewFile::at(path));
  {
    std::ofstream out(file.temporary(), std::ios::trunc);
    const auto line = [&](const char* key, const std::string& value) {
      if (!value.empty()) out << key << '\t' << escaped(value) << '\n';
    };
    out << kHeader << '\n';
    line("file", state.file);
    for (const std::string& r : state.recent) line("recent", r);
    for (const auto& [name, value] : state.settings) out << "set\t" << name << '\t' << escaped(value) << '\n';
    line("stage", state.stage);
    line("compared", state.compared);
    for (const std::string& m : state.open_modules) line("open", m);
    line("node", state.selected_node);
    line("module", state.selected_module);
    line("colour", state.colour);
    for (const DebugSession::Kept& b : state.breakpoints) out << (b.enabled ? "break\t" : "break-off\t") << escaped(b.file) << '\t' << escaped(b.text) << '\n';
    line("theme", state.dark ? "dark" : "light");
    line("geometry", state.geometry);
    line("layout", state.layout);
    out.flush();
    if (!out) return makeError("file-unwritable", "the session could not be written to " + path, Outcome::kNo);
  }
  return file.commit();
}

SessionState loadSession(const std::string& path) {
  SessionState state;
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line) || line != kHeader) return state;
  while (std::getline(in, line)) {
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos) continue;
    const std::string key = line.substr(0, tab), raw = line.substr(tab + 1), value = unescaped(raw);
    if (key == "file") state.file = value;
    else if (key == "recent") state.recent.push_back(value);
    else if (key == "stage") state.stage = value;
    else if (key == "compared") state.compared = value;
    else if (key == "open") state.open_modules.push_back(value);
    else if (key == "node") state.selected_node = value;
    else if (key == "module") state.selected_module = value;
    else if (key == "colour") state.colour = value;
    else if (key == "theme") state.dark = value != "light";
    else if (key == "geometry") state.geometry = value;
    else if (key == "layout") state.layout = value;
    else if (const std::size_t second = raw.find('\t'); second != std::string::npos) {
      const std::string first = raw.substr(0, second), rest = unescaped(raw.substr(second + 1));
      if (key == "set") state.settings.emplace_back(first, rest);
      if (key == "break" || key == "break-off") state.breakpoints.push_back({unescaped(first), rest, key == "break"});
    }
  }
  if (state.recent.size() > kRecentKept) state.recent.resize(kRecentKept);
  return state;
}

void addRecent(SessionState& state, const std::string& path) {
  std::erase(state.recent, path);
  state.recent.insert(state.recent.begin(), path);
  if (state.recent.size() > kRecentKept) state.recent.resize(kRecentKept);
}

void captureSession(const Workspace& workspace, const GraphDocument& graph, SessionState& state) {
  state.file = workspace.model() ? workspace.settings().open.path : std::string();
  state.settings.clear();
  const WorkspaceSettings defaults;
  for (const SettingInfo& info : settingInfos())
    if (const std::string text = settingText(workspace.settings(), info.name); text != settingText(defaults, info.name)) state.settings.emplace_back(info.name, text);
  const auto name = [&](int stage) { return stage >= 0 && stage < static_cast<int>(workspace.stages().size()) ? workspace.stages()[static_cast<std::size_t>(stage)].name : std::string(); };
  state.stage = workspace.model() ? name(workspace.stage()) : std::string();
  state.compared = name(workspace.comparedWith());
  state.open_modules = graph.openPaths();
  state.breakpoints = workspace.debug().keptBreakpoints();
  std::erase_if(state.breakpoints, [&](const DebugSession::Kept& b) { return b.file != state.file && std::find(state.recent.begin(), state.recent.end(), b.file) == state.recent.end(); });
  state.colour = colourings()[static_cast<std::size_t>(graph.colourBy())];
  const Selection& s = workspace.selection();
  state.selected_module = s.module;
  state.selected_node.clear();
  const auto shown = workspace.graph();
  if (shown && s.node != ir::kNone && static_cast<std::size_t>(s.node) < shown->nodeCount()) state.selected_node = shown->node(s.node).name;
}

void beginRestore(Workspace& workspace, GraphDocument& graph, const SessionState& state) {
  for (const auto& [name, value] : state.settings)
    if (Status set = workspace.set(name, value); !set) workspace.log({Severity::kWarning, "session", set.error().code, set.error().message, {}, {}, {}});
  workspace.debug().restoreBreakpoints(state.breakpoints);
  if (const auto by = colouringNamed(state.colour)) graph.setColourBy(*by);
  if (state.file.empty()) return;
  if (!state.open_modules.empty()) graph.setOpenPaths(state.open_modules);
  workspace.open(state.file);
}

bool finishRestore(Workspace& workspace, GraphDocument& graph, const SessionState& state) {
  if (!workspace.model()) return !workspace.jobs().busy("open");
  if (state.stage != "import" && !state.stage.empty() && !workspace.compiled() && !workspace.compileError()) {
    if (!workspace.jobs().busy("compile")) workspace.compile();
    return false;
  }
  if (const int stage = stageNamed(workspace, state.stage); !state.stage.empty() && stage >= 0) workspace.showStage(stage);
  if (const int stage = stageNamed(workspace, state.compared); !state.compared.empty() && stage >= 0) workspace.compareWith(stage);
  if (graph.busy() || !graph.scene()) return false;
  const std::string& selected = state.selected_node.empty() ? state.selected_module : state.selected_node;
  if (!selected.empty())
    if (const auto s = selectionNamed(graph, selected)) workspace.select(*s);
  return true;
}

}  // namespace spscope::ui
