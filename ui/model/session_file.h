// SPDX-License-Identifier: Apache-2.0
// What the window remembers from one start to the next: the file, settings, stage, open modules, selection, breakpoints, theme and layout. A
// text file of "key<TAB>value" lines that appears whole or not at all; lines that are not understood are skipped.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "ui/model/debug/debug_session.h"
#include "ui/model/graph_document.h"
#include "ui/model/workspace.h"

namespace spscope::ui {

struct SessionState {
  std::string file;                        ///< the model; "": none
  std::vector<std::string> recent;         ///< newest first, at most 10
  std::vector<std::pair<std::string, std::string>> settings;
  std::string stage, compared;
  std::vector<std::string> open_modules;
  std::string selected_node, selected_module;
  std::string colour;
  std::vector<DebugSession::Kept> breakpoints;  ///< of the files of `recent`
  bool dark = true;
  std::string geometry, layout;            ///< of the window, opaque
  friend bool operator==(const SessionState&, const SessionState&) = default;
};

/// $XDG_CONFIG_HOME/spscope/session, else $HOME/.config/spscope/session; "" where there is neither.
std::string sessionPath();
/// Makes the folder. Errors: file-unwritable.
Status saveSession(const std::string& path, const SessionState& state);
/// A missing or damaged file is an empty state.
SessionState loadSession(const std::string& path);

/// What is remembered of workspace and graph; the window adds theme, geometry, layout, recent.
void captureSession(const Workspace& workspace, const GraphDocument& graph, SessionState& state);
/// Settings now; the file is opened, and what needs it is done by finishRestore() once it is there.
void beginRestore(Workspace& workspace, GraphDocument& graph, const SessionState& state);
/// Stage, comparison and selection, as far as they exist. True when there is nothing left to restore.
bool finishRestore(Workspace& workspace, GraphDocument& graph, const SessionState& state);
void addRecent(SessionState& state, const std::string& path);

}  // namespace spscope::ui
