// SPDX-License-Identifier: Apache-2.0
#include "app/version.h"

#include "core/session/machine.h"

namespace spscope::app {
namespace {
// A file of its own, since the included text changes with every commit.
constexpr const char* kCommit =
#include SPSCOPE_COMMIT_FILE
    ;
}  // namespace

std::string versionText() {
  const std::string commit = kCommit;
  return std::string("spscope " SPSCOPE_VERSION " (") + (commit.empty() ? "" : "commit " + commit + ", ") + "libtorch " +
         session::libtorchVersion() + ")";
}

}  // namespace spscope::app
