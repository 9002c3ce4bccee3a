// SPDX-License-Identifier: Apache-2.0
#include "core/session/run_wire.h"

#include <cstdlib>

#include "core/base/strings.h"
#include "core/session/rule_file.h"

namespace spscope::session {
namespace {

std::int64_t toInt(const std::string& text) { return std::strtoll(text.c_str(), nullptr, 10); }
double toDouble(const std::string& text) { return std::strtod(text.c_str(), nullptr); }
std::vector<std::string> toList(const std::string& text) { return text.empty() ? std::vector<std::string>{} : split(text, '\n'); }

std::string marksText(const std::vector<std::pair<std::string, int>>& marks) {
  std::vector<std::string> lines;
  for (const auto& [name, dim] : marks) lines.push_back(std::to_string(dim) + ":" + name);
  return join(lines, "\n");
}

std::vector<std::string> ranksText(const std::vector<int>& ranks) {
  std::vector<std::string> out;
  for (const int r : ranks) out.push_back(std::to_string(r));
  return out;
}

std::vector<std::pair<std::string, int>> marksFrom(const std::string& text) {
  std::vector<std::pair<std::string, int>> out;
  for (const std::string& line : toList(text)) {
    const auto colon = line.find(':');
    if (colon != std::string::npos) out.emplace_back(line.substr(colon + 1), static_cast<int>(toInt(line)));
  }
  return out;
}

}  // namespace

dist::Message toMessage(const RunRequest& w) {
  dist::Message m{"run", {
      {"path", w.open.path}, {"graph", w.open.graph_name}, {"seq", std::to_string(w.open.seq)},
      {"batch", std::to_string(w.open.batch)}, {"dtype", w.open.dtype ? std::string(ir::longName(*w.open.dtype)) : ""},
      {"open_marks", marksText(w.open.sequence_marks)},
      {"sp", std::to_string(w.settings.sp)}, {"dp", std::to_string(w.settings.dp)}, {"zero", std::to_string(w.settings.zero)}, {"accumulate", std::to_string(w.settings.accumulate)},
      {"masters", w.settings.master_weights ? "1" : ""}, {"wide_gradients", w.settings.wide_gradients ? "1" : ""}, {"device", w.settings.device},
      {"save", w.settings.save}, {"communication", w.settings.communication},
      {"bucket", std::to_string(w.settings.bucket_bytes)}, {"threads", std::to_string(w.settings.threads)}, {"optimizer", w.settings.optimizer},
      {"tile_loss", w.settings.tile_loss ? "1" : ""}, {"whole_masks", w.settings.read_masks ? "" : "1"},
      {"tile_bytes", std::to_string(w.settings.tile_bytes)}, {"marks", marksText(w.settings.sequence_marks)},
      {"rules_path", w.settings.rules ? w.settings.rules->path : ""}, {"rules", w.settings.rules ? w.settings.rules->text : ""}, {"settings_seq", std::to_string(w.settings.seq)},
      {"settings_batch", std::to_string(w.settings.batch)},
      {"inputs", join(w.data.inputs, "\n")}, {"seed", std::to_string(w.data.seed)},
      {"seed_weights", w.data.seed_weights ? std::to_string(*w.data.seed_weights) : ""},
      {"ranks", w.ranks}, {"steps", std::to_string(w.steps)}, {"lr", formatDouble(w.lr)}, {"clip", formatDouble(w.clip)},
      {"grads_to", w.grads_to}, {"replicated", w.allow_replicated ? "1" : ""}, {"save_to", w.save_to}, {"resume", w.resume}, {"timeout", formatDouble(w.timeout_seconds)},
      {"profile", w.profile.file}, {"profile_spools", w.profile.spools}, {"profile_first", std::to_string(w.profile.first)}, {"profile_last", std::to_string(w.profile.last)},
      {"profile_cap", std::to_string(w.profile.cap_bytes)}, {"profile_ranks", join(ranksText(w.profile.ranks), "\n")}}};
  return m;
}

Result<RunRequest> runRequestFrom(const std::string& text) {
  const auto decoded = dist::Message::decode(text);
  if (!decoded || decoded->kind != "run")
    return makeError("internal", "a rank was started without a request that it understands", Outcome::kRunFailed);
  const dist::Message& m = *decoded;
  RunRequest w;
  w.open.path = m.at("path");
  w.open.graph_name = m.at("graph");
  w.open.seq = toInt(m.at("seq"));
  w.open.batch = toInt(m.at("batch"));
  if (!m.at("dtype").empty()) w.open.dtype = ir::parseDType(m.at("dtype"));
  w.open.sequence_marks = marksFrom(m.at("open_marks"));
  w.settings.sp = static_cast<int>(toInt(m.at("sp")));
  w.settings.dp = static_cast<int>(toInt(m.at("dp")));
  w.settings.zero = static_cast<int>(toInt(m.at("zero")));
  w.settings.accumulate = static_cast<int>(toInt(m.at("accumulate")));
  w.settings.master_weights = m.at("masters") == "1";
  w.settings.wide_gradients = m.at("wide_gradients") == "1";
  w.settings.device = m.at("device");
  w.settings.save = m.at("save");
  w.settings.communication = m.at("communication");
  w.settings.bucket_bytes = toInt(m.at("bucket"));
  w.settings.threads = static_cast<int>(toInt(m.at("threads")));
  w.settings.optimizer = m.at("optimizer");
  w.settings.tile_loss = m.at("tile_loss") == "1";
  w.settings.read_masks = m.at("whole_masks").empty();
  w.settings.tile_bytes = toInt(m.at("tile_bytes"));
  w.settings.sequence_marks = marksFrom(m.at("marks"));
  if (!m.at("rules").empty()) {
    SP_ASSIGN(w.settings.rules, parseRules(m.at("rules_path"), m.at("rules")));
  }
  w.settings.seq = toInt(m.at("settings_seq"));
  w.settings.batch = toInt(m.at("settings_batch"));
  w.data.inputs = toList(m.at("inputs"));
  w.data.seed = std::strtoull(m.at("seed").c_str(), nullptr, 10);
  if (!m.at("seed_weights").empty()) w.data.seed_weights = std::strtoull(m.at("seed_weights").c_str(), nullptr, 10);
  w.ranks = m.at("ranks");
  w.steps = toInt(m.at("steps"));
  w.lr = toDouble(m.at("lr"));
  w.clip = toDouble(m.at("clip"));
  w.grads_to = m.at("grads_to");
  w.allow_replicated = m.at("replicated") == "1";
  w.save_to = m.at("save_to");
  w.resume = m.at("resume");
  w.timeout_seconds = toDouble(m.at("timeout"));
  w.profile.file = m.at("profile");
  w.profile.spools = m.at("profile_spools");
  w.profile.first = toInt(m.at("profile_first"));
  w.profile.last = toInt(m.at("profile_last"));
  w.profile.cap_bytes = toInt(m.at("profile_cap"));
  for (const std::string& r : toList(m.at("profile_ranks"))) w.profile.ranks.push_back(static_cast<int>(toInt(r)));
  return w;
}

dist::Message toMessage(const StepLine& s) {
  return {"step", {{"step", std::to_string(s.step)}, {"loss", formatDouble(s.loss)}, {"ns", std::to_string(s.ns)},
                   {"comm_ns", std::to_string(s.comm_ns)}, {"exposed_ns", std::to_string(s.exposed_comm_ns)}, {"norm", formatDouble(s.gradient_norm)}}};
}

StepLine stepFrom(const dist::Message& m) {
  return {toInt(m.at("step")), toDouble(m.at("loss")), toInt(m.at("ns")), toInt(m.at("comm_ns")), toInt(m.at("exposed_ns")), toDouble(m.at("norm"))};
}

dist::Message toMessage(const RankFigures& f) {
  return {"figures", {{"peak_bytes", std::to_string(f.peak_bytes)}, {"step_peak_bytes", std::to_string(f.step_peak_bytes)},
                      {"predicted_peak_bytes", std::to_string(f.predicted_peak_bytes)},
                      {"loss", formatDouble(f.last_loss)}, {"comm_ns", std::to_string(f.comm_ns)},
                      {"exposed_ns", std::to_string(f.exposed_comm_ns)}, {"saved_to", f.saved_to}}};
}

RankFigures figuresFrom(const dist::Message& m) {
  RankFigures f;
  f.peak_bytes = toInt(m.at("peak_bytes"));
  f.step_peak_bytes = toInt(m.at("step_peak_bytes"));
  f.predicted_peak_bytes = toInt(m.at("predicted_peak_bytes"));
  f.last_loss = toDouble(m.at("loss"));
  f.comm_ns = toInt(m.at("comm_ns"));
  f.exposed_comm_ns = toInt(m.at("exposed_ns"));
  f.saved_to = m.at("saved_to");
  return f;
}

}  // namespace spscope::session
