// SPDX-License-Identifier: Apache-2.0
// Text as a JSON string, for the rooms that write single lines of JSON and need no library for it.
#pragma once

#include <string>
#include <string_view>

namespace spscope {

/// With its quotes, on one line; what is no UTF-8 becomes U+FFFD.
std::string jsonQuoted(std::string_view text);

}  // namespace spscope
