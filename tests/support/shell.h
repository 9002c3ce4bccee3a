// SPDX-License-Identifier: Apache-2.0
// A command of another program, for tests that hold ours against it; and where such programs may be.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

namespace spscope {

struct ShellResult {
  int code = -1;
  std::string output;  ///< of standard output; add 2>&1 for both
};

inline ShellResult shell(const std::string& command) {
  ShellResult out;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return out;
  char block[1 << 14];
  for (std::size_t n = 0; (n = std::fread(block, 1, sizeof block, pipe)) > 0;) out.output.append(block, n);
  const int status = pclose(pipe);
  out.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return out;
}

/// The file that the environment variable names, or the program of that name on the path; "" where there is none.
inline std::string findProgram(const char* variable, const std::string& name) {
  if (const char* given = std::getenv(variable); given && *given) return given;
  const char* path = std::getenv("PATH");
  std::stringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!name.empty() && std::filesystem::is_regular_file(folder + "/" + name)) return folder + "/" + name;
  return {};
}

inline std::string shellWord(const std::string& word) { return "'" + word + "'"; }

}  // namespace spscope
