// SPDX-License-Identifier: Apache-2.0
#include "app/dap/sources.h"

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "core/base/strings.h"
#include "core/ir/python_stack.h"
#include "core/ir/text.h"

namespace spscope::app::dap {
namespace {

namespace fs = std::filesystem;

std::string baseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Of "/a/b/c.py", from the longest: "a/b/c.py", "b/c.py", "c.py".
std::string findHere(const std::string& recorded, const std::vector<std::string>& folders) {
  std::error_code failed;
  if (fs::is_regular_file(recorded, failed)) return recorded;
  for (std::size_t at = recorded.find('/'); at != std::string::npos; at = recorded.find('/', at + 1))
    for (const std::string& folder : folders)
      if (const fs::path here = fs::path(folder) / recorded.substr(at + 1); fs::is_regular_file(here, failed)) return fs::absolute(here, failed).lexically_normal();
  return {};
}

std::size_t commonEnd(const std::string& a, const std::string& b) {
  std::size_t n = 0;
  while (n < a.size() && n < b.size() && a[a.size() - 1 - n] == b[b.size() - 1 - n]) ++n;
  return n;
}

}  // namespace

Sources::Sources(const session::debug::Debugger& debugger, const std::string& model, std::vector<std::string> folders) {
  if (folders.empty()) folders = {"."};
  std::map<std::string, std::set<std::int64_t>> lines;
  std::unordered_set<const ir::Location*> seen;
  for (int r = 0; r < debugger.ranks(); ++r) {
    const ir::Graph& graph = debugger.graph(r);
    const auto known = std::find_if(programs_.begin(), programs_.end(), [&](const Program& p) { return p.graph == &graph; });
    program_of_.push_back(static_cast<std::size_t>(known - programs_.begin()));
    if (known != programs_.end()) {
      known->ranks.push_back(r);
      continue;
    }
    Program p;
    p.reference = static_cast<int>(programs_.size()) + 1;
    p.name = fs::path(model).stem().string() + strf(".rank%d.graph", r);
    p.text = ir::printGraph(graph);
    p.ranks = {r};
    p.graph = &graph;
    p.first = 3 + static_cast<int>(graph.inputs.size());  // behind the version, the head and the inputs, a line each
    for (const ir::NodeId id : graph.order) {
      const ir::LocationRef& location = graph.node(id).location;
      if (!location || !seen.insert(location.get()).second) continue;
      for (const ir::PythonFrame& f : ir::framesOf(location->stack)) lines[std::string(f.file)].insert(f.line);
    }
    programs_.push_back(std::move(p));
  }
  for (auto& [path, at] : lines) files_.push_back({path, findHere(path, folders), std::move(at)});
}

std::optional<std::size_t> Sources::Program::placeAt(std::int64_t line) const {
  const std::int64_t place = std::max<std::int64_t>(0, line - first);
  if (place >= static_cast<std::int64_t>(graph->order.size())) return {};
  return static_cast<std::size_t>(place);
}

const Sources::Program* Sources::program(std::int64_t reference, const std::string& name) const {
  for (const Program& p : programs_)
    if (reference > 0 ? p.reference == reference : name == p.name || name.ends_with("/" + p.name)) return &p;
  return nullptr;
}

const Sources::PythonFile* Sources::file(const std::string& path) const {
  const PythonFile* best = nullptr;
  std::size_t longest = 0;
  for (const PythonFile& f : files_) {
    if (path == f.local || path == f.recorded) return &f;
    std::error_code failed;
    if (!f.local.empty() && fs::equivalent(path, f.local, failed)) return &f;
    if (baseName(path) != baseName(f.recorded)) continue;
    if (const std::size_t n = commonEnd(path, f.recorded); n > longest) longest = n, best = &f;
  }
  return best;
}

const Sources::PythonFile* Sources::recordedFile(std::string_view recorded) const {
  for (const PythonFile& f : files_)
    if (f.recorded == recorded) return &f;
  return nullptr;
}

Json Sources::sourceOf(const Program& program) {
  std::vector<std::string> ranks;
  for (const int r : program.ranks) ranks.push_back(std::to_string(r));
  return {{"name", program.name}, {"sourceReference", program.reference}, {"origin", "the program of rank " + join(ranks, ", ")}};
}

Json Sources::sourceOf(const PythonFile& file) {
  Json out = {{"name", baseName(file.recorded)}, {"path", file.shown()}};
  if (file.local.empty()) {
    out["presentationHint"] = "deemphasize";
    out["origin"] = "not found here: see sourceFolders";
  }
  return out;
}

}  // namespace spscope::app::dap
