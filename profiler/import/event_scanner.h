// SPDX-License-Identifier: Apache-2.0
// Where the events of a JSON array begin and end, before anything of them is parsed: then a broken one costs itself and not
// the rest. 64 bytes at a time, aware of strings; what cannot be JSON is noticed and left to the caller to step over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace spscope::trace {

/// One object of the array, as offsets into the text.
struct EventExtent {
  std::size_t start = 0, end = 0;
  bool joined = false;    ///< only one comma and white space lie between it and the one before
  bool doubtful = false;  ///< holds what looks like the end of another event inside a string: see flippedAt
  bool escapes = false;   ///< holds a backslash
};

class EventScanner {
 public:
  enum class Stop : std::uint8_t {
    kMore,      ///< the text ends here
    kArrayEnd,  ///< at a ]
    kBroken,    ///< at() is no JSON
    kDoubtful,  ///< the open event is long, and may never end for want of a quote: see flippedAt; scan() goes on otherwise
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  /// Goes on over `text`, which begins with what it began with in the last call, less shift(). 64 bytes behind it must be
  /// readable.
  Stop scan(std::string_view text, std::vector<EventExtent>& events);
  std::size_t at() const { return at_; }
  /// Where the event begins that is not complete yet; kNone: between events.
  std::size_t open() const { return open_; }
  /// The text lost its first `bytes` bytes.
  void shift(std::size_t bytes) {
    at_ -= bytes;
    if (open_ != kNone) open_ -= bytes;
  }
  /// Forgets everything and goes on between two events at `offset`.
  void restart(std::size_t offset);

 private:
  std::size_t at_ = 0, open_ = kNone;
  std::uint64_t inside_ = 0;   ///< all bits: in a string
  bool escape_ = false;        ///< the last byte was a backslash that escapes the next
  bool after_brace_ = false;   ///< the last byte was { or [
  std::uint64_t arrays_ = 0;   ///< one bit a level, the innermost lowest: 1 is an array
  int depth_ = 0;
  static constexpr std::size_t kLong = 4096;
  std::size_t check_ = kLong;  ///< when the open event is so long, the next kDoubtful is due
  int commas_ = 1;
  EventExtent current_;
};

/// A lost or added quote turns strings inside out: the end of an event, `}, {"`, then lies in a string. Where in
/// text[from, to) the event after it begins; kNone: nowhere.
std::size_t flippedAt(std::string_view text, std::size_t from, std::size_t to);

/// The first `{` at or behind `from` that begins an event after `}` and a comma; or the `]` that ends the array after `}`.
/// kNone: not in this text.
std::size_t nextBoundary(std::string_view text, std::size_t from);

}  // namespace spscope::trace
