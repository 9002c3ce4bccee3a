// SPDX-License-Identifier: Apache-2.0
#include "core/dist/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <utility>

#include "core/base/strings.h"

namespace spscope::dist {
namespace {

namespace fs = std::filesystem;
constexpr const char* kPrefix = "spscope-run-";
constexpr const char* kLock = "launcher";  ///< locked by the run; holds its process id, for people
constexpr std::time_t kWeek = 7 * 24 * 3600;
constexpr std::time_t kMinute = 60;

/// Whether the run that made it has ended. A lock, not the process id: ids come again, and mean nothing where several
/// containers share a TMPDIR.
bool isLeftBehind(const fs::path& directory) {
  const int fd = ::open((directory / kLock).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT;
  const bool free = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  ::close(fd);
  return free;
}

void sweep(const fs::path& base) {
  const std::time_t now = std::time(nullptr);
  std::vector<std::pair<std::time_t, fs::path>> kept;
  std::error_code ignored;
  for (fs::directory_iterator it(base, ignored), end; it != end; it.increment(ignored)) {
    if (!it->path().filename().string().starts_with(kPrefix)) continue;
    struct stat info {};
    if (::lstat(it->path().c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != ::geteuid()) continue;
    if (now - info.st_mtime < kMinute || !isLeftBehind(it->path())) continue;  // a minute: it may be in the making
    if (now - info.st_mtime > kWeek || !fs::exists(logFile(it->path().string(), 0), ignored))
      fs::remove_all(it->path(), ignored);
    else
      kept.emplace_back(info.st_mtime, it->path());
  }
  std::sort(kept.rbegin(), kept.rend());
  for (std::size_t i = kKeptRuns; i < kept.size(); ++i) fs::remove_all(kept[i].second, ignored);
}

Error directoryError(const std::string& what, int error) {
  return makeError("run-directory", what + ": " + std::strerror(error), Outcome::kRefused);
}

}  // namespace

Result<RunDirectory> RunDirectory::create() {
  const char* variable = std::getenv("TMPDIR");
  const std::string base = variable == nullptr || *variable == '\0' ? "/tmp" : variable;
  sweep(base);
  RunDirectory directory;
  std::string path = base + "/" + kPrefix + "XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return directoryError("cannot make a directory under " + base, errno);  // 0700
  directory.path_ = path;
  const std::string lock = path + "/" + kLock;
  directory.lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  // Where the file system has no locks, nobody else can lock it either, and it is swept by nobody.
  if (directory.lock_ >= 0) (void)::flock(directory.lock_, LOCK_EX | LOCK_NB);
  if (Status written = writeText(lock, std::to_string(::getpid()) + "\n"); !written) {
    directory.remove();
    return written.error();
  }
  return directory;
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::exchange(other.lock_, -1)) {}

RunDirectory& RunDirectory::operator=(RunDirectory&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  return *this;
}

RunDirectory::~RunDirectory() {
  if (lock_ >= 0) ::close(lock_);
}

void RunDirectory::remove() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void RunDirectory::keepLogs() {
  std::error_code ignored;
  std::vector<fs::path> unwanted;
  for (fs::directory_iterator it(path_, ignored), end; it != end; it.increment(ignored))
    if (it->path().extension() != ".log" && it->path().filename() != kLock) unwanted.push_back(it->path());
  for (const fs::path& path : unwanted) fs::remove(path, ignored);
}

std::string stateFile(const std::string& directory, int rank) { return strf("%s/rank%d.state", directory.c_str(), rank); }
std::string requestFile(const std::string& directory) { return directory + "/request"; }
std::string logFile(const std::string& directory, int rank) { return strf("%s/rank%d.log", directory.c_str(), rank); }

std::vector<std::string> lastLines(const std::string& path, std::size_t count) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return {};
  const auto size = static_cast<std::int64_t>(in.tellg());
  const std::int64_t begin = std::max<std::int64_t>(0, size - 64 * 1024);
  std::string text(static_cast<std::size_t>(size - begin), '\0');
  in.seekg(begin);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, in.gcount())));
  if (text.ends_with('\n')) text.pop_back();
  if (text.empty()) return {};
  std::vector<std::string> lines = split(text, '\n');
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  return lines;
}

Status writeText(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) return directoryError("cannot write " + path, errno != 0 ? errno : EIO);
  return {};
}

}  // namespace spscope::dist
