// SPDX-License-Identifier: Apache-2.0
// An interned string: op names, argument names, pass names. Compares by pointer; lives as long as the process.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace spscope {

class Symbol {
 public:
  Symbol() = default;
  Symbol(std::string_view text);  // interns; any thread
  Symbol(const char* text) : Symbol(std::string_view(text)) {}
  const std::string& str() const;
  bool empty() const { return text_ == nullptr || text_->empty(); }
  const void* key() const { return text_; }
  friend bool operator==(Symbol a, Symbol b) { return a.text_ == b.text_; }
  friend bool operator!=(Symbol a, Symbol b) { return a.text_ != b.text_; }
  /// By text, so that orders are the same in every process.
  friend bool operator<(Symbol a, Symbol b) { return a.str() < b.str(); }

 private:
  const std::string* text_ = nullptr;
};

}  // namespace spscope

template <>
struct std::hash<spscope::Symbol> {
  std::size_t operator()(spscope::Symbol s) const noexcept { return std::hash<const void*>()(s.key()); }
};
