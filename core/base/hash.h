// SPDX-License-Identifier: Apache-2.0
// 128-bit content hash (XXH3) over a stream of bytes; hex text. Not cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace spscope {

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void bytes(const void* data, std::size_t size);
  void text(std::string_view s);  ///< length-prefixed, so that ("ab","c") differs from ("a","bc")
  void number(std::int64_t n) { bytes(&n, sizeof n); }
  std::string hex() const;  ///< 32 hex digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string hashHex(std::string_view data);

}  // namespace spscope
