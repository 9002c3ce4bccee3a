// SPDX-License-Identifier: Apache-2.0
// The log: level, category, code, message. To standard error by default, as text or as one JSON object a line; results
// never go through it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace spscope::log {

enum class Level : std::uint8_t { kDebug, kInfo, kWarning, kError, kOff };
enum class Format : std::uint8_t { kText, kJson };

struct Line {
  Level level;
  std::string_view category;
  std::string_view code;     ///< of core/base/codes.h; "" where the line is no finding
  std::string_view message;
  int rank;                  ///< of this process; -1 where it is none
  std::int64_t wall_ns;      ///< since the epoch
};

void setLevel(Level level);
Level level();
/// "debug", "info", "warning", "error", "off"; false when it is none of these.
bool parseLevel(std::string_view text, Level* out);
void setFormat(Format format);
Format format();
/// "text" or "json"; false when it is neither.
bool parseFormat(std::string_view text, Format* out);
/// Stands in every line of this process.
void setRank(int rank);

/// Level and format as text for a child process, and back; what is not understood changes nothing.
std::string settingsText();
void useSettings(std::string_view text);

/// Replaces the sink (standard error). An empty function restores it. Any thread may log.
void setSink(std::function<void(const Line&)> sink);
void write(Level level, std::string_view category, std::string_view code, const std::string& message);
/// "warning ranks: [rank 1] message", or {"time":"2026-01-31T12:00:00.123456Z","level":"warning","rank":1,
/// "category":"ranks","code":"rank-died","message":"…"} (rank and code null where there is none). Without a line end.
std::string formatted(const Line& line, Format format);

inline void debug(std::string_view c, const std::string& m) { if (level() <= Level::kDebug) write(Level::kDebug, c, {}, m); }
inline void info(std::string_view c, const std::string& m) { if (level() <= Level::kInfo) write(Level::kInfo, c, {}, m); }
inline void warning(std::string_view c, const std::string& m) { if (level() <= Level::kWarning) write(Level::kWarning, c, {}, m); }
inline void error(std::string_view c, const std::string& m) { if (level() <= Level::kError) write(Level::kError, c, {}, m); }

}  // namespace spscope::log
