// SPDX-License-Identifier: Apache-2.0
// Starts one rank: its own process group, output to a log file, one line (a socket) to the launcher. posix_spawn, because
// a bare fork of a process that runs libtorch copies its page tables and may inherit locks that are never released.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace spscope::dist {

struct SpawnSpec {
  std::string program;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  ///< added to this process's; the child also gets SPSCOPE_FD
  std::string log;                                 ///< standard output and standard error
  int control = -1;                                ///< a socket that the child also gets, named by SPSCOPE_CONTROL; stays the caller's. -1: none
};

struct Child {
  pid_t pid = -1;
  int fd = -1;  ///< the launcher's end of the line; close-on-exec
};

/// Error rank-start.
Result<Child> spawn(const SpawnSpec& spec);

}  // namespace spscope::dist
