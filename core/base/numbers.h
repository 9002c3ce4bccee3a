// SPDX-License-Identifier: Apache-2.0
// A number out of what somebody typed.
#pragma once

#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

namespace spscope {

/// The number that the whole of `text` is, where it lies in [least, most]; a NaN lies nowhere.
template <typename T>
std::optional<T> numberIn(std::string_view text, T least = std::numeric_limits<T>::lowest(), T most = std::numeric_limits<T>::max()) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least && value <= most)) return {};
  return value;
}

/// Whether there is one; `out` stays as it is where there is not.
template <typename T>
bool readNumber(std::string_view text, T& out, T least = std::numeric_limits<T>::lowest(), T most = std::numeric_limits<T>::max()) {
  const std::optional<T> value = numberIn(text, least, most);
  if (value) out = *value;
  return value.has_value();
}

}  // namespace spscope
