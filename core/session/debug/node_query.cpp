// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/node_query.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "core/base/strings.h"
#include "core/ir/python_stack.h"

namespace spscope::session::debug {
namespace {

using By = NodeQuery::By;

struct Kind {
  By by;
  std::string_view word;
  bool needs_pattern;
};
constexpr Kind kKinds[] = {{By::kAny, "any", false},        {By::kOp, "op", true},       {By::kModule, "module", true},
                           {By::kSource, "source", true},   {By::kPhase, "phase", true}, {By::kCollective, "collective", false},
                           {By::kStage, "stage", true},     {By::kLine, "line", true}};

/// Words that stand behind a query, so that an optional pattern is not one of them.
bool isKeyword(const std::string& word) { return word == "if" || word == "do" || word == "rank"; }

/// Whether the line is on the Python stack. "FILE:LINE"; FILE also without its first folders.
bool isUnder(std::string_view stack, std::string_view pattern) {
  const std::size_t colon = pattern.rfind(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view file = pattern.substr(0, colon), line = pattern.substr(colon + 1);
  const std::string folded = "*/" + std::string(file);
  for (const ir::PythonFrame& frame : ir::framesOf(stack))
    if (std::to_string(frame.line) == line && (like(frame.file, file) || like(frame.file, folded))) return true;
  return false;
}

std::string plain(std::string_view name) { return std::string(name.substr(name.starts_with('%') ? 1 : 0)); }

}  // namespace

std::string_view phaseWord(ir::Phase phase) {
  return phase == ir::Phase::kForward ? "forward" : phase == ir::Phase::kBackward ? "backward" : "recompute";
}

NodeName nameOf(const ir::Node& node, std::int64_t place) {
  NodeName out;
  out.name = node.name;
  out.op = node.op.str();
  if (node.location) out.module = node.location->module_path, out.source = node.location->source;
  out.phase = phaseWord(node.phase);
  out.place = place;
  return out;
}

std::string NodeQuery::text() const {
  if (by == By::kName) return "%" + pattern;
  for (const Kind& kind : kKinds)
    if (kind.by == by) return std::string(kind.word) + (pattern.empty() ? "" : " " + pattern);
  return pattern;
}

bool like(std::string_view text, std::string_view pattern) {
  std::size_t t = 0, p = 0, star = std::string_view::npos, from = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Result<NodeQuery> takeQuery(std::vector<std::string>& words) {
  const auto usage = [](std::string message) {
    Error error = makeError("usage", std::move(message), Outcome::kUsage);
    error.legal = "%name, op GLOB, module GLOB, source FILE:LINE, line FILE:LINE, phase forward|backward|recompute, collective [KIND], stage NAME, any";
    return error;
  };
  if (words.empty() || isKeyword(words.front())) return usage("which node is meant?");
  const std::string first = words.front();
  words.erase(words.begin());
  for (const Kind& kind : kKinds) {
    if (first != kind.word) continue;
    NodeQuery out{kind.by, {}};
    if (kind.by != By::kAny && !words.empty() && !isKeyword(words.front())) {
      out.pattern = words.front();
      words.erase(words.begin());
    }
    if (kind.needs_pattern && out.pattern.empty()) return usage(first + " needs a pattern");
    if (kind.by == By::kPhase && out.pattern != "forward" && out.pattern != "backward" && out.pattern != "recompute")
      return usage("there is no phase " + out.pattern);
    return out;
  }
  return NodeQuery{By::kName, plain(first)};
}

bool matches(const ir::Graph& graph, const ir::Node& node, const NodeQuery& query) {
  const std::string& pattern = query.pattern;
  switch (query.by) {
    case By::kAny: return true;
    case By::kName: {
      if (like(node.name, pattern)) return true;
      return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ir::ValueId v) { return v != ir::kNone && like(graph.value(v).name, pattern); });
    }
    case By::kOp: return like(node.op.str(), pattern) || like(ir::baseName(node.op), pattern);
    case By::kModule: return node.location && (like(node.location->module_path, pattern) || like(node.location->module_path, pattern + ".*"));
    case By::kSource: {
      if (!node.location) return false;
      const std::string& source = node.location->source;
      return like(source, pattern) || like(source, pattern + ":*") || like(source, "*/" + pattern);
    }
    case By::kLine: return node.location && isUnder(node.location->stack, pattern);
    case By::kPhase: return phaseWord(node.phase) == pattern;
    case By::kStage: return like(node.provenance.pass.empty() ? "import" : node.provenance.pass.str(), pattern);
    case By::kCollective: return ir::isCollective(node.op) && (pattern.empty() || like(ir::baseName(node.op), pattern) || like(ir::baseName(node.op), pattern + "_start"));
  }
  return false;
}

namespace {

/// Of nodes one behind the other in one layer and phase, the first.
void keepEntries(const ir::Graph& graph, std::vector<bool>& at) {
  const auto together = [&](std::size_t a, std::size_t b) {
    const ir::Node &x = graph.node(graph.order[a]), &y = graph.node(graph.order[b]);
    return x.phase == y.phase && ir::layerOf(x.location->module_path) == ir::layerOf(y.location->module_path);
  };
  const std::vector<bool> all = at;
  for (std::size_t i = 1; i < at.size(); ++i)
    if (all[i] && all[i - 1] && together(i - 1, i)) at[i] = false;
}

}  // namespace

Result<std::vector<bool>> placesOf(const ir::Graph& graph, const NodeQuery& query, const std::set<ir::NodeId>& also) {
  std::vector<bool> out(graph.order.size(), false);
  bool any = false;
  std::unordered_map<const ir::Location*, bool> under;  // stacks are long, and shared between nodes
  for (std::size_t i = 0; i < graph.order.size(); ++i) {
    const ir::Node& node = graph.node(graph.order[i]);
    if (query.by != By::kLine) {
      out[i] = also.contains(node.id) || matches(graph, node, query);
    } else {
      const auto [known, fresh] = under.try_emplace(node.location.get());
      if (fresh) known->second = matches(graph, node, query);
      out[i] = known->second;
    }
    any = any || out[i];
  }
  if (any && query.by == By::kLine) keepEntries(graph, out);
  if (any) return out;
  Error error = makeError("debug-no-node", "the program has no node that is " + query.text(), Outcome::kUsage);
  if (query.by == By::kCollective) {
    std::set<std::string> kinds;  // as they are typed: a start and its wait are one
    for (const ir::NodeId id : graph.order)
      if (const std::string_view kind = ir::baseName(graph.node(id).op); ir::isCollective(graph.node(id).op)) kinds.emplace(kind.substr(0, kind.size() - (kind.ends_with("_start") ? 6 : 0)));
    error.legal = join(std::vector<std::string>(kinds.begin(), kinds.end()), ", ");
    return error;
  }
  std::vector<std::string> names;
  for (const ir::NodeId id : graph.order) {
    const ir::Node& node = graph.node(id);
    if (query.by == By::kName) names.push_back(node.name);
    else if (query.by == By::kOp) names.push_back(std::string(ir::baseName(node.op)));
    else if (query.by == By::kModule && node.location) names.push_back(node.location->module_path);
    else if ((query.by == By::kSource || query.by == By::kLine) && node.location) names.push_back(node.location->source);
    else if (query.by == By::kStage) names.push_back(node.provenance.pass.str());
  }
  if (const std::string near = nearest(query.pattern, names); !near.empty()) error.legal = (query.by == By::kName ? "%" : "") + near;
  return error;
}

}  // namespace spscope::session::debug
