// SPDX-License-Identifier: Apache-2.0
#include "core/session/stage.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/hash.h"
#include "core/base/strings.h"
#include "core/io/archive.h"
#include "core/session/text_model.h"

namespace spscope::session {

namespace fs = std::filesystem;

Result<std::string> fileHash(const std::string& path) {
  SP_ASSIGN(const auto archive, io::Archive::open(path));
  Hasher hasher;
  hasher.number(static_cast<std::int64_t>(archive->entries().size()));
  for (const io::ArchiveEntry& e : archive->entries()) {
    hasher.text(e.name);
    hasher.number(static_cast<std::int64_t>(e.size));
    hasher.number(e.crc);
  }
  return hasher.hex();
}

Result<std::vector<std::string>> writeStages(const Model& model, const passes::Settings& settings,
                                             const passes::Compiled& compiled, const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  const auto unwritable = [&](const std::string& path, const std::string& why) {
    return makeError("file-unwritable", path + ": " + why, Outcome::kNo);
  };
  if (failed) return unwritable(folder, failed.message());
  SP_ASSIGN(const std::string hash, fileHash(model.path));
  std::vector<std::string> written;
  for (std::size_t i = 0; i < compiled.stages.size(); ++i) {
    const passes::StageRecord& stage = compiled.stages[i];
    if (!stage.graph) continue;
    ir::TextHeader header;
    header.set("stage", stage.name);
    header.set("source", fs::absolute(model.path).lexically_normal().string());
    header.set("source-hash", hash);
    header.set("source-graph", model.imported->graph_name);
    header.set("seq", std::to_string(model.imported->seq));
    header.set("batch", std::to_string(model.imported->batch));
    if (model.converted_to) header.set("dtype", std::string(ir::longName(*model.converted_to)));
    header.set("sp", std::to_string(settings.sp));
    header.set("dp", std::to_string(settings.dp));
    header.set("plan-hash", compiled.plan_hash);
    const std::string path = (fs::path(folder) / strf("%02zu-%s.txt", i, stage.name.c_str())).string();
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << ir::printGraph(*stage.graph, header);
    out.close();
    if (!out) return unwritable(path, "writing failed");
    written.push_back(path);
  }
  return written;
}

Result<std::optional<ir::GraphText>> readStage(const std::string& path) {
  std::error_code failed;
  if (!fs::is_regular_file(path, failed)) return std::optional<ir::GraphText>();  // whoever opens it as a model says why not
  std::ifstream in(path, std::ios::binary);
  char head[64] = {};
  in.read(head, sizeof head);
  if (!ir::isGraphText(std::string_view(head, static_cast<std::size_t>(in.gcount())))) return std::optional<ir::GraphText>();
  in.clear();
  in.seekg(0);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return makeError("file-unreadable", path + ": reading failed");
  SP_ASSIGN(ir::GraphText parsed, ir::parseGraphText(text.str(), path));
  return std::optional(std::move(parsed));
}

Result<OpenRequest> resolveStage(const OpenRequest& what) {
  SP_ASSIGN(const auto stage, readStage(what.path));
  if (!stage || isTextModel(stage->header)) return what;  // a model by itself
  const auto entry = [&](std::string_view key) {
    const std::string* value = stage->header.find(key);
    return value ? *value : std::string();
  };
  const std::string source = entry("source"), hash = entry("source-hash");
  if (source.empty() || hash.empty())
    return makeError("stage-source", what.path + " is a graph whose header names no model to run it with");
  const auto found = fileHash(source);
  if (!found) {
    Error error = makeError("stage-source", "the model " + source + " that " + what.path + " came from cannot be opened");
    error.notes.push_back(found.error().message);
    return error;
  }
  if (*found != hash)
    return makeError("stage-source", "the model " + source + " has changed since " + what.path + " was written");
  OpenRequest out = what;
  out.path = source;
  const auto number = [&](std::string_view key) {
    const std::string text = entry(key);
    std::int64_t n = 0;
    std::from_chars(text.data(), text.data() + text.size(), n);
    return n;
  };
  if (out.graph_name.empty()) out.graph_name = entry("source-graph");
  if (out.seq == 0) out.seq = number("seq");
  if (out.batch == 0) out.batch = number("batch");
  if (!out.dtype && !entry("dtype").empty()) out.dtype = ir::parseDType(entry("dtype"));
  return out;
}

}  // namespace spscope::session
