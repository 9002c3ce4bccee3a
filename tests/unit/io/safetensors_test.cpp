// SPDX-License-Identifier: Apache-2.0
#include "core/io/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "tests/support/temp_folder.h"
#include "tests/support/zip_writer.h"

namespace spscope::io {
namespace {


template <typename T>
std::span<const std::byte> bytesOf(const std::vector<T>& v) {
  return std::as_bytes(std::span<const T>(v));
}

std::string readAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Safetensors, RoundTripIsExactAndDoesNotDependOnTheOrder) {
  TempFolder tmp;
  const std::vector<float> f{1.5F, -2.F, 3.F, 4.F, 5.F, 6.F};
  const std::vector<std::int64_t> i{7, -100};
  const std::vector<std::uint8_t> none, flags{1, 0, 1};
  const auto write = [&](const std::string& name, bool reversed) {
    SafetensorsWriter w;
    const auto a = [&] { w.add("layer.0.weight", ir::DType::kF32, {2, 3}, bytesOf(f)); };
    const auto b = [&] { w.add("ids", ir::DType::kI64, {2}, bytesOf(i)); };
    if (reversed) { b(); a(); } else { a(); b(); }
    w.add("empty", ir::DType::kU8, {0, 4}, bytesOf(none));
    w.add("flags \"quoted\"", ir::DType::kBool, {3}, bytesOf(flags));
    w.setMetadata("step", "3");
    const auto status = w.write(tmp.path() + "/" + name);
    ASSERT_TRUE(status) << status.error().format();
  };
  write("a.safetensors", false);
  write("b.safetensors", true);
  EXPECT_EQ(readAll(tmp.path() + "/a.safetensors"), readAll(tmp.path() + "/b.safetensors"));
  const auto file = SafetensorsFile::open(tmp.path() + "/a.safetensors");
  ASSERT_TRUE(file) << file.error().format();
  EXPECT_EQ(file->tensors().size(), 4U);
  EXPECT_EQ(file->metadata().at("step"), "3");
  const auto weight = file->get("layer.0.weight");
  ASSERT_TRUE(weight);
  EXPECT_EQ(weight->shape, (ir::Dims{2, 3}));
  EXPECT_EQ(std::memcmp(weight->bytes.data(), f.data(), 24), 0);
  EXPECT_EQ(file->find("flags \"quoted\"")->bytes.size(), 3U);
  EXPECT_TRUE(file->find("empty")->bytes.empty());
  const auto missing = file->get("layer.0.weigth");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, "tensor-missing");
  EXPECT_NE(missing.error().message.find("did you mean layer.0.weight"), std::string::npos);
}

TEST(Safetensors, AFailedWriteLeavesNothingBehind) {
  TempFolder tmp;
  const std::vector<float> f{1.F};
  SafetensorsWriter w;
  w.add("x", ir::DType::kF32, {2}, bytesOf(f));
  const auto status = w.write(tmp.path() + "/x.safetensors");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, "tensor-mismatch");
  EXPECT_NE(status.error().message.find("tensor x"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(tmp.path()));
  EXPECT_EQ(SafetensorsWriter().write(tmp.path() + "/no/such/folder/x").error().code, "file-unwritable");
}

std::string file(const std::string& header, std::size_t payload) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return out + header + std::string(payload, 'p');
}

TEST(Safetensors, RefusesDamagedFilesAndNamesTheTensor) {
  TempFolder tmp;
  const auto check = [&](const std::string& bytes, const std::string& code, const std::string& words) {
    const auto f = SafetensorsFile::open(tmp.file("x.safetensors", bytes));
    ASSERT_FALSE(f) << words;
    EXPECT_EQ(f.error().code, code) << f.error().message;
    EXPECT_NE(f.error().message.find(words), std::string::npos) << f.error().message;
  };
  check("abc", "safetensors-truncated", "3 bytes");
  check(file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7), "safetensors-truncated", "tensor a");
  check(file(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8), "safetensors-corrupt", "F33");
  check(file(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8), "safetensors-corrupt", "tensor a");
  check(file(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), "safetensors-corrupt", "tensor a");
  check(file(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,8]}})", 8),
        "safetensors-corrupt", "tensor a");
  check(file(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", 8),
        "safetensors-corrupt", "overlap");
  check(file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 8), "json-syntax", "header");
  check(file("{", 0).substr(0, 8) + "{", "json-syntax", "header");
  const std::string good = file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  for (std::size_t n = 1; n < good.size(); ++n)
    EXPECT_FALSE(SafetensorsFile::open(tmp.file("t.safetensors", good.substr(0, n)))) << n;
}

TEST(Safetensors, WhatIsNoPlainFileIsNeitherReplacedNorWaitedFor) {
  TempFolder tmp;
  const std::string pipe = tmp.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Status written = SafetensorsWriter().write(pipe);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, "file-unwritable");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  const auto opened = SafetensorsFile::open(pipe);  // nobody writes to it: must not block
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, "file-unreadable");
}

}  // namespace
}  // namespace spscope::io
