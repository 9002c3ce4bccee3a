// SPDX-License-Identifier: Apache-2.0
// std::getline would not do: std::ifstream goes on waiting after a signal, and std::cin takes the signal for the end.
#include "app/script_lines.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace spscope::app {
namespace {

constexpr int kLookMs = 100;  ///< between two looks at the token

}  // namespace

Result<ScriptLines> ScriptLines::open(const std::string& path) {
  if (path.empty() || path == "-") return ScriptLines("standard input", STDIN_FILENO, false);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return makeError("file-is-folder", path + " is a folder, not a file of commands", Outcome::kUsage);
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd >= 0) return ScriptLines(path, fd, true);
  const int reason = errno;
  if (reason == ENOENT) return makeError("file-missing", "there is no file " + path, Outcome::kUsage);
  return makeError("file-unreadable", path + ": " + std::strerror(reason), Outcome::kUsage);
}

ScriptLines::~ScriptLines() {
  if (own_) ::close(fd_);
}

ScriptLines::ScriptLines(ScriptLines&& other) noexcept
    : name_(std::move(other.name_)), fd_(other.fd_), own_(std::exchange(other.own_, false)), ended_(other.ended_), read_(std::move(other.read_)), begin_(other.begin_) {}

Result<std::optional<std::string>> ScriptLines::next(const CancelToken& cancel) {
  for (;;) {
    SP_TRY(cancel.check());
    const std::size_t end = read_.find('\n', begin_);
    if (end != std::string::npos || (ended_ && begin_ < read_.size())) {
      std::string line = read_.substr(begin_, end == std::string::npos ? end : end - begin_);
      begin_ = end == std::string::npos ? read_.size() : end + 1;
      if (line.ends_with('\r')) line.pop_back();
      return std::optional<std::string>(std::move(line));
    }
    if (ended_) return std::optional<std::string>();
    // A FIFO has nothing to say until somebody writes; until then it has not ended, either.
    pollfd wait{fd_, POLLIN, 0};
    const int ready = ::poll(&wait, 1, kLookMs);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    std::array<char, 4096> some;
    const ssize_t got = ready < 0 ? -1 : ::read(fd_, some.data(), some.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return makeError("file-unreadable", name_ + ": " + std::strerror(errno), Outcome::kUsage);
    read_.erase(0, std::exchange(begin_, 0));
    read_.append(some.data(), static_cast<std::size_t>(got));
    ended_ = got == 0;
  }
}

}  // namespace spscope::app
