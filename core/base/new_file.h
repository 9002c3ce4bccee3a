// SPDX-License-Identifier: Apache-2.0
// A file that appears whole or not at all: it is written beside its place under another name and renamed at the end.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace spscope {

class NewFile {
 public:
  /// Nothing is created yet; a temporary file that an earlier attempt left behind is removed. A link is followed.
  /// Errors: file-unwritable (no such folder, or the path is a folder or a device).
  static Result<NewFile> at(const std::string& path);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  /// Removes the temporary file where commit() was not called or failed.
  ~NewFile();

  /// Where to write.
  const std::string& temporary() const { return temporary_; }
  /// To the disk, and into place. Errors: file-unwritable.
  Status commit();

 private:
  explicit NewFile(std::string path);
  std::string path_, temporary_;
};

/// Writes all parts, one behind the other, as the whole file at `path`; an older one stays when that fails.
/// Errors: file-unwritable.
Status writeWholeFile(const std::string& path, std::span<const std::string_view> parts);
Status writeWholeFile(const std::string& path, std::string_view bytes);

}  // namespace spscope
