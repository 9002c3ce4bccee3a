// SPDX-License-Identifier: Apache-2.0
// The part of a text that is in memory: unread bytes of a ByteSource, with room before and behind them that may be
// overwritten and read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/import/byte_source.h"

namespace spscope::trace {

class TextWindow {
 public:
  /// Bytes before begin() and behind end(): what SIMD code reads and batches write there.
  static constexpr std::size_t kMargin = 128;

  TextWindow(ByteSource& source, std::size_t block) : source_(source), block_(block < 64 ? 64 : block), buffer_(2 * kMargin) {}

  char* begin() { return buffer_.data() + from_; }
  std::size_t size() const { return to_ - from_; }
  std::string_view text() const { return {buffer_.data() + from_, to_ - from_}; }
  /// Of begin(), in the (unpacked) text.
  std::int64_t offset() const { return offset_; }
  void drop(std::size_t bytes) { from_ += bytes, offset_ += static_cast<std::int64_t>(bytes); }
  /// Appends a block to the unread bytes; begin() moves. False at the end of the text.
  Result<bool> more();
  /// The byte at `index` from begin(), reading on where needed; -1 at the end of the text.
  Result<int> at(std::size_t index) {
    while (index >= size()) {
      SP_ASSIGN(const bool got, more());
      if (!got) return -1;
    }
    return static_cast<unsigned char>(buffer_[from_ + index]);
  }

 private:
  ByteSource& source_;
  std::size_t block_;
  std::vector<char> buffer_;
  std::size_t from_ = kMargin, to_ = kMargin;
  std::int64_t offset_ = 0;
};

inline std::string placeOf(std::int64_t offset) { return "byte " + std::to_string(offset); }

}  // namespace spscope::trace
