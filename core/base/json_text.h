// SPDX-License-Identifier: Apache-2.0
// Text as a JSON string, for the rooms that write single lines of JSON and need no library for it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace spscope {

/// Bytes of the UTF-8 sequence at the beginning of `text`; 0 where there is none (RFC 3629: no overlong forms, no
/// surrogates, nothing beyond U+10FFFF).
std::size_t utf8Length(std::string_view text);

/// With its quotes, on one line; what is no UTF-8 becomes U+FFFD.
std::string jsonQuoted(std::string_view text);

}  // namespace spscope
