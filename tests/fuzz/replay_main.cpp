// SPDX-License-Identifier: Apache-2.0
// In the place of libFuzzer's main where there is no libFuzzer: runs a fuzzer's function once over every file of the
// folders and files named, so that what was found stays fixed. Fails where there is no input at all.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) files.emplace_back(argv[i]);
    else
      for (const auto& entry : fs::directory_iterator(argv[i])) files.push_back(entry.path());
  }
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (!in) return std::printf("%s cannot be read\n", file.c_str()), 1;
    std::printf("%s (%zu bytes)\n", file.c_str(), text.size());
    std::fflush(stdout);  // a crash names its file
    // A heap block of exactly this size: the sanitizer sees the first byte that is read behind it.
    const std::vector<std::uint8_t> bytes(text.begin(), text.end());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%zu inputs\n", files.size());
  return files.empty() ? 1 : 0;
}
