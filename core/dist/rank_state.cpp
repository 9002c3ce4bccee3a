// SPDX-License-Identifier: Apache-2.0
#include "core/dist/rank_state.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "core/base/clock.h"
#include "core/base/strings.h"

namespace spscope::dist {
namespace {

Result<std::shared_ptr<RankBlock>> map(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_RDWR | O_CLOEXEC, 0600);
  const auto failed = [&](const char* what) {
    const int error = errno;
    if (fd >= 0) close(fd);
    return makeError("run-directory", strf("cannot %s %s: %s", what, path.c_str(), std::strerror(error)));
  };
  if (fd < 0) return failed("open");
  struct stat info {};
  if ((flags & O_CREAT) != 0) {
    errno = posix_fallocate(fd, 0, sizeof(RankBlock));  // a full disk must not become SIGBUS
    if (errno != 0) return failed("allocate");
  } else if (fstat(fd, &info) != 0 || info.st_size < static_cast<off_t>(sizeof(RankBlock))) {
    return failed("read");
  }
  void* memory = mmap(nullptr, sizeof(RankBlock), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return failed("map");
  close(fd);
  auto* block = (flags & O_CREAT) != 0 ? new (memory) RankBlock : static_cast<RankBlock*>(memory);
  return std::shared_ptr<RankBlock>(block, [](RankBlock* b) { munmap(b, sizeof(RankBlock)); });
}

}  // namespace

void SharedText::set(std::string_view text) noexcept {
  const std::uint32_t next = 1 - current_.load(std::memory_order_relaxed);
  const std::size_t n = std::min(text.size(), kTextBytes - 1);
  std::memcpy(half_[next], text.data(), n);
  half_[next][n] = '\0';
  current_.store(next, std::memory_order_release);
}

std::string SharedText::get() const {
  const char* text = half_[current_.load(std::memory_order_acquire) & 1];
  return std::string(text, strnlen(text, kTextBytes));
}

Result<RankState> RankState::create(const std::string& path) {
  RankState state;
  SP_ASSIGN(state.block_, map(path, O_CREAT | O_EXCL));
  return state;
}

Result<RankState> RankState::open(const std::string& path) {
  RankState state;
  SP_ASSIGN(state.block_, map(path, 0));
  return state;
}

RankState RankState::detached() {
  RankState state;
  state.block_ = std::make_shared<RankBlock>();
  return state;
}

RankSnapshot RankState::snapshot() const {
  RankSnapshot s;
  s.phase = block_->phase.get();
  s.node = block_->node.get();
  s.step = block_->step.load(std::memory_order_relaxed);
  s.collective = block_->collective.get();
  s.sequence = block_->sequence.load(std::memory_order_relaxed);
  s.inside_collective = block_->inside.load(std::memory_order_relaxed) != 0;
  s.progress = block_->progress.load(std::memory_order_relaxed);
  s.patience = std::max<std::int64_t>(1, block_->patience.load(std::memory_order_relaxed));
  s.heartbeat_ns = block_->heartbeat_ns.load(std::memory_order_relaxed);
  return s;
}

}  // namespace spscope::dist
