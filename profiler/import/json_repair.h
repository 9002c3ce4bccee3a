// SPDX-License-Identifier: Apache-2.0
// JSON as profilers really write it, made into JSON: raw control characters, invalid UTF-8, unknown escapes (Windows
// paths), NaN and N/A. Each repair is counted.
#pragma once

#include <string>
#include <string_view>

#include "profiler/trace/problems.h"

namespace spscope::trace {

/// One value (an object, a number ...). What is beyond repair stays as it is. Counts once per string and kind.
std::string repairedJson(std::string_view text, std::string_view where, Problems& problems);

/// Text that did not come out of JSON (a database): invalid UTF-8 replaced, control characters counted.
std::string repairedText(std::string_view text, std::string_view where, Problems& problems);

/// What stands between the quotes of a JSON string, without escapes. False: an escape is not valid.
bool unescape(std::string_view raw, std::string* out);

}  // namespace spscope::trace
