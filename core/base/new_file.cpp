// SPDX-License-Identifier: Apache-2.0
#include "core/base/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

namespace spscope {
namespace fs = std::filesystem;

namespace {
/// `remedy` where the code's own, about permissions and space, does not help.
Error unwritable(const std::string& path, const std::string& why, const char* remedy = "") {
  Error error = makeError("file-unwritable", path + ": " + why, Outcome::kNo);
  error.remedy = remedy;
  return error;
}
}  // namespace

// By process: two that write the same file must not write into each other's.
NewFile::NewFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".tmp-" + std::to_string(::getpid())) {}

Result<NewFile> NewFile::at(const std::string& path) {
  std::error_code failed;
  const fs::file_status what = fs::status(path, failed);
  if (fs::is_directory(what)) return unwritable(path, "is a folder", "Name a file in it.");
  if (fs::exists(what) && !fs::is_regular_file(what)) return unwritable(path, "is no regular file", "Name another file.");
  const fs::path target = fs::is_regular_file(what) ? fs::canonical(path, failed) : fs::path(path);
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, failed)) return unwritable(path, "the folder " + folder.string() + " does not exist", "Make the folder, or name a file in one that is there.");
  NewFile out(target.string());
  fs::remove(out.temporary_, failed);
  return out;
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, {})) {}

NewFile::~NewFile() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove(temporary_, ignored);
}

Status NewFile::commit() {
  const int file = ::open(temporary_.c_str(), O_RDONLY | O_CLOEXEC);
  const bool stored = file >= 0 && ::fsync(file) == 0;
  const int reason = errno;
  if (file >= 0) ::close(file);
  if (!stored) return unwritable(path_, std::strerror(reason));
  std::error_code failed;
  fs::rename(temporary_, path_, failed);
  if (failed) return unwritable(path_, failed.message());
  temporary_.clear();
  return {};
}

Status writeWholeFile(const std::string& path, std::span<const std::string_view> parts) {
  SP_ASSIGN(NewFile file, NewFile::at(path));
  errno = 0;
  std::ofstream out(file.temporary(), std::ios::binary | std::ios::trunc);
  for (const std::string_view part : parts) out.write(part.data(), static_cast<std::streamsize>(part.size()));
  out.close();
  if (!out) return unwritable(path, errno != 0 ? std::strerror(errno) : "writing failed");
  return file.commit();
}

Status writeWholeFile(const std::string& path, std::string_view bytes) { return writeWholeFile(path, std::span(&bytes, 1)); }

}  // namespace spscope
