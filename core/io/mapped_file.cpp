// SPDX-License-Identifier: Apache-2.0
#include "core/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace spscope::io {

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe without a writer must not block us
  if (fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return makeError("file-missing", "there is no file " + path);
    return makeError("file-unreadable", path + ": " + std::strerror(errno));
  }
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    Error error = makeError("file-unreadable", path + ": " + std::strerror(errno));
    ::close(fd);
    return error;
  }
  if (S_ISDIR(info.st_mode)) {
    ::close(fd);
    return makeError("file-is-folder", path + " is a folder, not a file");
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(fd);
    return makeError("file-unreadable", path + " is not a regular file");
  }
  if (info.st_size == 0) {
    ::close(fd);
    return makeError("file-empty", path + " is empty (0 bytes)");
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int mapping_error = errno;
  ::close(fd);
  if (data == MAP_FAILED) return makeError("file-unreadable", path + ": " + std::strerror(mapping_error));
  return std::shared_ptr<const MappedFile>(new MappedFile(path, static_cast<const std::byte*>(data), size));
}

std::shared_ptr<const MappedFile> MappedFile::ofBytes(std::string path, std::vector<std::byte> bytes) {
  return std::shared_ptr<const MappedFile>(new MappedFile(std::move(path), std::move(bytes)));
}

MappedFile::~MappedFile() {
  if (owned_.empty() && size_ > 0) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace spscope::io
