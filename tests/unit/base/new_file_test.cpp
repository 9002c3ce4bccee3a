// SPDX-License-Identifier: Apache-2.0
#include "core/base/new_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/temp_folder.h"

namespace spscope {
namespace {
namespace fs = std::filesystem;

std::string contentOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}
std::size_t filesIn(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(NewFile, PartsBecomeOneFileInThePlaceOfTheOldOne) {
  const TempFolder folder;
  const std::string path = folder.path("a.txt");
  ASSERT_TRUE(writeWholeFile(path, "an older and longer text"));
  const std::string_view parts[] = {"one", "", std::string_view("\0two", 4)};
  ASSERT_TRUE(writeWholeFile(path, parts));
  EXPECT_EQ(contentOf(path), std::string("one\0two", 7));
  EXPECT_EQ(filesIn(fs::path(path).parent_path()), 1u) << "nothing is left beside it";
}

TEST(NewFile, ALinkIsFollowed) {
  const TempFolder folder;
  const std::string path = folder.path("a.txt"), link = folder.path("link");
  ASSERT_TRUE(writeWholeFile(path, "old"));
  fs::create_symlink(path, link);
  ASSERT_TRUE(writeWholeFile(link, "new"));
  EXPECT_EQ(contentOf(path), "new");
  EXPECT_TRUE(fs::is_symlink(link));
}

TEST(NewFile, WhatIsNotCommittedLeavesTheOldFile) {
  const TempFolder folder;
  const std::string path = folder.path("a.txt");
  ASSERT_TRUE(writeWholeFile(path, "old"));
  {
    auto file = NewFile::at(path);
    ASSERT_TRUE(file);
    std::ofstream(file->temporary()) << "half";
  }
  EXPECT_EQ(contentOf(path), "old");
  EXPECT_EQ(filesIn(fs::path(path).parent_path()), 1u);
}

TEST(NewFile, FoldersDevicesAndMissingPlacesAreRefusedByName) {
  const TempFolder folder;
  for (const std::string& path : {folder.path("no/such/place.txt"), fs::path(folder.path("x")).parent_path().string(), std::string("/dev/null")}) {
    const Status written = writeWholeFile(path, "x");
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, "file-unwritable");
    EXPECT_NE(written.error().message.find(path), std::string::npos) << written.error().message;
  }
}

}  // namespace
}  // namespace spscope
