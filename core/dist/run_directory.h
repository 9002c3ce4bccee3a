// SPDX-License-Identifier: Apache-2.0
// The private directory of one run: where its ranks meet, where their state and their logs are. Mode 0700, under TMPDIR.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"

namespace spscope::dist {

class RunDirectory {
 public:
  /// Makes a fresh one under TMPDIR (/tmp). Also removes what runs that were killed a day or longer ago have left there.
  /// Error run-directory.
  static Result<RunDirectory> create();
  const std::string& path() const { return path_; }
  /// Removes it with all it holds.
  void remove();

 private:
  std::string path_;
};

std::string stateFile(const std::string& directory, int rank);
std::string requestFile(const std::string& directory);
std::string logFile(const std::string& directory, int rank);
/// The last lines of a file, oldest first; an unfinished last line counts. Reads at most the last 64 KiB.
std::vector<std::string> lastLines(const std::string& path, std::size_t count);

}  // namespace spscope::dist
