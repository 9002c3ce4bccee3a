// SPDX-License-Identifier: Apache-2.0
// How much memory a piece of code asked for at once: counts what operator new hands out. Include it in one file of a test
// program only; it replaces the program's operator new. Counts nothing under sanitizers, whose allocator must see all.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace spscope::testing {

inline std::atomic<std::ptrdiff_t> heap_now{0}, heap_peak{0};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kHeapCounted = false;
#else
inline constexpr bool kHeapCounted = true;
#endif

/// Bytes above those at its construction that were held at once while it lived.
class HeapPeak {
 public:
  HeapPeak() : start_(heap_now) { heap_peak = start_; }
  std::ptrdiff_t bytes() const { return heap_peak - start_; }

 private:
  std::ptrdiff_t start_;
};

}  // namespace spscope::testing

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(std::size_t size) {
  using namespace spscope::testing;
  void* const memory = std::malloc(size);
  if (!memory) throw std::bad_alloc();
  const std::ptrdiff_t now = heap_now += static_cast<std::ptrdiff_t>(malloc_usable_size(memory));
  if (now > heap_peak) heap_peak = now;
  return memory;
}
void operator delete(void* memory) noexcept {
  spscope::testing::heap_now -= static_cast<std::ptrdiff_t>(malloc_usable_size(memory));
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
#endif
