// SPDX-License-Identifier: Apache-2.0
#include "core/base/symbol.h"

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
}  // namespace

Symbol::Symbol(std::string_view text) {
  Pool& p = pool();
  {
    std::shared_lock lock(p.mutex);
    if (auto it = p.texts.find(std::string(text)); it != p.texts.end()) {
      text_ = &*it;
      return;
    }
  }
  std::unique_lock lock(p.mutex);
  text_ = &*p.texts.emplace(text).first;
}

const std::string& Symbol::str() const { return text_ ? *text_ : kEmpty; }

}  // namespace spscope
