// SPDX-License-Identifier: Apache-2.0
#include "ui/model/settings_model.h"

#include <functional>

#include "core/base/numbers.h"
#include "core/base/strings.h"
#include "core/session/compile.h"
#include "core/session/rule_file.h"
#include "passes/sequence/shard_batch.h"
#include "ui/model/workspace.h"

namespace spscope::ui {
namespace {

using Settings = WorkspaceSettings;

struct Row {
  SettingInfo info;
  std::function<std::string(const Settings&)> get;
  std::function<bool(Settings&, const std::string&)> set;  ///< false: no such value
};

bool oneOf(const std::string& text, const std::vector<std::string>& values) {
  for (const std::string& v : values)
    if (v == text) return true;
  return false;
}

/// Empty and "file" stand for the file's own length.
bool parseLength(const std::string& text, std::int64_t& out) {
  if (text.empty() || text == "file") return out = 0, true;
  return readNumber<std::int64_t>(text, out, 1, std::int64_t{1} << 40);
}
std::string lengthText(std::int64_t n) { return n == 0 ? "file" : std::to_string(n); }

bool parseBytes(const std::string& text, std::int64_t& out) {
  double gib = 0;
  if (text.empty() || text == "none") return out = 0, true;
  if (!readNumber<double>(text, gib, 0.0, 1e6)) return false;
  out = static_cast<std::int64_t>(gib * 1073741824.0);
  return true;
}

bool parseSwitch(const std::string& text, bool& out) {
  if (!oneOf(text, {"on", "off"})) return false;
  out = text == "on";
  return true;
}

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {{"sp", "SP", "Ranks that share the sequence", {"1", "2", "3", "4", "8", "16"}, true, false, true},
       [](const Settings& s) { return std::to_string(s.compile.sp); },
       [](Settings& s, const std::string& t) { return readNumber(t, s.compile.sp, 1, 4096); }},
      {{"dp", "DP", "Replicas that share the rows of a batch", {"1", "2", "4"}, true, false, true},
       [](const Settings& s) { return std::to_string(s.compile.dp); },
       [](Settings& s, const std::string& t) { return readNumber(t, s.compile.dp, 1, 4096); }},
      {{"seq", "S", "Tokens of the whole sequence", {"file"}, true, true, true},
       [](const Settings& s) { return lengthText(s.open.seq); },
       [](Settings& s, const std::string& t) { return parseLength(t, s.open.seq) && (s.compile.seq = s.open.seq, true); }},
      {{"batch", "B", "Sequences of a batch", {"file"}, true, true, true},
       [](const Settings& s) { return lengthText(s.open.batch); },
       [](Settings& s, const std::string& t) { return parseLength(t, s.open.batch) && (s.compile.batch = s.open.batch, true); }},
      {{"dtype", "Precision", "What the graph computes in", {"file", "float32", "bfloat16", "float64"}, false, true, true},
       [](const Settings& s) { return s.open.dtype ? std::string(ir::longName(*s.open.dtype)) : "file"; },
       [](Settings& s, const std::string& t) {
         if (t == "file") return s.open.dtype.reset(), true;
         if (!oneOf(t, {"float32", "bfloat16", "float64"})) return false;
         s.open.dtype = ir::parseDType(t);
         return true;
       }},
      {{"save", "Memory", "What is kept for the backward: all, sac, min-cut, layer-inputs, or budget=F with F from 0 to 1", {"sac", "all", "min-cut", "layer-inputs", "budget=0.5"}, true, false, true},
       [](const Settings& s) { return s.compile.save; },
       [](Settings& s, const std::string& t) {
         double f = 0;
         if (!oneOf(t, {"sac", "all", "min-cut", "layer-inputs"}) && !(t.starts_with("budget=") && readNumber(t.substr(7), f, 0.0, 1.0))) return false;
         s.compile.save = t;
         return true;
       }},
      {{"device", "Device", "Whose attention kernel is chosen", {"cpu", "cuda"}, false, false, true},
       [](const Settings& s) { return s.compile.device; },
       [](Settings& s, const std::string& t) { return oneOf(t, {"cpu", "cuda"}) && (s.compile.device = t, true); }},
      {{"optimizer", "Optimizer", "What the step ends with", {"adamw", "sgd"}, false, false, true},
       [](const Settings& s) { return s.compile.optimizer; },
       [](Settings& s, const std::string& t) { return oneOf(t, {"adamw", "sgd"}) && (s.compile.optimizer = t, true); }},
      {{"zero", "ZeRO", "1: each rank keeps its block of the optimizer's states; gradients are shared out, weights gathered", {"0", "1"}, false, false, true},
       [](const Settings& s) { return std::to_string(s.compile.zero); },
       [](Settings& s, const std::string& t) { return readNumber(t, s.compile.zero, 0, 1); }},
      {{"accumulate", "Accumulate", "Batches per step of the optimizer", {"1", "2", "4", "8"}, true, false, true},
       [](const Settings& s) { return std::to_string(s.compile.accumulate); },
       [](Settings& s, const std::string& t) { return readNumber(t, s.compile.accumulate, 1, 1 << 20); }},
      {{"tile-loss", "Tile the loss", "on: head and cross entropy a block of tokens at a time; the logits never exist whole", {"off", "on"}, false, false, true},
       [](const Settings& s) { return std::string(s.compile.tile_loss ? "on" : "off"); },
       [](Settings& s, const std::string& t) { return parseSwitch(t, s.compile.tile_loss); }},
      {{"whole-masks", "Whole masks", "on: attention masks stay as the file has them, S x S elements", {"off", "on"}, false, false, true},
       [](const Settings& s) { return std::string(s.compile.read_masks ? "off" : "on"); },
       [](Settings& s, const std::string& t) {
         bool whole = false;
         return parseSwitch(t, whole) && (s.compile.read_masks = !whole, true);
       }},
      {{"master-weights", "Float32 masters", "on: 16-bit parameters are trained on float32 copies, with float32 states", {"on", "off"}, false, false, true},
       [](const Settings& s) { return std::string(s.compile.master_weights ? "on" : "off"); },
       [](Settings& s, const std::string& t) { return parseSwitch(t, s.compile.master_weights); }},
      {{"grad-dtype", "Gradients", "In what gradients of 16-bit parameters are summed over the ranks; param: in their own type", {"float32", "param"}, false, false, true},
       [](const Settings& s) { return std::string(s.compile.wide_gradients ? "float32" : "param"); },
       [](Settings& s, const std::string& t) { return oneOf(t, {"float32", "param"}) && (s.compile.wide_gradients = t == "float32", true); }},
      {{"rules", "Rules", "A TOML file: how ops of other libraries may be cut, and what they compute; empty: none", {}, true, false, true},
       [](const Settings& s) { return s.compile.rules ? s.compile.rules->path : std::string(); },
       [](Settings& s, const std::string& t) { return t.empty() && (s.compile.rules.reset(), true); }},  // a file: changeSetting
      {{"shrink", "Reduced twin", "on: Verify proves a reduced twin with the same plan, where the step is too large to run here", {"off", "on"}, false, false, false},
       [](const Settings& s) { return std::string(s.shrink ? "on" : "off"); },
       [](Settings& s, const std::string& t) { return parseSwitch(t, s.shrink); }},
      {{"communication", "Communication", "overlap: fused and behind compute; fused: together, but waited for at once; plain: one by one", {"overlap", "fused", "plain"}, false, false, true},
       [](const Settings& s) { return s.compile.communication; },
       [](Settings& s, const std::string& t) { return oneOf(t, {"overlap", "fused", "plain"}) && (s.compile.communication = t, true); }},
      {{"memory-limit", "Limit", "GiB that one rank may use; a line in the memory panel", {"none", "24", "40", "80", "141"}, true, false, false},
       [](const Settings& s) { return s.memory_limit_bytes == 0 ? std::string("none") : strf("%.6g", static_cast<double>(s.memory_limit_bytes) / 1073741824.0); },
       [](Settings& s, const std::string& t) { return parseBytes(t, s.memory_limit_bytes); }},
      {{"ranks", "Ranks", "gloo: processes on the CPU; virtual: all in this process", {"gloo", "virtual", "nccl"}, false, false, false},
       [](const Settings& s) { return s.run.ranks; },
       [](Settings& s, const std::string& t) { return oneOf(t, {"gloo", "virtual", "nccl"}) && (s.run.ranks = t, true); }},
      {{"steps", "Steps", "Training steps of a run", {"1", "3", "10"}, true, false, false},
       [](const Settings& s) { return std::to_string(s.run.steps); },
       [](Settings& s, const std::string& t) { return readNumber<std::int64_t>(t, s.run.steps, 1, std::int64_t{1} << 40); }},
      {{"lr", "Learning rate", "Of the optimizer", {"0.001"}, true, false, false},
       [](const Settings& s) { return formatDouble(s.run.lr); },
       [](Settings& s, const std::string& t) { return readNumber(t, s.run.lr, 0.0, 1e9); }},
      {{"clip", "Clip", "Largest global norm of the gradients; 0: none", {"0", "1"}, true, false, false},
       [](const Settings& s) { return formatDouble(s.run.clip); },
       [](Settings& s, const std::string& t) { return readNumber(t, s.run.clip, 0.0, 1e9); }},
      {{"profile", "Profile", "Where a run is recorded; empty: it is not", {}, true, false, false},
       [](const Settings& s) { return s.run.profile.file; },
       [](Settings& s, const std::string& t) { return s.run.profile.file = t, true; }},
      {{"seed", "Seed", "Of ids and labels", {"0"}, true, false, false},
       [](const Settings& s) { return std::to_string(s.data.seed); },
       [](Settings& s, const std::string& t) { return readNumber<std::uint64_t>(t, s.data.seed, 0, ~std::uint64_t{0} >> 1); }},
      {{"seed-weights", "Seed of weights", "Random weights in place of the file's", {"file", "0"}, true, false, false},
       [](const Settings& s) { return s.data.seed_weights ? std::to_string(*s.data.seed_weights) : "file"; },
       [](Settings& s, const std::string& t) {
         if (t == "file") return s.data.seed_weights.reset(), true;
         std::uint64_t seed = 0;
         return readNumber<std::uint64_t>(t, seed, 0, ~std::uint64_t{0} >> 1) && (s.data.seed_weights = seed, true);
       }},
      {{"inputs", "Batches", "A safetensors file with the graph's inputs; empty: seeded ids and labels", {}, true, false, false},
       [](const Settings& s) { return s.data.inputs.empty() ? std::string() : s.data.inputs.front(); },
       [](Settings& s, const std::string& t) { return s.data.inputs = t.empty() ? std::vector<std::string>{} : std::vector<std::string>{t}, true; }},
  };
  return all;
}

