// SPDX-License-Identifier: Apache-2.0
// A text file that is written piece by piece, plain or gzip by its name (.gz), and appears whole or not at all.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/base/new_file.h"
#include "core/base/result.h"

namespace spscope::trace {

class TextFile {
 public:
  /// Errors: file-unwritable.
  static Result<TextFile> create(const std::string& path);
  TextFile(TextFile&&) noexcept = default;

  /// Appends; what cannot be written is said by flush or close.
  std::string& buffer() { return buffer_; }
  /// Hands the buffer over when it has grown. Call it every few lines. Errors: file-unwritable.
  Status flush() { return buffer_.size() < kBlock ? Status() : write(); }
  /// Errors: file-unwritable.
  Status close();
  /// All is written, but the file does not appear yet: commit the result, or drop it and nothing was there. Errors: file-unwritable.
  Result<NewFile> finish();

 private:
  static constexpr std::size_t kBlock = 1 << 18;
  struct Closer {
    void operator()(void* handle) const;
  };
  TextFile(NewFile file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  Status write();
  Error failed() const;
  NewFile file_;
  std::string path_, buffer_;
  std::unique_ptr<void, Closer> handle_;
};

}  // namespace spscope::trace
