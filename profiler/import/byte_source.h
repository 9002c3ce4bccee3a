// SPDX-License-Identifier: Apache-2.0
// Bytes from a file, from memory, or out of gzip, in pieces: a trace is never held as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/base/result.h"

namespace spscope::trace {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills `to` from its beginning; fewer bytes than asked for only at the end. Errors: file-unreadable.
  virtual Result<std::size_t> read(std::span<char> to) = 0;
  /// Of the file, for progress.
  virtual std::int64_t consumed() const = 0;
  virtual std::int64_t total() const = 0;
  /// The end that was reached is not the end that the data announced (gzip cut short or damaged).
  virtual bool cutShort() const { return false; }
};

/// Errors: file-missing, file-is-folder, file-unreadable, file-empty.
Result<std::unique_ptr<ByteSource>> openFile(const std::string& path);
/// `bytes` must outlive it.
std::unique_ptr<ByteSource> bytesInMemory(std::span<const std::byte> bytes);
/// One or several gzip members one after the other; bytes that follow them are ignored, as gzip does.
std::unique_ptr<ByteSource> gunzip(std::unique_ptr<ByteSource> packed);

}  // namespace spscope::trace
