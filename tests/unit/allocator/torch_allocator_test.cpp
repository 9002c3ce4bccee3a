// SPDX-License-Identifier: Apache-2.0
// The replay of PyTorch's caching allocator beside the allocator itself: libc10_cuda of the wheel, on a device that a
// stand-in for libcudart makes up. After each of thousands of requests both have asked for, use and hold the same bytes.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/cuda/PeerToPeerAccess.h>
#include <c10/util/Logging.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "passes/memory/allocation_trace.h"
#include "tests/support/fake_cudart/fake_cudart.h"
#include "tests/support/joint_builder.h"

namespace c10::cuda::_internal {
void setHasPrimaryContext(bool (*ask)(DeviceIndex));  // in the library, in no header: libtorch_cuda's part when it starts
}

namespace spscope::passes {
namespace {

namespace torch_allocator = c10::cuda::CUDACachingAllocator;

constexpr std::int64_t kMiB = 1 << 20;

/// The real one, empty at the beginning of each test.
class TorchAllocator {
 public:
  explicit TorchAllocator(const CachingOptions& options) {
    static const bool ready = [] {
      FLAGS_caffe2_log_level = 2;  // that a device has no more is what these tests are about
      c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
      c10::cuda::detail::init_p2p_access_cache(1);
      fakeCudaCapacity(std::size_t{1} << 40);  // the address space of an expandable segment is made for it
      torch_allocator::init(1);
      for (int i = 0; i < 3; ++i) streams().push_back(c10::cuda::getStreamFromPool(i > 0, 0));
      return true;
    }();
    (void)ready;
    EXPECT_EQ(fakeCudaGiven(), 0U) << "an earlier test has left something";
    c10::CachingAllocator::setAllocatorSettings(options.expandable ? "expandable_segments:True" : "expandable_segments:False");
    fakeCudaCapacity(static_cast<std::size_t>(std::min(options.capacity, std::int64_t{1} << 40)));
    torch_allocator::resetAccumulatedStats(0);
    torch_allocator::resetPeakStats(0);
  }
  ~TorchAllocator() { torch_allocator::emptyCache(); }
  TorchAllocator(const TorchAllocator&) = delete;
  TorchAllocator& operator=(const TorchAllocator&) = delete;

  /// Null: out of memory.
  c10::DataPtr allocate(std::int64_t bytes, int stream) {
    c10::cuda::setCurrentCUDAStream(streams()[static_cast<std::size_t>(stream)]);
    try {
      return torch_allocator::get()->allocate(static_cast<std::size_t>(bytes));
    } catch (const c10::OutOfMemoryError&) {
      return {};
    }
  }
  void usedOn(const c10::DataPtr& block, int stream) { torch_allocator::recordStream(block, streams()[static_cast<std::size_t>(stream)]); }
  void reached(int stream) { fakeCudaReached(streams()[static_cast<std::size_t>(stream)].stream()); }

  c10::CachingDeviceAllocator::DeviceStats stats() const { return torch_allocator::getDeviceStats(0); }

