// SPDX-License-Identifier: Apache-2.0
// Ctrl-C before main(): loading libtorch takes a few tenths of a second, in which the signal would end the process without
// the JSON object that --json promises. It waits until the command has its InterruptGuard.
#include "core/session/interrupt.h"

namespace {

void hold(int, char**, char**) { spscope::session::holdInterrupts(); }

// The first code of the program that runs: before the constructors of all shared libraries.
[[gnu::section(".preinit_array"), gnu::used]] void (*const g_hold)(int, char**, char**) = hold;

}  // namespace
