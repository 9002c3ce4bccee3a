// SPDX-License-Identifier: Apache-2.0
// Text for XML and HTML.
#pragma once

#include <string>
#include <string_view>

namespace spscope {

/// For the inside of an element or a quoted attribute. What XML cannot say (control characters) and what is no UTF-8
/// becomes U+FFFD.
std::string xmlEscaped(std::string_view text);

}  // namespace spscope
