// SPDX-License-Identifier: Apache-2.0
#include "core/session/machine.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/base/strings.h"
#include "core/dist/c10d/gloo.h"
#include "core/dist/launcher.h"
#include "core/dist/nccl_loader.h"
#include "core/dist/run_directory.h"
#include "core/session/meeting.h"
#include "core/torch/self_test.h"
#include "core/torch/threads.h"

namespace spscope::session {

namespace fs = std::filesystem;

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// Path of the loaded libtorch_cpu.so.
std::string torchLibrary() {
  std::string found;
  ::dl_iterate_phdr([](dl_phdr_info* info, std::size_t, void* out) {
    if (!info->dlpi_name || !std::strstr(info->dlpi_name, "libtorch_cpu.so")) return 0;
    *static_cast<std::string*>(out) = info->dlpi_name;
    return 1;
  }, &found);
  std::error_code failed;
  const fs::path real = fs::canonical(found, failed);
  return failed ? found : real.string();
}

std::vector<std::string> subfolders(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed))
    if (it->is_directory(failed)) out.push_back(it->path().string());
  std::sort(out.begin(), out.end());
  return out;
}

MachineCheck torch() {
  MachineCheck c{"torch", false, {}, "Run the set-up again (./run build), or point SPSCOPE_TORCH to a working torch.", "everything"};
  const auto facts = exec::torchSelfTest();
  c.ok = facts.has_value();
  c.detail = facts ? strf("libtorch %s, %s kernels, a step of a matrix product is right (%s)", dist::libtorchVersion().c_str(),
                          facts->capability.c_str(), torchLibrary().c_str())
                   : facts.error().message;
  return c;
}

MachineCheck threads() {
  MachineCheck c{"threads", true, {}, "Unset OMP_WAIT_POLICY and GOMP_SPINCOUNT: SPScope sets them itself.", "speed"};
  const std::string policy = variable("OMP_WAIT_POLICY"), spin = variable("GOMP_SPINCOUNT");
  const bool active = policy == "active" || policy == "ACTIVE" || (!spin.empty() && spin != "0");
  const int cores = dist::availableCores();
  c.ok = !active || cores == 1;
  c.detail = strf("%d cores, %d threads a rank at --sp 2, %s", cores, exec::threadsPerRank(2),
                  active ? "waiting threads spin, which makes small ops many times slower" : "waiting threads sleep");
  return c;
}

MachineCheck ranks(const ExamineRequest& what, const Request& request) {
  MachineCheck c{"ranks", false, {}, {}, "run, verify --ranks gloo"};
  const auto seconds = meetRanks(2, what.rank_deadline, request.cancel);
  c.ok = seconds.has_value();
  if (c.ok) {
    c.detail = strf("two Gloo processes met and added up in %.2f s", *seconds);
  } else {
    c.detail = "[" + seconds.error().code + "] " + seconds.error().message;
    c.remedy = "The loopback interface and TMPDIR must be usable; spscope explain " + seconds.error().code + " says more. "
               "verify works without (--ranks virtual).";
  }
  return c;
}

MachineCheck temporaryFolder() {
  MachineCheck c{"tmpdir", false, {}, "Set TMPDIR to a folder on a local disk with some space.", "run, verify --ranks gloo"};
  std::error_code failed;
  const fs::path folder = fs::temp_directory_path(failed);
  if (failed) {
    c.detail = "TMPDIR=" + variable("TMPDIR") + ": " + failed.message();
    return c;
  }
  auto made = dist::RunDirectory::create();
  if (!made) {
    c.detail = made.error().message;
    return c;
  }
  made->remove();
  const fs::space_info space = fs::space(folder, failed);
  c.ok = failed || space.available > (std::uintmax_t{64} << 20);
  c.detail = folder.string() + " is writable" +
             (failed ? "" : ", " + formatBytes(static_cast<std::int64_t>(std::min<std::uintmax_t>(space.available, INT64_MAX))) + " free");
  return c;
}

MachineCheck driver() {
  MachineCheck c{"cuda-driver", false, {}, "Install the NVIDIA driver, or in a container pass the GPU on. CPUs need none of it.", "GPUs"};
  const auto devices = dist::cudaDevices();
  c.ok = devices.has_value();
  if (!c.ok) {
    c.detail = devices.error().message;
    return c;
  }
  int version = 0;
  if (void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD))
    if (const auto ask = reinterpret_cast<int (*)(int*)>(::dlsym(library, "cuDriverGetVersion"))) ask(&version);
  c.detail = strf("%d devices, driver for CUDA %d.%d", *devices, version / 1000, version % 1000 / 10);
  return c;
}

/// Where a driver answers, the library is loaded, too; without one that may end the process, so its file must do.
MachineCheck library(std::string name, const std::string& stem, bool driver_answers, std::string needed_for, std::string remedy) {
  MachineCheck c{std::move(name), false, {}, std::move(remedy), std::move(needed_for)};
  const std::string path = findLibrary(stem, libraryFolders());
  if (path.empty()) {
    c.detail = "no " + stem + ".* beside torch, in a CUDA toolkit, or among the system's libraries";
    return c;
  }
  c.ok = true;
  c.detail = path;
  if (driver_answers && ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL) == nullptr) {
    const char* why = ::dlerror();
    c.ok = false;
    c.detail = path + " does not load: " + (why ? why : "unknown");
  } else if (!driver_answers) {
    c.detail += " (not loaded: no driver answers)";
  }
  return c;
}

