// SPDX-License-Identifier: Apache-2.0
// What every failing call returns: one reason why it cannot go on, with its place and a remedy.
// Codes are the kebab-case names of core/base/codes.h; `spscope explain CODE` prints their page.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spscope {

/// How a failure leaves the process: the exit codes of the command line.
enum class Outcome : std::uint8_t {
  kNo = 1,       ///< the answer is "no" (different, over a limit, a failed action)
  kUsage = 2,    ///< wrong arguments
  kRefused = 3,  ///< refused with reasons, before anything ran
  kRunFailed = 4,///< a run started and failed
};

/// One reason to stop. Cheap to move; strings are empty where they say nothing.
struct Error {
  std::string code;      ///< e.g. "archive-truncated"; always one of codes.h
  std::string message;   ///< one sentence: what is wrong, with the value that was met
  std::string node;      ///< graph node ("%linear_3"), where one is at fault
  std::string source;    ///< "model.py:41" or "file.pt2+1234", where known
  std::string remedy;    ///< what to do about it; empty: the code's own remedy holds
  std::string legal;     ///< what would be accepted (e.g. "--sp 1, 2, 4"), where a choice was refused
  Outcome outcome = Outcome::kRefused;
  std::vector<std::string> notes;

  /// "error[code]: message (node %x, model.py:41)\n  remedy: ..."
  std::string format() const;
};

/// Builds an error that refuses (exit code 3) unless another outcome is given.
Error makeError(std::string_view code, std::string message, Outcome outcome = Outcome::kRefused);

}  // namespace spscope
