// SPDX-License-Identifier: Apache-2.0
// A folder that goes with the object or with the test; what is written into it, and reading what lies there.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

namespace spscope {

class TempFolder {
 public:
  TempFolder() : path_(::testing::TempDir() + "spscope-test-XXXXXX") {
    if (!::mkdtemp(path_.data())) ADD_FAILURE() << "no temporary folder can be made as " << path_;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string path(const std::string& name) const { return path_ + "/" + name; }
  /// Writes a file; its path.
  std::string file(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  std::string contents(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// Names of what lies in it, sorted.
  std::vector<std::string> files() const {
    std::vector<std::string> out;
    for (const auto& e : std::filesystem::directory_iterator(path_)) out.push_back(e.path().filename());
    std::sort(out.begin(), out.end());
    return out;
  }

 private:
  std::string path_;
};

/// A test with a folder of its own.
class TempFolderTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return temporary_.path(name); }
  std::vector<std::string> files() const { return temporary_.files(); }
  std::string contents(const std::string& name) const { return temporary_.contents(name); }

 private:
  const TempFolder temporary_;

 protected:
  const std::string& folder_ = temporary_.path();
};

}  // namespace spscope
