// SPDX-License-Identifier: Apache-2.0
// A test fixture with a folder of its own, gone when the test ends; and reading what was written into it.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace spscope {

class TempFolderTest : public ::testing::Test {
 protected:
  TempFolderTest() : folder_(makeName()) {}
  ~TempFolderTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::vector<std::string> files() const {
    std::vector<std::string> out;
    for (const auto& e : std::filesystem::directory_iterator(folder_)) out.push_back(e.path().filename());
    std::sort(out.begin(), out.end());
    return out;
  }
  std::string contents(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    std::stringstream out;
    out << in.rdbuf();
    return out.str();
  }
  /// Of a gzip file.
  std::string unpacked(const std::string& name) const {
    std::string out;
    char block[1 << 16];
    const gzFile in = gzopen(path(name).c_str(), "rb");
    for (int n = 0; in && (n = gzread(in, block, sizeof block)) > 0;) out.append(block, static_cast<std::size_t>(n));
    gzclose(in);
    return out;
  }
  const std::string folder_;

 private:
  static std::string makeName() {
    std::string name = ::testing::TempDir() + "spscope-test-XXXXXX";
    return ::mkdtemp(name.data());
  }
};

}  // namespace spscope
