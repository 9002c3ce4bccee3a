// SPDX-License-Identifier: Apache-2.0
#include "profiler/import/text_window.h"

#include <algorithm>
#include <cstring>

namespace spscope::trace {

Result<bool> TextWindow::more() {
  const std::size_t kept = size();
  if (buffer_.size() < kMargin + kept + block_ + kMargin) buffer_.resize(kMargin + kept + std::max(block_, kept / 2) + kMargin);
  if (from_ != kMargin) {
    std::memmove(buffer_.data() + kMargin, buffer_.data() + from_, kept);
    from_ = kMargin, to_ = kMargin + kept;
  }
  SP_ASSIGN(const std::size_t got, source_.read({buffer_.data() + to_, block_}));
  to_ += got;
  std::memset(buffer_.data() + to_, ' ', kMargin);
  return got != 0;
}

}  // namespace spscope::trace
