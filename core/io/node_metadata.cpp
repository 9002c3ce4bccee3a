// SPDX-License-Identifier: Apache-2.0
#include "core/io/node_metadata.h"

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "core/io/json.h"
#include "core/ir/python_stack.h"

namespace spscope::io {
namespace {

/// Splits at `separator` outside brackets; false when the brackets do not match. Class names of generics hold both
/// separators ("Stack[A,B]").
bool splitFlat(std::string_view text, char separator, std::vector<std::string_view>* out) {
  out->clear();
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[' || c == '(' || c == '<' || c == '{') ++depth;
    if (c == ']' || c == ')' || c == '>' || c == '}') {
      // "<locals>" in a class name closes what it opened; a lone ">" is no bracket of ours.
      if (--depth < 0) return false;
    }
    if (c == separator && depth == 0) {
      out->push_back(text.substr(start, i - start));
      start = i + 1;
    }
  }
  if (depth != 0) return false;
  out->push_back(text.substr(start));
  return true;
}

/// "L['self'].blocks['a']" (Dynamo's spelling) -> "blocks.a"; "layers.slice(None, 2, None).0" -> "layers.0".
std::string plainPath(std::string_view path) {
  std::string out;
  constexpr std::string_view kSelf = "L['self']";
  if (path.substr(0, kSelf.size()) == kSelf) path.remove_prefix(kSelf.size());
  for (std::size_t i = 0; i < path.size(); ++i) {
    const char c = path[i];
    if (path.substr(i, 7) == ".slice(") {
      const std::size_t end = path.find(')', i);
      if (end == std::string_view::npos) return std::string(path);
      i = end;
    } else if (c == '[') {
      if (!out.empty() && out.back() != '.') out += '.';
    } else if (c != ']' && c != '\'' && c != '"') {
      out += c;
    }
  }
  while (!out.empty() && out.front() == '.') out.erase(0, 1);
  return out;
}

}  // namespace

bool parseModuleStack(std::string_view stack, ModuleRef* out) {
  std::vector<std::string_view> entries, fields;
  if (!splitFlat(stack, ';', &entries)) return false;
  // Innermost last. Entries that the exporter itself made up for its own checks name no module.
  for (auto it = entries.rbegin(); it != entries.rend(); ++it) {
    if (it->find("_empty_nn_module_stack") != std::string_view::npos || it->empty()) continue;
    if (!splitFlat(*it, ',', &fields) || fields.size() < 3) return false;
    out->path = plainPath(fields[1]);
    const std::string_view type = it->substr(static_cast<std::size_t>(fields[2].data() - it->data()));
    const std::size_t bracket = type.find('[');
    const std::size_t dot = type.substr(0, bracket).rfind('.');
    out->type = std::string(dot == std::string_view::npos ? type : type.substr(dot + 1));
    return true;
  }
  *out = {};
  return true;
}

std::string sourceOfStack(std::string_view trace) {
  std::string best, any;
  for (const ir::PythonFrame& frame : ir::framesOf(trace)) {
    const std::size_t slash = frame.file.rfind('/');
    std::string source(slash == std::string_view::npos ? frame.file : frame.file.substr(slash + 1));
    source += ':' + std::to_string(frame.line);
    (ir::isTorchFile(frame.file) ? any : best) = std::move(source);
  }
  return best.empty() ? any : best;
}

SavingMark savingMarkOf(std::string_view custom) {
  JsonDocument document;
  const auto bytes = std::as_bytes(std::span(custom));
  if (!document.parse(bytes, 0, "custom metadata")) return SavingMark::kNone;
  const std::string policy = textField(document.root(), "recompute");
  if (policy == "must_save") return SavingMark::kSave;
  if (policy == "must_recompute" || policy == "prefer_recompute") return SavingMark::kRecompute;
  return textField(document.root(), "_torchdynamo_disable_method") == "checkpoint" ? SavingMark::kRecompute : SavingMark::kNone;
}

SavingMark MetadataReader::savingMark(std::string_view custom) {
  if (custom.empty()) return SavingMark::kNone;
  const auto [known, fresh] = marks_.try_emplace(custom);
  if (fresh) known->second = savingMarkOf(custom);
  return known->second;
}

ir::LocationRef MetadataReader::location(std::string_view module_stack, std::string_view stack_trace, std::int32_t checkpoint) {
  if (module_stack.empty() && stack_trace.empty() && checkpoint == 0) return nullptr;
  auto [it, fresh] = locations_.try_emplace(Key{module_stack, stack_trace, checkpoint});
  if (!fresh) return it->second;
  auto [module, unseen] = modules_.try_emplace(module_stack);
  if (unseen && !module_stack.empty() && !parseModuleStack(module_stack, &module->second)) {
    if (unreadable_++ == 0) first_unreadable_ = std::string(module_stack.substr(0, 80));
    module->second = {};
  }
  auto location = std::make_shared<ir::Location>();
  location->module_path = module->second.path;
  location->module_type = module->second.type;
  location->source = sourceOfStack(stack_trace);
  location->stack = std::string(stack_trace);
  location->checkpoint = checkpoint;
  it->second = std::move(location);
  return it->second;
}

}  // namespace spscope::io