MachineCheck gpuLibrary(bool driver_answers) {
  MachineCheck c{"gpu-library", false, {}, "Build where torch is the CUDA build (./run build installs the libraries it needs).", "GPUs"};
  const std::string path = dist::gpuLibraryPath();
  if (path.empty()) {
    c.detail = "libspscope_gpu.so is not beside the program";
    return c;
  }
  c.ok = true;
  c.detail = path + (driver_answers ? "" : " (not loaded: no driver answers)");
  if (driver_answers && ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    const char* why = ::dlerror();
    c.ok = false;
    c.detail = path + " does not load: " + (why ? why : "unknown");
  }
  return c;
}

MachineCheck nsys() {
  MachineCheck c{"nsys", false, "not on PATH", "Install NVIDIA Nsight Systems where profiles are to be opened with it.", "run --nsys"};
  for (const std::string& folder : split(variable("PATH"), ':')) {
    const std::string path = folder + "/nsys";
    if (folder.empty() || ::access(path.c_str(), X_OK) != 0) continue;
    c.ok = true;
    c.detail = path;
    break;
  }
  return c;
}

MachineCheck openGl() {
  MachineCheck c{"opengl", false, {}, "Install libgl1 and libegl1 (Debian, Ubuntu); Mesa draws without a GPU, too.", "the window"};
  const std::vector<std::string> folders = libraryFolders();
  const std::string gl = findLibrary("libGL.so.1", folders), egl = findLibrary("libEGL.so.1", folders);
  const std::string display = variable("WAYLAND_DISPLAY").empty() ? variable("DISPLAY") : variable("WAYLAND_DISPLAY");
  c.ok = !gl.empty();
  c.detail = (gl.empty() ? "no libGL.so.1" : gl) + (egl.empty() ? ", no libEGL.so.1" : ", " + egl) +
             (display.empty() ? "; no display is set: pictures can be drawn, no window shown" : "; display " + display);
  return c;
}

MachineCheck fonts() {
  MachineCheck c{"fonts", false, {}, "Install fonts-dejavu-core (Debian, Ubuntu).", "the window"};
  std::vector<fs::path> folders{"/usr/share/fonts", "/usr/local/share/fonts"};
  if (!variable("HOME").empty()) folders.emplace_back(variable("HOME") + "/.local/share/fonts");
  std::size_t count = 0;
  std::string first;
  for (const fs::path& folder : folders) {
    std::error_code failed;
    for (fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, failed), end; !failed && it != end;
         it.increment(failed)) {
      const std::string ext = it->path().extension().string();
      if (ext != ".ttf" && ext != ".otf" && ext != ".ttc") continue;
      if (count++ == 0) first = it->path().string();
    }
  }
  c.ok = count > 0;
  c.detail = c.ok ? strf("%zu font files, one of them %s", count, first.c_str()) : "no .ttf, .otf or .ttc file in /usr/share/fonts";
  return c;
}

}  // namespace

std::string libtorchVersion() { return dist::libtorchVersion(); }

void restartWithSleepingThreads(char** argv) { exec::ensurePassiveWaiting(argv, dist::availableCores()); }

std::string findLibrary(const std::string& stem, const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    std::vector<std::string> names;
    std::error_code failed;
    for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
      const std::string name = it->path().filename().string();
      if (name.compare(0, stem.size(), stem) != 0 || (name.size() > stem.size() && name[stem.size()] != '.')) continue;
      if (fs::exists(it->path(), failed)) names.push_back(it->path().string());  // not a dangling link
    }
    if (!names.empty()) return *std::min_element(names.begin(), names.end());
  }
  return {};
}

std::vector<std::string> libraryFolders() {
  std::vector<std::string> out;
  for (const std::string& folder : split(variable("LD_LIBRARY_PATH"), ':'))
    if (!folder.empty()) out.push_back(folder);
  const std::string torch_library = torchLibrary();
  if (!torch_library.empty()) {
    const fs::path lib = fs::path(torch_library).parent_path();
    out.push_back(lib.string());
    // site-packages/torch/lib -> site-packages/nvidia/<package>/lib
    for (const std::string& package : subfolders(lib.parent_path().parent_path() / "nvidia")) out.push_back(package + "/lib");
  }
  for (const std::string& folder : subfolders("/usr/local"))
    if (folder.find("/cuda") != std::string::npos)
      for (const char* tail : {"/lib64", "/lib", "/extras/CUPTI/lib64"}) out.push_back(folder + tail);
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64"})
    out.emplace_back(folder);
  return out;
}

std::vector<MachineCheck> examineMachine(const ExamineRequest& what, const Request& request) {
  std::vector<MachineCheck> out;
  request.report("torch", 0, 4);
  out.push_back(torch());
  out.push_back(threads());
  out.push_back(temporaryFolder());
  request.report("two ranks", 1, 4);
  out.push_back(ranks(what, request));
  request.report("GPU", 2, 4);
  out.push_back(driver());
  const bool answers = out.back().ok;
  out.push_back(gpuLibrary(answers));
  out.push_back(library("nccl", "libnccl.so", answers, "GPUs", "pip install nvidia-nccl-cu13 into the environment of torch (./run build does)."));
  out.push_back(library("cupti", "libcupti.so", answers, "profiles of GPUs",
                        "pip install nvidia-cuda-cupti into the environment of torch (./run build does)."));
  out.push_back(nsys());
  request.report("window", 3, 4);
  out.push_back(openGl());
  out.push_back(fonts());
  for (MachineCheck& c : out)
    if (c.ok) c.remedy.clear();
  return out;
}

}  // namespace spscope::session
