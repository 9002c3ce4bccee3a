// SPDX-License-Identifier: Apache-2.0
// What --version prints.
#pragma once

#include <string>

namespace spscope::app {

/// "spscope 0.1.0 (commit 0123456789ab, libtorch 2.15.0)"; no commit where the sources are not from git.
std::string versionText();

}  // namespace spscope::app
