// SPDX-License-Identifier: Apache-2.0
// Completion scripts for shells, generated from the tree of commands and options.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace spscope::app {

/// The script for "bash", "zsh" or "fish"; "" for another shell. What an option's value is, is read off its type's name:
/// "a|b|c" is one of these words, FILE, PATH and DIR name a file or a folder, CODE and COMMAND come from their lists.
std::string completionScript(const CLI::App& root, const std::string& shell);

}  // namespace spscope::app
