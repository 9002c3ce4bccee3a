// SPDX-License-Identifier: Apache-2.0
#include "profiler/import/event_scanner.h"

#include <algorithm>
#include <bit>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace spscope::trace {
namespace {

constexpr bool isSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/// One bit for each of 64 bytes.
struct Masks {
  std::uint64_t quote = 0, backslash = 0, open = 0, close = 0, newline = 0;
};

#if defined(__SSE2__)
inline Masks classify(const char* p) {
  Masks out;
  for (int i = 0; i < 4; ++i) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16 * i));
    const __m128i folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));  // [ and { differ in this bit, as ] and } do
    const auto bits = [&](__m128i text, char c) {
      return static_cast<std::uint64_t>(static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(text, _mm_set1_epi8(c))))) << (16 * i);
    };
    out.quote |= bits(bytes, '"');
    out.backslash |= bits(bytes, '\\');
    out.open |= bits(folded, '{');
    out.close |= bits(folded, '}');
    out.newline |= bits(bytes, '\n');
  }
  return out;
}
#else
inline Masks classify(const char* p) {
  Masks out;
  for (int i = 0; i < 64; ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    const char c = p[i];
    if (c == '"') out.quote |= bit;
    if (c == '\\') out.backslash |= bit;
    if (c == '{' || c == '[') out.open |= bit;
    if (c == '}' || c == ']') out.close |= bit;
    if (c == '\n') out.newline |= bit;
  }
  return out;
}
#endif

/// Bit i of the answer: an odd number of the bits 0..i is set.
inline std::uint64_t prefixXor(std::uint64_t bits) {
  for (int shift = 1; shift < 64; shift *= 2) bits ^= bits << shift;
  return bits;
}

/// Which bytes are escaped; `carry`: whether a backslash escapes the first byte, then that of the next block.
std::uint64_t escapedBy(std::uint64_t backslashes, std::size_t bytes, bool* carry) {
  std::uint64_t out = *carry ? 1 : 0;
  *carry = false;
  for (; backslashes != 0; backslashes &= backslashes - 1) {
    const int i = std::countr_zero(backslashes);
    if ((out >> i & 1) != 0) continue;
    if (static_cast<std::size_t>(i) + 1 == bytes) *carry = true;
    else out |= std::uint64_t{1} << (i + 1);
  }
  return out;
}

}  // namespace

void EventScanner::restart(std::size_t offset) {
  *this = EventScanner();
  at_ = offset;
}

