// SPDX-License-Identifier: Apache-2.0
// Before main(), before even the constructors of the shared libraries:
// Ctrl-C: loading libtorch takes a few tenths of a second, in which the signal would end the process without the JSON object
// that --json promises. It waits until the command has its InterruptGuard.
// Closed standard streams (`>&-`, some daemons): the next file or socket would get their numbers, and what is printed would
// go into it; a line to a rank would take the progress messages for a request to stop.
#include <fcntl.h>
#include <unistd.h>

#include "core/session/interrupt.h"

namespace {

void prepare(int, char**, char**) {
  spscope::session::holdInterrupts();
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", O_RDWR);  // takes the lowest number that is free: this one
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const g_prepare)(int, char**, char**) = prepare;

}  // namespace
