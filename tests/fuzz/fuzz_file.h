// SPDX-License-Identifier: Apache-2.0
// The input as a file, for readers that take paths: one in memory (/dev/shm where there is one), written anew for each input.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/fuzz/fuzz_input.h"

namespace spscope::fuzz {

/// Its path; the file holds these bytes until the next call.
inline std::string fileOf(const std::uint8_t* data, std::size_t size) {
  static const std::string path = [] {
    std::string name = access("/dev/shm", W_OK) == 0 ? "/dev/shm/spscope-fuzz-XXXXXX" : "/tmp/spscope-fuzz-XXXXXX";
    const int made = mkstemp(name.data());
    require(made >= 0, "there is a place for the input");
    close(made);
    static const std::string left = name;
    std::atexit([] { unlink(left.c_str()); });
    return name;
  }();
  const int file = open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  require(file >= 0 && write(file, data, size) == static_cast<ssize_t>(size), "the input can be written");
  close(file);
  return path;
}

}  // namespace spscope::fuzz
