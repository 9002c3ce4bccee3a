// SPDX-License-Identifier: Apache-2.0
#include "core/base/error.h"

#include "core/base/cancel.h"
#include "core/base/codes.h"
#include "core/base/diagnostics.h"

namespace spscope {

std::string Error::format() const {
  std::string out = "error[" + code + "]: " + message;
  if (!node.empty() || !source.empty()) {
    out += " (";
    if (!node.empty()) out += "node " + node;
    if (!node.empty() && !source.empty()) out += ", ";
    out += source + ")";
  }
  for (const auto& note : notes) out += "\n  note: " + note;
  if (!legal.empty()) out += "\n  legal: " + legal;
  std::string hint = remedy;
  if (hint.empty())
    if (const CodeInfo* info = findCode(code)) hint = info->remedy;
  if (!hint.empty()) out += "\n  remedy: " + hint;
  return out;
}

Error makeError(std::string_view code, std::string message, Outcome outcome) {
  Error e;
  e.code = code;
  e.message = std::move(message);
  e.outcome = outcome;
  return e;
}

Status CancelToken::check() const {
  if (cancelled()) return makeError("cancelled", "cancelled on request", Outcome::kNo);
  return {};
}

void DiagnosticSink::warn(std::string_view code, std::string message, std::string node, std::string source,
                          std::string remedy) {
  all_.push_back({Severity::kWarning, std::string(code), std::move(message), std::move(node), std::move(source),
                  std::move(remedy)});
}

void DiagnosticSink::remark(std::string_view code, std::string message, std::string node, std::string source) {
  all_.push_back({Severity::kRemark, std::string(code), std::move(message), std::move(node), std::move(source), {}});
}

}  // namespace spscope
