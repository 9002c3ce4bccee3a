// SPDX-License-Identifier: Apache-2.0
#include "profiler/record/spool.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace spscope::trace {

Result<std::unique_ptr<SpoolWriter>> SpoolWriter::create(const std::string& path, std::int64_t cap_bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return makeError("file-unwritable", path + ": " + std::strerror(errno), Outcome::kRunFailed);
  std::unique_ptr<SpoolWriter> writer(new SpoolWriter(file, cap_bytes));
  if (::write(file, kSpoolMagic.data(), kSpoolMagic.size()) != static_cast<ssize_t>(kSpoolMagic.size()))
    return makeError("file-unwritable", path + ": " + std::strerror(errno), Outcome::kRunFailed);
  return writer;
}

SpoolWriter::~SpoolWriter() { ::close(file_); }

bool SpoolWriter::write(SpoolBlock kind, const void* data, std::size_t bytes) {
  if (error_ != 0) return false;
  SpoolBlockHead head{static_cast<std::uint32_t>(kind), static_cast<std::uint32_t>(bytes)};
  // One call for head and payload; what a full disk leaves half written the reader recognises as the end.
  const iovec parts[] = {{&head, sizeof head}, {const_cast<void*>(data), bytes}};
  ssize_t done = 0;
  do done = ::writev(file_, parts, 2);
  while (done < 0 && errno == EINTR);
  if (done != static_cast<ssize_t>(sizeof head + bytes)) {
    error_ = done < 0 ? errno : ENOSPC;
    return false;
  }
  written_ += done;
  return true;
}

bool SpoolWriter::append(SpoolBlock kind, const void* data, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const bool record = kind == SpoolBlock::kHost || kind == SpoolBlock::kDevice || kind == SpoolBlock::kExternal;
  if (record && written_ + static_cast<std::int64_t>(sizeof(SpoolBlockHead) + bytes) > cap_) {
    full_ = true;
    return false;
  }
  return write(kind, data, bytes);
}

std::uint32_t SpoolWriter::string(std::string_view text, std::uint32_t limit) {
  if (text.empty()) return 0;
  const std::lock_guard lock(mutex_);
  std::string key(text);
  if (const auto it = strings_.find(key); it != strings_.end()) return it->second;
  if (full_ || strings_.size() + 2 >= limit) {  // 0 is empty, the last one is "..."
    key = "...";
    if (const auto it = strings_.find(key); it != strings_.end()) return it->second;
  }
  const auto id = static_cast<std::uint32_t>(strings_.size() + 1);
  std::string payload(8, '\0');
  const auto length = static_cast<std::uint32_t>(key.size());
  std::memcpy(payload.data(), &id, 4);
  std::memcpy(payload.data() + 4, &length, 4);
  payload += key;
  write(SpoolBlock::kStrings, payload.data(), payload.size());
  strings_.emplace(std::move(key), id);
  return id;
}

std::int64_t SpoolWriter::bytesWritten() const {
  const std::lock_guard lock(mutex_);
  return written_;
}

Status SpoolWriter::status() const {
  const std::lock_guard lock(mutex_);
  if (error_ == 0) return {};
  return makeError("file-unwritable", std::string("the profile: ") + std::strerror(error_), Outcome::kRunFailed);
}

}  // namespace spscope::trace