const Row* find(const std::string& name) {
  for (const Row& row : rows())
    if (row.info.name == name) return &row;
  return nullptr;
}

}  // namespace

const std::vector<SettingInfo>& settingInfos() {
  static const std::vector<SettingInfo> infos = [] {
    std::vector<SettingInfo> out;
    for (const Row& row : rows()) out.push_back(row.info);
    return out;
  }();
  return infos;
}

const SettingInfo* findSetting(const std::string& name) {
  const Row* row = find(name);
  return row == nullptr ? nullptr : &row->info;
}

const std::vector<std::string>& furtherSettings() {
  static const std::vector<std::string> names = {"batch", "dtype", "zero", "accumulate", "tile-loss", "whole-masks", "communication", "device", "master-weights", "grad-dtype", "rules", "shrink"};
  return names;
}

std::vector<std::string> changedSettings(const WorkspaceSettings& settings, const std::vector<std::string>& names) {
  std::vector<std::string> out;
  const WorkspaceSettings defaults;
  for (const std::string& name : names)
    if (const std::string text = settingText(settings, name); text != settingText(defaults, name)) out.push_back(findSetting(name)->label + " " + text);
  return out;
}

std::string settingText(const WorkspaceSettings& settings, const std::string& name) {
  const Row* row = find(name);
  return row == nullptr ? std::string() : row->get(settings);
}

