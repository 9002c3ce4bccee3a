// SPDX-License-Identifier: Apache-2.0
// Ctrl-C: while a guard lives, the first SIGINT, SIGTERM or SIGHUP only sets the token; the second one ends the process.
#pragma once

#include "core/base/cancel.h"

namespace spscope::dist {

/// At most one at a time. Restores the handlers that it found.
class InterruptGuard {
 public:
  explicit InterruptGuard(CancelToken token);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

}  // namespace spscope::dist
