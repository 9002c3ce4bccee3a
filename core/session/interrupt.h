// SPDX-License-Identifier: Apache-2.0
// Ctrl-C for commands and the window, without their including the rooms of the ranks.
#pragma once

#include "core/dist/interrupt.h"

namespace spscope::session {

using dist::holdInterrupts;
using dist::ignoreBrokenPipes;
using dist::InterruptGuard;
using dist::PauseGuard;
using dist::takeInterrupts;

}  // namespace spscope::session
