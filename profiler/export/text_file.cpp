// SPDX-License-Identifier: Apache-2.0
#include "profiler/export/text_file.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>

namespace spscope::trace {
namespace {
gzFile asGzip(void* handle) { return static_cast<gzFile>(handle); }
}  // namespace

void TextFile::Closer::operator()(void* handle) const { gzclose(asGzip(handle)); }

Error TextFile::failed() const {
  const int reason = errno;
  return makeError("file-unwritable", path_ + ": " + (reason ? std::strerror(reason) : "writing failed"), Outcome::kNo);
}

Result<TextFile> TextFile::create(const std::string& path) {
  SP_ASSIGN(NewFile file, NewFile::at(path));
  TextFile out(std::move(file), path);
  errno = 0;
  // T: zlib writes the bytes as they are.
  out.handle_.reset(gzopen(out.file_.temporary().c_str(), path.ends_with(".gz") ? "wbe4" : "wbeT"));
  if (!out.handle_) return out.failed();
  gzbuffer(asGzip(out.handle_.get()), 1 << 17);
  return out;
}

Status TextFile::write() {
  errno = 0;
  const auto bytes = static_cast<unsigned>(buffer_.size());
  if (bytes > 0 && gzwrite(asGzip(handle_.get()), buffer_.data(), bytes) != static_cast<int>(bytes)) return failed();
  buffer_.clear();
  return {};
}

Result<NewFile> TextFile::finish() {
  SP_TRY(write());
  errno = 0;
  if (gzclose(asGzip(handle_.release())) != Z_OK) return failed();
  return std::move(file_);
}

Status TextFile::close() {
  SP_ASSIGN(NewFile file, finish());
  return file.commit();
}

}  // namespace spscope::trace
