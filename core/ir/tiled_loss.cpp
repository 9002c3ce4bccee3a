// SPDX-License-Identifier: Apache-2.0
#include "core/ir/tiled_loss.h"

#include <algorithm>
#include <charconv>

#include "core/base/strings.h"

namespace spscope::ir {

std::string formatSteps(const std::vector<LogitStep>& steps) {
  std::vector<std::string> words;
  for (const LogitStep& s : steps) switch (s.kind) {
      case LogitStep::kTo: words.push_back("to " + std::string(shortName(s.dtype))); break;
      case LogitStep::kMul: words.push_back("mul " + formatDouble(s.factor)); break;
      case LogitStep::kDiv: words.push_back("div " + formatDouble(s.factor)); break;
      case LogitStep::kTanh: words.emplace_back("tanh"); break;
    }
  return join(words, ", ");
}

std::optional<std::vector<LogitStep>> parseSteps(std::string_view text) {
  std::vector<LogitStep> out;
  if (text.empty()) return out;
  for (const std::string& padded : split(text, ',')) {
    const std::string word = padded.substr(std::min(padded.size(), padded.find_first_not_of(' ')));
    const std::string rest = word.size() > 3 ? word.substr(word.find(' ') + 1) : "";
    LogitStep step;
    if (word == "tanh") {
      step.kind = LogitStep::kTanh;
    } else if (word.starts_with("to ")) {
      const auto dtype = parseDType(rest);
      if (!dtype || !isFloating(*dtype)) return std::nullopt;
      step.dtype = *dtype;
    } else if (word.starts_with("mul ") || word.starts_with("div ")) {
      step.kind = word[0] == 'm' ? LogitStep::kMul : LogitStep::kDiv;
      const char* end = rest.data() + rest.size();
      if (std::from_chars(rest.data(), end, step.factor).ptr != end || rest.empty()) return std::nullopt;
    } else {
      return std::nullopt;
    }
    out.push_back(step);
  }
  return out;
}

}  // namespace spscope::ir
