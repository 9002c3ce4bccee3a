// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>

#include "core/base/strings.h"
#include "profiler/record/device_source.h"

namespace spscope::trace {
namespace {

/// Paths of the libraries of this process whose file name begins with `stem`.
std::vector<std::string> loadedLibraries(std::string_view stem) {
  struct Search {
    std::string_view stem;
    std::vector<std::string> found;
  } search{stem, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto* s = static_cast<Search*>(data);
        const std::string path = info->dlpi_name != nullptr ? info->dlpi_name : "";
        if (std::filesystem::path(path).filename().string().starts_with(s->stem)) s->found.push_back(path);
        return 0;
      },
      &search);
  return search.found;
}

std::string firstIn(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"})
    if (std::filesystem::exists(folder / name, ignored)) return (folder / name).lexically_normal().string();
  return {};
}

}  // namespace

std::string findCupti() {
  // One that is loaded already: two in a process do not share their callbacks.
  if (const auto loaded = loadedLibraries("libcupti.so"); !loaded.empty()) return loaded.front();
  if (const char* named = std::getenv("SPSCOPE_CUPTI"); named != nullptr && *named != '\0') return named;
  std::error_code ignored;
  for (const std::string& torch : loadedLibraries("libtorch_cpu.so")) {
    const auto site = std::filesystem::path(torch).parent_path() / ".." / "..";
    for (const char* folder : {"nvidia/cu13/lib", "nvidia/cuda_cupti/lib", "nvidia/cu12/lib"})
      if (std::string found = firstIn(site / folder); !found.empty()) return found;
  }
  for (const char* folder : {"/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/usr/lib/x86_64-linux-gnu"})
    if (std::string found = firstIn(folder); !found.empty()) return found;
  return {};
}

}  // namespace spscope::trace
