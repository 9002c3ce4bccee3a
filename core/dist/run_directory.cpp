// SPDX-License-Identifier: Apache-2.0
#include "core/dist/run_directory.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "core/base/strings.h"

namespace spscope::dist {
namespace {

namespace fs = std::filesystem;
constexpr const char* kPrefix = "spscope-run-";
constexpr const char* kOwner = "launcher";  ///< holds the launcher's process id

void sweep(const fs::path& base) {
  std::error_code ignored;
  for (fs::directory_iterator it(base, ignored), end; it != end; it.increment(ignored)) {
    if (!it->path().filename().string().starts_with(kPrefix)) continue;
    struct stat info {};
    if (lstat(it->path().c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) continue;
    if (std::time(nullptr) - info.st_mtime < 24 * 3600) continue;
    long pid = 0;
    if (!(std::ifstream(it->path() / kOwner) >> pid) || pid <= 0 || kill(static_cast<pid_t>(pid), 0) == 0) continue;
    fs::remove_all(it->path(), ignored);
  }
}

}  // namespace

Result<RunDirectory> RunDirectory::create() {
  const char* base = std::getenv("TMPDIR");
  if (base == nullptr || *base == '\0') base = "/tmp";
  sweep(base);
  RunDirectory directory;
  directory.path_ = std::string(base) + "/" + kPrefix + "XXXXXX";
  if (mkdtemp(directory.path_.data()) == nullptr)  // 0700
    return makeError("run-directory", strf("cannot make a directory under %s: %s", base, std::strerror(errno)),
                     Outcome::kRunFailed);
  std::ofstream(directory.path_ + "/" + kOwner) << getpid() << "\n";
  return directory;
}

void RunDirectory::remove() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
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

}  // namespace spscope::dist
