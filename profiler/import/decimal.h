// SPDX-License-Identifier: Apache-2.0
// Numbers of a trace's text, exactly: microseconds with decimals become int64 nanoseconds without passing through a double,
// which holds only 0.25 us at today's times.
#pragma once

#include <cstdint>
#include <string_view>

namespace spscope::trace {

enum class Parsed : std::uint8_t {
  kOk,
  kAbsent,      ///< null or nothing
  kBad,         ///< NaN, N/A, Infinity, text
  kOutOfRange,  ///< a number, but not in int64
};

/// `text` is a JSON number, or one in quotes; white space around it is allowed. value = text * 10^digits, rounded to the
/// nearest (halves away from zero).
Parsed parseScaled(std::string_view text, int digits, std::int64_t* value);

/// Microseconds -> ns.
inline Parsed parseMicroseconds(std::string_view text, std::int64_t* ns) { return parseScaled(text, 3, ns); }

/// Ids and addresses: also those of 64 unsigned bits, whose bits are kept.
Parsed parseId(std::string_view text, std::int64_t* value);

}  // namespace spscope::trace
