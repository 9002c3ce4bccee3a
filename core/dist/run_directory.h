// SPDX-License-Identifier: Apache-2.0
// The private directory of one run: where its ranks meet, where their state and their logs are. Mode 0700, under TMPDIR.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"

namespace spscope::dist {

/// Directories that their runs have left behind (failed, killed): the newest so many stay, a week at most.
inline constexpr int kKeptRuns = 10;

/// Held by a lock on a file in it, so that nobody takes it for one that was left behind; the lock ends with the object, or
/// with the process, however that ends.
class RunDirectory {
 public:
  /// Makes a fresh one under TMPDIR (/tmp), and removes what earlier runs have left there: see kKeptRuns; one without the
  /// output of a rank is of no use to people and goes at once. Error run-directory (kRefused: nothing has begun).
  static Result<RunDirectory> create();
  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&& other) noexcept;
  ~RunDirectory();

  const std::string& path() const { return path_; }
  /// Removes it with all it holds. Without this call it stays.
  void remove();
  /// Removes what only the ranks needed: what they wrote for people stays.
  void keepLogs();

 private:
  RunDirectory() = default;
  std::string path_;
  int lock_ = -1;
};

std::string stateFile(const std::string& directory, int rank);
std::string requestFile(const std::string& directory);
std::string logFile(const std::string& directory, int rank);
/// The last lines of a file, oldest first; an unfinished last line counts. Reads at most the last 64 KiB.
std::vector<std::string> lastLines(const std::string& path, std::size_t count);
/// The whole text, or the reason (a full disk, mostly) in error run-directory.
Status writeText(const std::string& path, const std::string& text);

}  // namespace spscope::dist
