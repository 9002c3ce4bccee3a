// SPDX-License-Identifier: Apache-2.0
// --help as a manual page: synopsis, description, options by group, examples, exit codes, environment. Made from the
// command's record and its tree of options; nothing is written twice.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace spscope::app {

/// What --help prints of one command, or of the whole program where `app` is the root.
std::string manualPage(const CLI::App& app, std::size_t width = 100);

/// The name of an option's value ("N", "cpu|cuda"), without what CLI11 adds of its checks; "" for a flag.
std::string valueName(const CLI::Option& option);

/// Makes every --help of the tree a manual page. Call before commands are added.
void useManualPages(CLI::App& app);

}  // namespace spscope::app
