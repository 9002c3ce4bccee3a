// SPDX-License-Identifier: Apache-2.0
#include "core/dist/membership.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace spscope::dist {

Membership::~Membership() {
  if (!group_) return;
  endWithoutDestructors();
  (void)group_.release();
}

void endWithoutDestructors() {
  static std::once_flag once;
  std::call_once(once, [] {
    // The last one registered runs first.
    ::on_exit([](int status, void*) {
      std::fflush(nullptr);
      ::_exit(status);
    }, nullptr);
  });
}

}  // namespace spscope::dist
