// SPDX-License-Identifier: Apache-2.0
// The log: level, category, message. To standard error by default; results never go through it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace spscope::log {

enum class Level : std::uint8_t { kDebug, kInfo, kWarning, kError, kOff };

struct Line {
  Level level;
  std::string_view category;
  std::string_view message;
  std::int64_t wall_ns;  ///< since the epoch
};

void setLevel(Level level);
Level level();
/// "debug", "info", "warning", "error", "off"; false when it is none of these.
bool parseLevel(std::string_view text, Level* out);
/// Prefix of every line of this process, e.g. "rank 1".
void setPrefix(std::string prefix);
/// Replaces the sink (standard error). An empty function restores it. Any thread may log.
void setSink(std::function<void(const Line&)> sink);
void write(Level level, std::string_view category, std::string message);

inline void debug(std::string_view c, std::string m) { if (level() <= Level::kDebug) write(Level::kDebug, c, std::move(m)); }
inline void info(std::string_view c, std::string m) { if (level() <= Level::kInfo) write(Level::kInfo, c, std::move(m)); }
inline void warning(std::string_view c, std::string m) { if (level() <= Level::kWarning) write(Level::kWarning, c, std::move(m)); }
inline void error(std::string_view c, std::string m) { if (level() <= Level::kError) write(Level::kError, c, std::move(m)); }

}  // namespace spscope::log
