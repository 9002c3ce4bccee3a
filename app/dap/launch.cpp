// SPDX-License-Identifier: Apache-2.0
#include "app/dap/launch.h"

#include <algorithm>
#include <filesystem>

#include "core/base/strings.h"

namespace spscope::app::dap {
namespace {

/// What editors put among the arguments for themselves, or for adapters in general.
constexpr std::string_view kOfClients[] = {"type",  "request", "name",    "noDebug", "restart", "env",  "args", "console", "internalConsoleOptions", "preLaunchTask", "postDebugTask",
                                           "debugServer", "presentation", "serverReadyAction", "suppressMultipleSessionWarning", "linux", "osx", "windows", "order"};

/// "seedWeights" is "--seed-weights".
std::string flagOf(const std::string& key) {
  std::string out = "--";
  for (const char c : key) {
    if (c >= 'A' && c <= 'Z') out += std::string("-") + static_cast<char>(c - 'A' + 'a');
    else out += c == '_' ? '-' : c;
  }
  return out;
}

/// A value as it is typed behind its flag; nullopt: there is no such form.
std::optional<std::string> typed(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number_integer()) return value.dump();
  if (value.is_number_float()) return formatDouble(value.get<double>());  // 64.0 is 64
  if (!value.is_array()) return {};
  std::vector<std::string> parts;
  for (const Json& entry : value) {
    if (entry.is_array() || entry.is_object() || entry.is_null()) return {};
    parts.push_back(*typed(entry));
  }
  return join(parts, ",");
}

}  // namespace

Result<Launch> readLaunch(const Fields& arguments, const DebugFlags& defaults) {
  Launch out;
  out.flags = defaults;
  SP_ASSIGN(out.stop_on_entry, arguments.flag("stopOnEntry", false));
  SP_ASSIGN(out.folders, arguments.texts("sourceFolders"));
  SP_ASSIGN(const std::string cwd, arguments.text("cwd", ""));
  if (!cwd.empty()) {
    std::error_code failed;
    std::filesystem::current_path(cwd, failed);
    if (failed) return makeError("dap-argument", "launch: cwd: " + cwd + ": " + failed.message(), Outcome::kUsage);
  }
  SP_ASSIGN(out.flags.model.path, arguments.text("program", defaults.model.path));
  if (out.flags.model.path.empty()) return makeError("dap-argument", "launch: program is missing: the .pt2 file of the model", Outcome::kUsage);

  CLI::App app;
  out.flags.declare(app);
  app.get_option("MODEL")->required(false);
  std::vector<std::string> known{"program", "stopOnEntry", "sourceFolders", "cwd"}, words;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back(name);
  for (const auto& [key, value] : arguments.json().items()) {
    if (value.is_null() || key.starts_with("__") || std::find(std::begin(kOfClients), std::end(kOfClients), key) != std::end(kOfClients)) continue;
    if (std::find(known.begin(), known.begin() + 4, key) != known.begin() + 4) continue;
    const std::string flag = flagOf(key);
    const CLI::Option* const option = key == "help" ? nullptr : app.get_option_no_throw(flag);
    if (option == nullptr) {
      const std::string near = nearest(flag.substr(2), known);
      out.unknown.push_back(key + (near.empty() ? "" : " (is " + near + " meant?)"));
      continue;
    }
    const auto text = typed(value);
    if (!text) return makeError("dap-argument", "launch: " + key + " is neither a text, a number, true, false nor a list of them", Outcome::kUsage);
    words.push_back(flag + "=" + *text);
  }
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& e) {
    return makeError("usage", std::string("launch: ") + e.what(), Outcome::kUsage);
  }
  return out;
}

}  // namespace spscope::app::dap
