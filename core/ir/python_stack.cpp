// SPDX-License-Identifier: Apache-2.0
#include "core/ir/python_stack.h"

#include <charconv>

namespace spscope::ir {

std::vector<PythonFrame> framesOf(std::string_view stack) {
  std::vector<PythonFrame> out;
  constexpr std::string_view kFile = "File \"", kLine = ", line ", kIn = ", in ";
  for (std::size_t at = stack.find(kFile); at != std::string_view::npos; at = stack.find(kFile, at)) {
    at += kFile.size();
    const std::size_t quote = stack.find('"', at);
    if (quote == std::string_view::npos) break;
    PythonFrame frame;
    frame.file = stack.substr(at, quote - at);
    if (stack.substr(quote + 1, kLine.size()) != kLine) continue;
    const char* const digits = stack.data() + quote + 1 + kLine.size();
    const char* const last = stack.data() + stack.size();
    const auto [end, error] = std::from_chars(digits, last, frame.line);
    if (error != std::errc() || frame.line < 0) continue;
    at = static_cast<std::size_t>(end - stack.data());
    if (stack.substr(at, kIn.size()) == kIn) frame.function = stack.substr(at + kIn.size(), stack.find('\n', at) - at - kIn.size());
    out.push_back(frame);
  }
  return out;
}

bool isTorchFile(std::string_view file) {
  return file.starts_with("torch/") || file.find("/site-packages/torch/") != std::string_view::npos || file.find("/dist-packages/torch/") != std::string_view::npos ||
         file.starts_with("site-packages/torch/") || file.starts_with("<");
}

}  // namespace spscope::ir
