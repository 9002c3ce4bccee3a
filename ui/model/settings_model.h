// SPDX-License-Identifier: Apache-2.0
// The settings by name, as the command's flags spell them: what each means, its value as text, how a text becomes its
// value, and which values are legal for the opened model, each illegal one with the reason.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/session/model.h"

namespace spscope::ui {

struct WorkspaceSettings;

struct SettingInfo {
  std::string name;                 ///< "sp", "seq", "save", ...
  std::string label, tooltip;
  std::vector<std::string> choices; ///< offered; others may be typed where `free`
  bool free = false;
  bool reopens = false;             ///< changes the graph itself: the model is opened again
  bool recompiles = false;          ///< changes the program
};
const std::vector<SettingInfo>& settingInfos();
const SettingInfo* findSetting(const std::string& name);

/// Those that are seldom changed and stand behind a button, in order.
const std::vector<std::string>& furtherSettings();
/// Of these the ones that are not at their default, as "ZeRO 1".
std::vector<std::string> changedSettings(const WorkspaceSettings& settings, const std::vector<std::string>& names);

std::string settingText(const WorkspaceSettings& settings, const std::string& name);
/// Errors: usage (no such name, or a text that is none of its values; `legal` names them).
Status changeSetting(WorkspaceSettings& settings, const std::string& name, const std::string& text);

struct ChoiceState {
  std::string value;
  bool legal = true;
  std::string reason;  ///< why not
};
/// The choices of a setting for this model (may be null: nothing is known against any).
std::vector<ChoiceState> choicesFor(const session::Model* model, const WorkspaceSettings& settings, const std::string& name);

}  // namespace spscope::ui
