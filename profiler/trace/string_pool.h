// SPDX-License-Identifier: Apache-2.0
// Interned names of one trace: kernels, ops, tracks. A trace of a million events has a few thousand of them.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace spscope::trace {

/// Index into a trace's StringPool. 0 is the empty text.
using StringId = std::uint32_t;

/// Move-only; ids are dense, in the order of first use. Not thread-safe.
class StringPool {
 public:
  StringPool() { intern({}); }
  StringPool(StringPool&&) noexcept = default;
  StringPool& operator=(StringPool&&) noexcept = default;
  StringPool(const StringPool&) = delete;
  StringPool& operator=(const StringPool&) = delete;

  StringId intern(std::string_view text);
  /// The id of a text that was interned before; nullptr where it was not.
  const StringId* find(std::string_view text) const;
  /// Valid as long as the pool.
  std::string_view text(StringId id) const { return texts_[id]; }
  std::size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // a deque: the views in ids_ stay valid
  std::unordered_map<std::string_view, StringId> ids_;
};

}  // namespace spscope::trace