EventScanner::Stop EventScanner::scan(std::string_view text, std::vector<EventExtent>& events) {
  while (true) {
    if (open_ == kNone) {
      for (; at_ < text.size(); ++at_) {
        if (text[at_] == ',') ++commas_;
        else if (!isSpace(text[at_])) break;
      }
      if (at_ == text.size()) return Stop::kMore;
      if (text[at_] == ']') return Stop::kArrayEnd;
      if (text[at_] != '{') return Stop::kBroken;
      open_ = at_++;
      current_ = {.joined = commas_ == 1};
      inside_ = 0, escape_ = false, after_brace_ = true, arrays_ = 0, depth_ = 1, check_ = kLong;
    }
    bool complete = false;
    while (at_ < text.size() && !complete) {
      const std::size_t bytes = std::min<std::size_t>(64, text.size() - at_);
      Masks m = classify(text.data() + at_);
      if (bytes < 64) {
        const std::uint64_t valid = (std::uint64_t{1} << bytes) - 1;
        m.quote &= valid, m.backslash &= valid, m.open &= valid, m.close &= valid, m.newline &= valid;
      }
      if ((m.backslash != 0) | escape_) {
        m.quote &= ~escapedBy(m.backslash, bytes, &escape_);
        current_.escapes = true;
      }
      const std::uint64_t inside = prefixXor(m.quote) ^ inside_;  // with the opening quotes, without the closing ones
      // Checked only when an event has ended, but noticed at once: its text may have left the window by then.
      const std::uint64_t doubtful = (m.quote & ~inside & (m.open << 1 | std::uint64_t{after_brace_})) | (m.newline & inside);
      std::uint64_t braces = (m.open | m.close) & ~inside;
      for (; braces != 0; braces &= braces - 1) {
        const std::size_t i = at_ + static_cast<std::size_t>(std::countr_zero(braces));
        const char c = text[i];
        if (c == '{' || c == '[') {
          if ((arrays_ & 1) == 0) {  // in an object only a value may begin here
            std::size_t before = i;
            while (before > open_ && isSpace(text[before - 1])) --before;
            if (text[before - 1] != ':') {
              at_ = i;
              return Stop::kBroken;
            }
          }
          if (++depth_ > 64) {
            at_ = i;
            return Stop::kBroken;
          }
          arrays_ = arrays_ << 1 | std::uint64_t{c == '['};
        } else {
          if ((arrays_ & 1) != std::uint64_t{c == ']'}) {
            at_ = i;
            return Stop::kBroken;
          }
          arrays_ >>= 1;
          if (--depth_ == 0) {
            const std::uint64_t here = std::uint64_t{2} << (i - at_);
            current_.doubtful = current_.doubtful || (doubtful & (here - 1)) != 0;
            current_.start = open_, current_.end = i + 1;
            events.push_back(current_);
            open_ = kNone, commas_ = 0;
            at_ = i + 1;
            complete = true;
            break;
          }
        }
      }
      if (complete) break;
      current_.doubtful = current_.doubtful || doubtful != 0;
      inside_ = static_cast<std::uint64_t>(static_cast<std::int64_t>(inside) >> 63);
      after_brace_ = (m.open >> (bytes - 1) & 1) != 0;
      at_ += bytes;
      if (current_.doubtful && at_ - open_ > check_) {
        check_ = 2 * (at_ - open_);
        return Stop::kDoubtful;
      }
    }
    if (!complete) return Stop::kMore;
  }
}

std::size_t flippedAt(std::string_view text, std::size_t from, std::size_t to) {
  bool inside = false;
  for (std::size_t i = from; i < to; ++i) {
    if (text[i] == '\\') {  // as scan() reads it: outside of strings too
      ++i;
      continue;
    }
    if (text[i] != '"') continue;
    inside = !inside;
    if (inside) continue;
    // A string ends here. Does it end in `}, {`?
    std::size_t at = i;
    const auto back = [&](char wanted) {
      while (at > from && isSpace(text[at - 1])) --at;
      return at > from && text[at - 1] == wanted ? (--at, true) : false;
    };
    if (!back('{')) continue;
    const std::size_t event = at;
    if (back(',') && back('}')) return event;
  }
  return EventScanner::kNone;
}

std::size_t nextBoundary(std::string_view text, std::size_t from) {
  for (std::size_t i = from; i < text.size(); ++i) {
    if (text[i] != '{' && text[i] != ']') continue;
    std::size_t at = i;
    const auto back = [&](char wanted) {
      while (at > 0 && isSpace(text[at - 1])) --at;
      return at > 0 && text[at - 1] == wanted ? (--at, true) : false;
    };
    std::size_t next = i + 1;
    while (next < text.size() && isSpace(text[next])) ++next;
    if (next == text.size()) return EventScanner::kNone;
    if (text[i] == '{') {
      if (text[next] == '"' && back(',') && back('}')) return i;
    } else if (back('}')) {
      if (text[next] == '}') {  // of the whole file, or `}]}` of an event
        do ++next;
        while (next < text.size() && isSpace(text[next]));
        if (next == text.size()) return i;
        continue;
      }
      if (text[next] != ',') continue;
      do ++next;
      while (next < text.size() && isSpace(text[next]));
      if (next < text.size() && text[next] == '"') return i;
    }
  }
  return EventScanner::kNone;
}

}  // namespace spscope::trace
