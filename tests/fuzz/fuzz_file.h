// SPDX-License-Identifier: Apache-2.0
// The input as a file, for readers that take paths: one in memory (/dev/shm where there is one), written anew for each input.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "tests/fuzz/fuzz_input.h"

namespace spscope::fuzz {

/// A folder for the files of one process.
inline const std::string& ownFolder() {
  static const std::string folder = [] {
    std::string name = access("/dev/shm", W_OK) == 0 ? "/dev/shm/spscope-fuzz-XXXXXX" : "/tmp/spscope-fuzz-XXXXXX";
    require(mkdtemp(name.data()) != nullptr, "there is a place for files");
    static const std::string left = name;
    std::atexit([] {
      std::error_code ignored;
      std::filesystem::remove_all(left, ignored);
    });
    return name;
  }();
  return folder;
}

/// Its path; the file holds these bytes until the next call.
inline std::string fileOf(const std::uint8_t* data, std::size_t size) {
  static const std::string path = ownFolder() + "/input";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  require(file >= 0 && write(file, data, size) == static_cast<ssize_t>(size), "the input can be written");
  close(file);
  return path;
}

}  // namespace spscope::fuzz
