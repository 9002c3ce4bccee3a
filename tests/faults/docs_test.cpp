// SPDX-License-Identifier: Apache-2.0
// docs/debugging.md does what it says: each "$ spscope ..." of it is run, from the root of the repository, and what stands below it is what
// comes out ("..." stands for any lines; numbers may differ in their last digits).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/shell.h"

namespace spscope {
namespace {

struct Shown {
  std::string command;
  std::vector<std::string> lines;
};

std::vector<Shown> shownIn(const std::string& path) {
  std::ifstream in(path);
  std::vector<Shown> out;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
    } else if (inside && line.starts_with("$ ")) {
      out.push_back({line.substr(2), {}});
    } else if (inside && !out.empty()) {
      out.back().lines.push_back(line);
    }
  }
  return out;
}

bool sameWord(const std::string& a, const std::string& b) {
  if (a == b) return true;
  char *end_a = nullptr, *end_b = nullptr;
  const double x = std::strtod(a.c_str(), &end_a), y = std::strtod(b.c_str(), &end_b);
  if (end_a == a.c_str() || end_b == b.c_str() || std::string(end_a) != end_b) return false;
  return std::abs(x - y) <= 1e-3 * std::max(std::abs(x), std::abs(y)) || (std::abs(x) < 1e-12 && std::abs(y) < 1e-12);
}

bool sameLine(const std::string& shown, const std::string& real) {
  std::istringstream a(shown), b(real);
  std::string x, y;
  while (true) {
    const bool more_a = static_cast<bool>(a >> x), more_b = static_cast<bool>(b >> y);
    if (!more_a || !more_b) return more_a == more_b;
    if (!sameWord(x, y)) return false;
  }
}

TEST(Docs, TheCommandsOfDebuggingGiveWhatIsShown) {
  const std::vector<Shown> all = shownIn(SPSCOPE_SOURCE_DIR "/docs/debugging.md");
  ASSERT_EQ(all.size(), 6U);
  for (const Shown& shown : all) {
    SCOPED_TRACE(shown.command);
    std::string command = shown.command;
    const std::string name = "spscope ", program = "'" SPSCOPE_PROGRAM "' ";
    const std::size_t first = command.find(name);
    ASSERT_NE(first, std::string::npos);
    command.replace(first, name.size(), program);
    const ShellResult result = shell("cd '" SPSCOPE_SOURCE_DIR "' && { " + command + "; } 2>/dev/null");
    std::vector<std::string> real;
    std::istringstream in(result.output);
    for (std::string line; std::getline(in, line);) real.push_back(line);
    std::size_t at = 0;
    bool skip = true;  // what comes first may be left out
    for (const std::string& line : shown.lines) {
      if (line.find_first_not_of(' ') == std::string::npos) continue;
      if (line == "  ..." || line == "...") {
        skip = true;
        continue;
      }
      std::size_t found = at;
      while (found < real.size() && !sameLine(line, real[found]) && (skip || real[found].empty())) ++found;
      ASSERT_TRUE(found < real.size() && sameLine(line, real[found])) << "shown, but not said:\n" << line << "\nof\n" << result.output;
      at = found + 1;
      skip = false;
    }
  }
}

}  // namespace
}  // namespace spscope
