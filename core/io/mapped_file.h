// SPDX-License-Identifier: Apache-2.0
// A file mapped read-only: the bytes are paged in when they are looked at, so opening a 20 GB archive costs nothing.
// Or bytes in memory that stand for a file.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"

namespace spscope::io {

class MappedFile {
 public:
  /// Errors: file-missing, file-unreadable, file-is-folder, file-empty. Never throws.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  /// Bytes that never were a file (a test's, a fuzzer's); `path` only names them in errors. Every size is allowed, 0 too.
  static std::shared_ptr<const MappedFile> ofBytes(std::string path, std::vector<std::byte> bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::size_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, const std::byte* data, std::size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}
  MappedFile(std::string path, std::vector<std::byte> bytes)
      : path_(std::move(path)), owned_(std::move(bytes)), data_(owned_.data()), size_(owned_.size()) {}
  std::string path_;
  std::vector<std::byte> owned_;  ///< empty: data_ is a mapping
  const std::byte* data_;
  std::size_t size_;
};

}  // namespace spscope::io