Status changeSetting(WorkspaceSettings& settings, const std::string& name, const std::string& text) {
  const Row* row = find(name);
  if (row == nullptr) {
    std::vector<std::string> names;
    for (const SettingInfo& info : settingInfos()) names.push_back(info.name);
    Error error = makeError("usage", "there is no setting " + name, Outcome::kUsage);
    error.legal = join(names, ", ");
    return error;
  }
  if (name == "rules" && !text.empty()) {  // what is wrong in it is said with its place
    SP_ASSIGN(settings.compile.rules, session::readRules(text));
    return {};
  }
  if (row->set(settings, text)) return {};
  Error error = makeError("usage", name + " cannot be " + text, Outcome::kUsage);
  error.legal = join(row->info.choices, ", ");
  return error;
}

std::vector<ChoiceState> choicesFor(const session::Model* model, const WorkspaceSettings& settings, const std::string& name) {
  std::vector<ChoiceState> out;
  const SettingInfo* info = findSetting(name);
  if (info == nullptr) return out;
  for (const std::string& choice : info->choices) {
    ChoiceState state{choice, true, {}};
    WorkspaceSettings trial = settings;
    if (Status parsed = changeSetting(trial, name, choice); !parsed) {
      state.legal = false;
      state.reason = parsed.error().message;
    } else if (name == "ranks") {
      if (Status there = session::checkTransport(choice); !there) state.legal = false, state.reason = there.error().message;
    } else if (model != nullptr && info->recompiles && !info->reopens) {
      Status legal = session::checkSettings(*model, trial.compile);
      if (legal && name == "dp") legal = passes::checkBatch(*model->graph, trial.compile);
      if (!legal) state.legal = false, state.reason = legal.error().message;
    }
    out.push_back(std::move(state));
  }
  return out;
}

}  // namespace spscope::ui
