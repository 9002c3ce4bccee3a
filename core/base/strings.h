// SPDX-License-Identifier: Apache-2.0
// Small text helpers used everywhere. Formatting of bytes, times and numbers for people lives here and nowhere else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spscope {

/// printf into a std::string.
[[gnu::format(printf, 1, 2)]] std::string strf(const char* format, ...);
/// "1.50 GiB", "217 MiB", "512 B".
std::string formatBytes(std::int64_t bytes);
/// "1.20 s", "93.4 ms", "12 us" from nanoseconds.
std::string formatNs(std::int64_t ns);
/// Shortest text that parses back to the same double; "inf", "-inf", "nan" spelt out.
std::string formatDouble(double value);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string join(const std::vector<std::int64_t>& parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);
/// Levenshtein-nearest of `candidates` to `word` within distance 3, or "". For "did you mean".
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace spscope
