// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>

namespace spscope::log {
namespace {
std::atomic<Level> g_level{Level::kWarning};
struct State {
  std::mutex mutex;
  std::string prefix;
  std::function<void(const Line&)> sink;
};
State& state() {
  static State* s = new State;  // never destroyed: threads may log until the very end
  return *s;
}
constexpr std::string_view kNames[] = {"debug", "info", "warning", "error", "off"};
}  // namespace

void setLevel(Level l) { g_level = l; }
Level level() { return g_level.load(std::memory_order_relaxed); }

bool parseLevel(std::string_view text, Level* out) {
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (text == kNames[i]) {
      *out = static_cast<Level>(i);
      return true;
    }
  return false;
}

void setPrefix(std::string prefix) {
  std::lock_guard lock(state().mutex);
  state().prefix = std::move(prefix);
}

void setSink(std::function<void(const Line&)> sink) {
  std::lock_guard lock(state().mutex);
  state().sink = std::move(sink);
}

void write(Level l, std::string_view category, std::string message) {
  std::lock_guard lock(state().mutex);
  if (!state().prefix.empty()) message = "[" + state().prefix + "] " + message;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  if (state().sink) {
    state().sink({l, category, message, std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()});
    return;
  }
  std::fprintf(stderr, "%s %.*s: %s\n", std::string(kNames[static_cast<int>(l)]).c_str(),
               static_cast<int>(category.size()), category.data(), message.c_str());
}

}  // namespace spscope::log