 private:
  static std::vector<c10::cuda::CUDAStream>& streams() {
    static std::vector<c10::cuda::CUDAStream> it;
    return it;
  }
};

struct Traffic {
  std::uint32_t seed = 1;
  bool expandable = false;
  std::int64_t capacity = std::int64_t{1} << 39;
  int streams = 3;
};

/// The same requests to both. What was refused, and what needed a second try.
void compare(const Traffic& t, std::int64_t& refused, std::int64_t& retried) {
  SCOPED_TRACE(::testing::Message() << "seed " << t.seed << (t.expandable ? ", expandable" : "") << ", capacity " << t.capacity << ", streams " << t.streams);
  std::mt19937 random(t.seed);
  const auto upTo = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
  const CachingOptions options{.capacity = t.capacity, .expandable = t.expandable};
  CachingAllocator ours(options);
  TorchAllocator theirs(options);
  struct Live {
    std::int64_t address;
    c10::DataPtr block;
  };
  std::vector<Live> live;
  for (int i = 0; i < 2000; ++i) {
    SCOPED_TRACE(::testing::Message() << "request " << i);
    const std::int64_t what = upTo(100);
    if (what < 44 && !live.empty()) {
      const auto it = live.begin() + upTo(static_cast<std::int64_t>(live.size()));
      std::vector<int> used_on;
      for (int s = 0; s < t.streams; ++s)
        if (upTo(5) == 0) used_on.push_back(s), theirs.usedOn(it->block, s);
      ours.free(it->address, used_on);
      live.erase(it);
    } else if (what < 52) {
      const int stream = static_cast<int>(upTo(t.streams));
      ours.reached(stream);
      theirs.reached(stream);
    } else if (what == 52) {
      ours.releaseCached();
      torch_allocator::emptyCache();
      for (int s = 0; s < t.streams; ++s) ours.reached(s), theirs.reached(s);  // emptyCache waits for the device
      ours.releaseCached();
      torch_allocator::emptyCache();
    } else {
      const std::int64_t sizes[] = {upTo(2048), upTo(3 * kMiB / 2), upTo(12 * kMiB), 8 * kMiB + upTo(60) * kMiB / 2 + upTo(3) * 512};
      const std::int64_t bytes = 1 + sizes[upTo(4)];
      const int stream = static_cast<int>(upTo(t.streams));
      const auto address = ours.allocate(bytes, stream);
      c10::DataPtr block = theirs.allocate(bytes, stream);
      ASSERT_EQ(address.has_value(), block.get() != nullptr);
      refused += address ? 0 : 1;
      if (address) live.push_back({*address, std::move(block)});
    }
    const auto stats = theirs.stats();
    if (t.streams == 1) {  // torch counts what waits for a stream as asked for, too
      ASSERT_EQ(ours.requested(), stats.requested_bytes[0].current);
    }
    ASSERT_EQ(ours.allocated(), stats.allocated_bytes[0].current);
    ASSERT_EQ(ours.reserved(), stats.reserved_bytes[0].current);
    ASSERT_EQ(ours.retries(), stats.num_alloc_retries);
    ASSERT_EQ(static_cast<std::size_t>(ours.reserved()), fakeCudaGiven());
  }
  retried += ours.retries();
}

TEST(TorchAllocator, DecidesTheSameOneRequestAfterAnother) {
  std::int64_t refused = 0, retried = 0;
  for (std::uint32_t seed = 1; seed <= 6; ++seed)
    for (const std::int64_t capacity : {std::int64_t{1} << 39, 1200 * kMiB, 500 * kMiB}) compare({seed, false, capacity, static_cast<int>(1 + seed % 3)}, refused, retried);
  EXPECT_GT(refused, 20);
  EXPECT_GT(retried, refused + 20) << "some of the second tries succeeded";
}

TEST(TorchAllocator, DecidesTheSameWithExpandableSegments) {
  std::int64_t refused = 0, retried = 0;
  for (std::uint32_t seed = 1; seed <= 6; ++seed)
    for (const std::int64_t capacity : {std::int64_t{1} << 39, 1200 * kMiB, 500 * kMiB}) compare({seed, true, capacity, static_cast<int>(1 + seed % 3)}, refused, retried);
  EXPECT_GT(refused, 20);
  EXPECT_GT(retried, refused + 20) << "some of the second tries succeeded";
}

TEST(TorchAllocator, ReservesTheSameForAProgram) {
  testing::LlamaShape shape;
  shape.layers = 3;
  const ir::Graph graph = testing::llamaJoint(shape);
  const AllocationTrace trace = allocationTrace(graph, {});
  for (const bool expandable : {false, true}) {
    const ReplayFigures figures = replay(trace, {.expandable = expandable}, 2);
    TorchAllocator torch({.expandable = expandable});
    std::vector<c10::DataPtr> resident, blocks(static_cast<std::size_t>(trace.blocks));
    for (const std::int64_t bytes : trace.resident) resident.push_back(torch.allocate(bytes, 0));
    for (int step = 0; step < 2; ++step)
      for (const AllocationEvent& event : trace.step) blocks[static_cast<std::size_t>(event.block)] = event.bytes > 0 ? torch.allocate(event.bytes, 0) : c10::DataPtr();
    const auto stats = torch.stats();
    EXPECT_EQ(figures.requested, stats.requested_bytes[0].peak);
    EXPECT_EQ(figures.reserved, stats.reserved_bytes[0].peak);
    EXPECT_LE(figures.allocated, stats.allocated_bytes[0].peak) << "the most in use may be at another instant";
    EXPECT_GT(figures.reserved, figures.requested);
  }
}

}  // namespace
}  // namespace spscope::passes
