// SPDX-License-Identifier: Apache-2.0
// Ctrl-C: while a guard lives, the first SIGINT, SIGTERM or SIGHUP only sets the token; the second one ends the process.
// And SIGPIPE, which must end none.
#pragma once

#include <atomic>

#include "core/base/cancel.h"

namespace spscope::dist {

/// From here on those signals wait for the next InterruptGuard (or takeInterrupts()), also across an exec: a program that
/// promises an answer to Ctrl-C is interrupted before it has its handlers, too.
void holdInterrupts();
/// They have their usual effect again, and those that waited have it now.
void takeInterrupts();

/// To write where nobody reads any more (a rank that has gone, `| head`) is then an error of that write, not the end of the
/// process: Gloo writes without MSG_NOSIGNAL. For the whole process; a handler that it has for SIGPIPE stays.
void ignoreBrokenPipes();

/// At most one at a time. Restores the handlers that it found.
class InterruptGuard {
 public:
  explicit InterruptGuard(CancelToken token);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

/// While it lives, Ctrl-C asks for a pause instead: it sets the flag. Where the flag is set still, the pause does not come, and the
/// signal does what it does otherwise. At most one at a time, within an InterruptGuard.
class PauseGuard {
 public:
  explicit PauseGuard(std::atomic<bool>& flag);
  ~PauseGuard();
  PauseGuard(const PauseGuard&) = delete;
  PauseGuard& operator=(const PauseGuard&) = delete;
};

}  // namespace spscope::dist
