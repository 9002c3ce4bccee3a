// SPDX-License-Identifier: Apache-2.0
#include "profiler/trace/string_pool.h"

namespace spscope::trace {

StringId StringPool::intern(std::string_view text) {
  if (const auto it = ids_.find(text); it != ids_.end()) return it->second;
  const auto id = static_cast<StringId>(texts_.size());
  texts_.emplace_back(text);
  ids_.emplace(texts_.back(), id);
  return id;
}

const StringId* StringPool::find(std::string_view text) const {
  const auto it = ids_.find(text);
  return it == ids_.end() ? nullptr : &it->second;
}

}  // namespace spscope::trace
