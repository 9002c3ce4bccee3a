// SPDX-License-Identifier: Apache-2.0
#include "profiler/import/byte_source.h"

#define ZLIB_CONST
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace spscope::trace {
namespace {

class File final : public ByteSource {
 public:
  File(std::string path, int handle, std::int64_t size) : path_(std::move(path)), handle_(handle), size_(size) {}
  ~File() override { ::close(handle_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  Result<std::size_t> read(std::span<char> to) override {
    std::size_t got = 0;
    while (got < to.size()) {
      const ssize_t n = ::read(handle_, to.data() + got, to.size() - got);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return makeError("file-unreadable", path_ + ": " + std::strerror(errno));
      if (n == 0) break;
      got += static_cast<std::size_t>(n);
    }
    consumed_ += static_cast<std::int64_t>(got);
    return got;
  }
  std::int64_t consumed() const override { return consumed_; }
  std::int64_t total() const override { return size_; }

 private:
  std::string path_;
  int handle_;
  std::int64_t size_, consumed_ = 0;
};

class Memory final : public ByteSource {
 public:
  explicit Memory(std::span<const std::byte> bytes) : bytes_(bytes) {}
  Result<std::size_t> read(std::span<char> to) override {
    const std::size_t n = std::min(to.size(), bytes_.size() - at_);
    if (n != 0) std::memcpy(to.data(), bytes_.data() + at_, n);
    at_ += n;
    return n;
  }
  std::int64_t consumed() const override { return static_cast<std::int64_t>(at_); }
  std::int64_t total() const override { return static_cast<std::int64_t>(bytes_.size()); }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

class Gunzip final : public ByteSource {
 public:
  explicit Gunzip(std::unique_ptr<ByteSource> packed) : packed_(std::move(packed)), input_(64 << 10) {
    // 15 + 16: gzip only.
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) ended_ = cut_ = true;
  }
  ~Gunzip() override { inflateEnd(&stream_); }
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  Result<std::size_t> read(std::span<char> to) override {
    stream_.next_out = reinterpret_cast<Bytef*>(to.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(to.size(), 1u << 30));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out != 0 && !ended_) {
      if (stream_.avail_in == 0) {
        SP_ASSIGN(const std::size_t n, packed_->read(input_));
        if (n == 0) {  // the end of the file: fine only between two members
          ended_ = true, cut_ = !between_;
          break;
        }
        stream_.next_in = reinterpret_cast<const Bytef*>(input_.data());
        stream_.avail_in = static_cast<uInt>(n);
      }
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_STREAM_END) {
        between_ = true;
        inflateReset(&stream_);
      } else if (code == Z_OK) {
        between_ = false;
      } else if (code != Z_BUF_ERROR) {
        ended_ = true;
        cut_ = !between_;  // what follows a whole member and is no gzip is padding
      }
    }
    return static_cast<std::size_t>(wanted - stream_.avail_out);
  }
  std::int64_t consumed() const override { return packed_->consumed(); }
  std::int64_t total() const override { return packed_->total(); }
  bool cutShort() const override { return cut_; }

 private:
  std::unique_ptr<ByteSource> packed_;
  std::vector<char> input_;
  z_stream stream_{};
  bool ended_ = false, cut_ = false, between_ = false;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> openFile(const std::string& path) {
  const int handle = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (handle < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return makeError("file-missing", path + " does not exist");
    return makeError("file-unreadable", path + ": " + std::strerror(errno));
  }
  struct stat info {};
  const bool known = ::fstat(handle, &info) == 0;
  auto file = std::make_unique<File>(path, handle, known && S_ISREG(info.st_mode) ? std::int64_t{info.st_size} : 0);
  if (known && S_ISDIR(info.st_mode)) return makeError("file-is-folder", path + " is a folder");
  if (known && S_ISREG(info.st_mode) && info.st_size == 0) return makeError("file-empty", path + " has no bytes");
  return std::unique_ptr<ByteSource>(std::move(file));
}

std::unique_ptr<ByteSource> bytesInMemory(std::span<const std::byte> bytes) { return std::make_unique<Memory>(bytes); }

std::unique_ptr<ByteSource> gunzip(std::unique_ptr<ByteSource> packed) { return std::make_unique<Gunzip>(std::move(packed)); }

}  // namespace spscope::trace
