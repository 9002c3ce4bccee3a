// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <mutex>

#include "core/base/json_text.h"
#include "core/base/strings.h"

namespace spscope::log {
namespace {

std::atomic<Level> g_level{Level::kWarning};
std::atomic<Format> g_format{Format::kText};
std::atomic<int> g_rank{-1};

struct State {
  std::mutex mutex;
  std::function<void(const Line&)> sink;
};
State& state() {
  static State* s = new State;  // never destroyed: threads may log until the very end
  return *s;
}

constexpr std::string_view kLevels[] = {"debug", "info", "warning", "error", "off"};
constexpr std::string_view kFormats[] = {"text", "json"};

template <typename T, std::size_t N>
bool find(const std::string_view (&names)[N], std::string_view text, T* out) {
  for (std::size_t i = 0; i < N; ++i)
    if (text == names[i]) {
      *out = static_cast<T>(i);
      return true;
    }
  return false;
}

/// "2026-01-31T12:00:00.123456Z"
std::string timeText(std::int64_t wall_ns) {
  const std::time_t seconds = wall_ns / 1'000'000'000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  return strf("%s.%06lldZ", text, static_cast<long long>(wall_ns % 1'000'000'000 / 1000));
}

}  // namespace

void setLevel(Level l) { g_level = l; }
Level level() { return g_level.load(std::memory_order_relaxed); }
bool parseLevel(std::string_view text, Level* out) { return find(kLevels, text, out); }
void setFormat(Format f) { g_format = f; }
Format format() { return g_format.load(std::memory_order_relaxed); }
bool parseFormat(std::string_view text, Format* out) { return find(kFormats, text, out); }
void setRank(int rank) { g_rank = rank; }

std::string settingsText() {
  return std::string(kLevels[static_cast<int>(level())]) + ":" + std::string(kFormats[static_cast<int>(format())]);
}

void useSettings(std::string_view text) {
  const std::size_t colon = text.find(':');
  Level l{};
  Format f{};
  if (colon == std::string_view::npos || !parseLevel(text.substr(0, colon), &l) || !parseFormat(text.substr(colon + 1), &f)) return;
  setLevel(l);
  setFormat(f);
}

void setSink(std::function<void(const Line&)> sink) {
  const std::lock_guard lock(state().mutex);
  state().sink = std::move(sink);
}

std::string formatted(const Line& line, Format how) {
  const std::string_view level_name = kLevels[static_cast<int>(line.level)];
  if (how == Format::kText) {
    std::string out(level_name);
    if (!line.code.empty()) out += "[" + std::string(line.code) + "]";
    out += " " + std::string(line.category) + ": ";
    if (line.rank >= 0) out += "[rank " + std::to_string(line.rank) + "] ";
    return out + std::string(line.message);
  }
  return "{\"time\":\"" + timeText(line.wall_ns) + "\",\"level\":\"" + std::string(level_name) +
         "\",\"rank\":" + (line.rank >= 0 ? std::to_string(line.rank) : "null") + ",\"category\":" + jsonQuoted(line.category) +
         ",\"code\":" + (line.code.empty() ? "null" : jsonQuoted(line.code)) + ",\"message\":" + jsonQuoted(line.message) + "}";
}

void write(Level l, std::string_view category, std::string_view code, const std::string& message) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const Line line{l, category, code, message, g_rank.load(), std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()};
  const std::lock_guard lock(state().mutex);
  if (state().sink) return state().sink(line);
  // One call: lines of several processes on one terminal stay whole.
  std::fputs((formatted(line, format()) + "\n").c_str(), stderr);
}

}  // namespace spscope::log
