// SPDX-License-Identifier: Apache-2.0
// Words of commands that people copy into a shell.
#pragma once

#include <string>

namespace spscope::app {

/// In single quotes.
std::string shellQuoted(const std::string& text);
/// As it is where a shell takes it for one plain word, else quoted.
std::string shellWord(const std::string& text);

}  // namespace spscope::app
