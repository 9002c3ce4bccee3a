// SPDX-License-Identifier: Apache-2.0
#include "core/base/error.h"

#include "core/base/cancel.h"
#include "core/base/codes.h"
#include "core/base/diagnostics.h"

namespace spscope {
namespace {

/// Messages carry names out of files, which may hold any bytes and any number of them: control characters are shown as
/// escapes, so that a message stays the one line that it is, and very long ones lose their middle. Line breaks that
/// start an indented line are our own (a line of text with its caret).
std::string presentable(std::string text) {
  constexpr std::size_t kHead = 1200, kTail = 600;
  if (text.size() > kHead + kTail + 200) text.replace(kHead, text.size() - kHead - kTail, " [...] ");
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c >= 0x20 && c != 0x7f) || (c == '\n' && text.compare(i + 1, 2, "  ") == 0)) {
      out += text[i];
    } else {
      constexpr char kHex[] = "0123456789abcdef";
      out += {'\\', 'x', kHex[c >> 4], kHex[c & 15]};
    }
  }
  return out;
}

}  // namespace

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
  e.message = presentable(std::move(message));
  e.outcome = outcome;
  return e;
}

Status CancelToken::check() const {
  if (cancelled()) return makeError("cancelled", "cancelled on request", Outcome::kNo);
  return {};
}

void DiagnosticSink::warn(std::string_view code, std::string message, std::string node, std::string source,
                          std::string remedy) {
  all_.push_back({Severity::kWarning, std::string(code), presentable(std::move(message)), std::move(node), std::move(source),
                  std::move(remedy)});
}

void DiagnosticSink::remark(std::string_view code, std::string message, std::string node, std::string source) {
  all_.push_back({Severity::kRemark, std::string(code), presentable(std::move(message)), std::move(node), std::move(source), {}});
}

}  // namespace spscope
