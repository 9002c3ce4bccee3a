// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/command_work.h"

#include <algorithm>

#include "core/base/numbers.h"
#include "core/base/strings.h"

namespace spscope::session::debug {

Error Work::usage(std::string message) const {
  Error error = makeError("usage", std::move(message), Outcome::kUsage);
  error.legal = info.name + (info.takes.empty() ? "" : " " + info.takes);
  return error;
}

std::string Work::take() {
  if (words.empty()) return {};
  std::string word = words.front();
  words.erase(words.begin());
  return word;
}

Result<int> Work::takeRank() {
  const auto at = std::find(words.begin(), words.end(), "rank");
  if (at == words.end()) return -1;
  const auto rank = at + 1 == words.end() ? std::nullopt : numberIn<std::int64_t>(*(at + 1));
  if (!rank || *rank < 0 || *rank >= debugger.ranks()) return usage(strf("which rank, of 0 to %d?", debugger.ranks() - 1));
  words.erase(at, at + 2);
  return static_cast<int>(*rank);
}

Result<std::int64_t> Work::takeCount(std::int64_t fallback) {
  if (words.empty()) return fallback;
  const std::string word = take();
  const auto count = numberIn<std::int64_t>(word);
  if (!count || *count < 1) return usage(word + " is no number from 1 on");
  return *count;
}

Result<std::string> Work::takeValue() {
  if (words.empty()) return usage("of which value?");
  return take();
}

Result<std::vector<exec::Range>> Work::takeRanges() {
  std::string text = join(words, "");
  const std::string typed = text;
  words.clear();
  std::erase_if(text, [](char c) { return c == '[' || c == ']'; });
  std::vector<exec::Range> ranges;
  if (text.empty()) return ranges;
  for (const std::string& part : split(text, ',')) {
    const std::size_t colon = part.find(':');
    exec::Range range;
    const std::string first = part.substr(0, colon), last = colon == std::string::npos ? "" : part.substr(colon + 1);
    const auto begin = numberIn<std::int64_t>(first), end = numberIn<std::int64_t>(last);
    if ((!begin && !(first.empty() && colon != std::string::npos)) || (!end && !last.empty())) return usage(typed + " is no window, as 0,2:5,:");
    if (begin) range.begin = *begin;
    if (end) range.end = *end;
    else if (colon == std::string::npos && range.begin != -1) range.end = range.begin + 1;
    ranges.push_back(range);
  }
  return ranges;
}

Result<exec::TensorBag> Work::valueOf(const std::string& value, int rank, bool& again) {
  SP_ASSIGN(Debugger::Parts found, debugger.parts(value, rank));
  again = found.again;
  return std::move(found.of_rank[static_cast<std::size_t>(rank)]);
}

Status Work::nothingLeft() const {
  if (!words.empty()) return usage(words.front() + " is one word too many");
  return {};
}

}  // namespace spscope::session::debug
