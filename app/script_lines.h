// SPDX-License-Identifier: Apache-2.0
// The lines of a script, as they come: from a file, a pipe or a FIFO. The wait for the next one can be cancelled.
#pragma once

#include <optional>
#include <string>

#include "core/base/cancel.h"
#include "core/base/result.h"

namespace spscope::app {

class ScriptLines {
 public:
  /// "" and "-": standard input. A FIFO that nobody writes to yet is opened at once. Errors: file-missing, file-is-folder,
  /// file-unreadable.
  static Result<ScriptLines> open(const std::string& path);
  ~ScriptLines();
  ScriptLines(ScriptLines&& other) noexcept;
  ScriptLines& operator=(ScriptLines&&) = delete;

  /// Without its end (\n or \r\n); nullopt after the last one. Errors: cancelled, within a tenth of a second; file-unreadable.
  Result<std::optional<std::string>> next(const CancelToken& cancel);

 private:
  ScriptLines(std::string name, int fd, bool own) : name_(std::move(name)), fd_(fd), own_(own) {}

  std::string name_;
  int fd_;
  bool own_;            ///< closed at the end
  bool ended_ = false;
  std::string read_;    ///< of it, from `begin_` on is not given out yet
  std::size_t begin_ = 0;
};

}  // namespace spscope::app
