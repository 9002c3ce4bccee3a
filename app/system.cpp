// SPDX-License-Identifier: Apache-2.0
#include "app/system.h"

#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "app/version.h"
#include "core/base/strings.h"

namespace spscope::app {
namespace {

/// The value behind `key` and `separator` in the first line that begins with `key`; "" where there is none.
std::string valueIn(const char* path, const std::string& key, char separator) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const std::size_t at = line.find(separator);
    const std::size_t begin = at == std::string::npos ? at : line.find_first_not_of(" \t\"", at + 1);
    if (begin == std::string::npos) continue;
    return line.substr(begin, line.find_last_not_of(" \"") + 1 - begin);
  }
  return {};
}

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> systemFacts() {
#ifdef __clang__
  std::string compiler = __VERSION__;  // bears its name
#else
  std::string compiler = "GCC " __VERSION__;
#endif
#ifdef NDEBUG
  compiler += ", without assertions";
#else
  compiler += ", with assertions";
#endif
  std::vector<std::pair<std::string, std::string>> out{{"written", now()}, {"program", versionText()}, {"compiler", compiler}};
  utsname os{};
  if (::uname(&os) == 0) out.emplace_back("system", valueIn("/etc/os-release", "PRETTY_NAME", '=') + ", " + os.sysname + " " + os.release + " " + os.machine);
  out.emplace_back("processor", valueIn("/proc/cpuinfo", "model name", ':') + strf(", %u cores", std::thread::hardware_concurrency()));
  double load[3];
  if (::getloadavg(load, 3) == 3) out.emplace_back("load", strf("%.2f, %.2f, %.2f in the last 1, 5, 15 minutes", load[0], load[1], load[2]));
  struct sysinfo memory {};
  const std::string available = valueIn("/proc/meminfo", "MemAvailable", ':');
  if (::sysinfo(&memory) == 0)
    out.emplace_back("memory", formatBytes(static_cast<std::int64_t>(memory.totalram) * memory.mem_unit) + ", " + formatBytes(std::atoll(available.c_str()) * 1024) + " available");
  std::error_code none;
  out.emplace_back("GPU driver", std::filesystem::exists("/dev/nvidiactl", none) || std::filesystem::exists("/dev/dxg", none) ? "there is one" : "none");
  return out;
}

}  // namespace spscope::app
