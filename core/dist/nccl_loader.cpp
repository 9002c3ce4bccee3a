// SPDX-License-Identifier: Apache-2.0
#include "core/dist/nccl_loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <system_error>

#include "core/base/strings.h"
#include "core/dist/gpu_entry.h"

namespace spscope::dist {
namespace {

Error unavailable(std::string reason) { return makeError("nccl-unavailable", std::move(reason), Outcome::kRefused); }

std::string dlReason() {
  const char* text = dlerror();
  return text != nullptr ? text : "unknown";
}

Result<int> askDriver() {
  // The driver first: parts of the CUDA tool chain overflow the stack or abort where it is missing.
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (driver == nullptr) return unavailable("no CUDA driver: " + dlReason());
  using Init = int (*)(unsigned);
  using Count = int (*)(int*);
  const auto init = reinterpret_cast<Init>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<Count>(dlsym(driver, "cuDeviceGetCount"));
  if (init == nullptr || count == nullptr) return unavailable("libcuda.so.1 is not a CUDA driver");
  if (const int rc = init(0); rc != 0) return unavailable(strf("the CUDA driver does not start: cuInit says %d", rc));
  int devices = 0;
  if (const int rc = count(&devices); rc != 0) return unavailable(strf("the CUDA driver counts no devices: error %d", rc));
  if (devices == 0) return unavailable("there is a CUDA driver, but no GPU that this process may use");
  return devices;
}

Result<spscope_nccl_connect_fn> loadFactory() {
  const std::string path = gpuLibraryPath();
  if (path.empty()) return unavailable("libspscope_gpu.so is not beside the program: this build has no GPU library");
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return unavailable("the GPU library does not load: " + dlReason());
  const auto version = reinterpret_cast<spscope_gpu_version_fn>(dlsym(library, "spscope_gpu_version"));
  const auto connect = reinterpret_cast<spscope_nccl_connect_fn>(dlsym(library, "spscope_nccl_connect"));
  if (version == nullptr || connect == nullptr || version() != kGpuInterfaceVersion)
    return unavailable(path + " is of another version than the program");
  return connect;
}

}  // namespace

Result<int> cudaDevices() {
  static std::mutex mutex;
  static std::unique_ptr<Result<int>> answer;  // asked once: the driver is loaded or it is not
  std::lock_guard lock(mutex);
  if (!answer) answer = std::make_unique<Result<int>>(askDriver());
  return *answer;
}

std::string gpuLibraryPath() {
  char buffer[4096];
  const ssize_t n = readlink("/proc/self/exe", buffer, sizeof buffer - 1);
  if (n <= 0) return {};
  const auto program = std::filesystem::path(std::string(buffer, static_cast<std::size_t>(n))).parent_path();
  for (const char* folder : {".", "../lib/spscope", "../lib", "../core"}) {
    const auto path = program / folder / "libspscope_gpu.so";
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path.lexically_normal().string();
  }
  return {};
}

Result<std::unique_ptr<Collectives>> connectNccl(std::unique_ptr<Collectives> bootstrap, const NcclOptions& options) {
  // Every rank says whether it can, so that one that cannot stops all of them with its reason instead of leaving the
  // others to wait for it.
  std::string reason;
  const Result<int> devices = cudaDevices();
  spscope_nccl_connect_fn connect = nullptr;
  if (!devices) {
    reason = devices.error().message;
  } else if (options.device >= *devices) {
    reason = strf("device %d does not exist: this process sees %d", options.device, *devices);
  } else if (auto factory = loadFactory(); factory) {
    connect = *factory;
  } else {
    reason = factory.error().message;
  }
  SP_ASSIGN(const auto reasons, bootstrap->allGatherText(reason));
  for (std::size_t r = 0; r < reasons.size(); ++r)
    if (!reasons[r].empty()) return unavailable(strf("rank %zu: %s", r, reasons[r].c_str()));
  return connect(std::move(bootstrap), options);
}

}  // namespace spscope::dist
