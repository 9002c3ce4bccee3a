// SPDX-License-Identifier: Apache-2.0
#include "core/base/symbol.h"

#include <array>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <unordered_set>

namespace spscope {
namespace {
struct Pool {
  std::shared_mutex mutex;
  std::unordered_set<std::string> texts;  // node-based: addresses stay valid
};
Pool& pool() {
  static Pool* p = new Pool;  // never destroyed: symbols are used by statics
  return *p;
}
const std::string kEmpty;

/// Its one copy, which stays.
const std::string* interned(std::string_view text) {
  Pool& p = pool();
  {
    const std::shared_lock lock(p.mutex);
    if (const auto it = p.texts.find(std::string(text)); it != p.texts.end()) return &*it;
  }
  const std::unique_lock lock(p.mutex);
  return &*p.texts.emplace(text).first;
}
}  // namespace

Symbol::Symbol(std::string_view text) {
  // What this thread has asked for lately needs no lock.
  thread_local std::array<const std::string*, 1024> lately{};
  const std::string*& last = lately[std::hash<std::string_view>{}(text) % lately.size()];
  if (last == nullptr || *last != text) last = interned(text);
  text_ = last;
}

const std::string& Symbol::str() const { return text_ ? *text_ : kEmpty; }

}  // namespace spscope
