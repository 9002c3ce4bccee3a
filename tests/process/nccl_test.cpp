// SPDX-License-Identifier: Apache-2.0
// NCCL without a GPU: refused with a reason, on every rank, and never a crash. With a GPU these are skipped.
#include "core/dist/nccl_loader.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "core/dist/c10d/gloo.h"
#include "core/dist/gpu_entry.h"
#include "tests/support/temp_folder.h"

namespace spscope::dist {
namespace {

TEST(Nccl, IsRefusedWithAReasonWhereNoDriverAnswers) {
  const auto devices = cudaDevices();
  if (devices) GTEST_SKIP() << "a CUDA driver answers here";
  EXPECT_EQ(devices.error().code, "nccl-unavailable");
  EXPECT_FALSE(devices.error().message.empty());
}

TEST(Nccl, EveryRankIsToldWhyItIsRefused) {
  if (cudaDevices()) GTEST_SKIP() << "a CUDA driver answers here";
  const TempFolder folder;
  std::vector<std::thread> ranks;
  for (int r = 0; r < 2; ++r)
    ranks.emplace_back([&, r] {
      Rendezvous at;
      at.rank = r;
      at.size = 2;
      at.file = folder.path("store");
      auto gloo = connectGloo(at);
      ASSERT_TRUE(gloo) << gloo.error().format();
      const auto nccl = connectNccl(std::move(*gloo), {});
      ASSERT_FALSE(nccl);
      EXPECT_EQ(nccl.error().code, "nccl-unavailable");
      EXPECT_THAT(nccl.error().message, testing::HasSubstr("rank 0: "));
    });
  for (std::thread& t : ranks) t.join();
}

TEST(Nccl, GpuLibraryIsCompleteAndOfThisVersion) {
#ifdef SPSCOPE_GPU_LIBRARY
  void* library = dlopen(SPSCOPE_GPU_LIBRARY, RTLD_NOW | RTLD_LOCAL);  // RTLD_NOW: no symbol may be missing
  ASSERT_NE(library, nullptr) << dlerror();
  const auto version = reinterpret_cast<spscope_gpu_version_fn>(dlsym(library, "spscope_gpu_version"));
  ASSERT_NE(version, nullptr);
  EXPECT_EQ(version(), kGpuInterfaceVersion);
  EXPECT_NE(dlsym(library, "spscope_nccl_connect"), nullptr);
#else
  GTEST_SKIP() << "this build has no GPU library (a libtorch without CUDA)";
#endif
}

}  // namespace
}  // namespace spscope::dist
