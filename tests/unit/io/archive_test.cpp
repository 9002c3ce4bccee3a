// SPDX-License-Identifier: Apache-2.0
#include "core/io/archive.h"

#include <gtest/gtest.h>

#include "core/io/program.h"
#include "tests/support/temp_folder.h"
#include "tests/support/zip_writer.h"

namespace spscope::io {
namespace {

using testing::ZipWriter;

std::string textOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string codeOf(const std::string& path) {
  DiagnosticSink sink;
  const auto model = openModel(path, {}, sink);
  return model ? "opened" : model.error().code;
}
std::string messageOf(const std::string& path) {
  DiagnosticSink sink;
  const auto model = openModel(path, {}, sink);
  return model ? "opened" : model.error().message;
}

TEST(Archive, ReadsEntriesBelowTheirRootFolder) {
  TempFolder tmp;
  ZipWriter zip;
  zip.add("saved_as/models/model.json", "{}");
  zip.add("saved_as/data/weights/weight_0", std::string("\0\1\2\3", 4));
  zip.add("saved_as/archive_format", "pt2");
  const auto archive = Archive::open(tmp.file("renamed.pt2", zip.bytes()));
  ASSERT_TRUE(archive) << archive.error().format();
  EXPECT_EQ((*archive)->root(), "saved_as");
  EXPECT_EQ((*archive)->kind(), ArchiveKind::kProgram);
  EXPECT_EQ((*archive)->programs(), std::vector<std::string>{"model"});
  const auto weight = (*archive)->read("data/weights/weight_0");
  ASSERT_TRUE(weight);
  EXPECT_EQ(textOf(*weight), std::string("\0\1\2\3", 4));
  EXPECT_TRUE((*archive)->checkCrcs());
  const auto missing = (*archive)->read("data/weights/weight_1");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, "archive-entry-missing");
}

TEST(Archive, ReadsZip64AndCommentsThatHoldTheEndSignature) {
  TempFolder tmp;
  ZipWriter zip;
  zip.zip64 = true;
  zip.add("r/models/model.json", "{\"a\": 1}");
  zip.add("r/data/weights/weight_0", std::string(1000, 'x'));
  const auto archive = Archive::open(tmp.file("a.pt2", zip.bytes()));
  ASSERT_TRUE(archive) << archive.error().format();
  EXPECT_EQ(textOf(*(*archive)->read("models/model.json")), "{\"a\": 1}");
  EXPECT_EQ((*archive)->read("data/weights/weight_0")->size(), 1000U);

  ZipWriter commented;
  commented.comment = std::string("a comment with PK\5\6 in it and twenty-two more bytes", 52);
  commented.add("r/x", "payload");
  const auto other = Archive::open(tmp.file("b.pt2", commented.bytes()));
  ASSERT_TRUE(other) << other.error().format();
  EXPECT_EQ(textOf(*(*other)->read("x")), "payload");
}

TEST(Archive, SaysWhatAForeignFileIs) {
  TempFolder tmp;
  const auto expect = [&](const std::string& name, const std::string& bytes, const std::string& code,
                          const std::string& words) {
    const std::string path = tmp.file(name, bytes);
    EXPECT_EQ(codeOf(path), code) << name;
    EXPECT_NE(messageOf(path).find(words), std::string::npos) << name << ": " << messageOf(path);
  };
  expect("empty.pt2", "", "file-empty", "empty");
  EXPECT_EQ(codeOf(tmp.path()), "file-is-folder");
  EXPECT_EQ(codeOf(tmp.path() + "/nothing.pt2"), "file-missing");
  std::string safetensors("\x20\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\"}}", 30);
  expect("w.safetensors", safetensors + std::string(40, ' '), "archive-not-zip", "a safetensors file");
  expect("m.onnx", std::string("\x08\x09\x12\x07pytorch", 11), "archive-not-zip", "an ONNX model");
  expect("old.pt", std::string("\x80\x02}q\0.", 6), "archive-not-zip", "a pickle");
  expect("a.pt2", "version https://git-lfs.github.com/spec/v1\noid", "archive-not-zip", "Git LFS");
  expect("notes.txt", "hello", "archive-not-zip", "a text file");
  expect("zeros.pt2", std::string(100, '\0'), "archive-not-zip", "zeros");
  ZipWriter script;
  script.add("m/data.pkl", "x");
  script.add("m/code/__torch__.py", "x");
  expect("script.pt", script.bytes(), "archive-kind", "TorchScript");
  ZipWriter state;
  state.add("m/data.pkl", "x");
  state.add("m/data/0", "x");
  expect("state.pt", state.bytes(), "archive-kind", "state dict");
  ZipWriter inductor;
  inductor.add("m/data/aotinductor/model/a.so", "x");
  expect("aoti.pt2", inductor.bytes(), "archive-kind", "AOTInductor");
}

TEST(Archive, RefusesWhatItDoesNotRead) {
  TempFolder tmp;
  ZipWriter compressed;
  compressed.add("m/models/model.json", "xxxx", 8);
  EXPECT_EQ(codeOf(tmp.file("c.pt2", compressed.bytes())), "archive-compressed");
  ZipWriter encrypted;
  encrypted.add("m/models/model.json", "xxxx", 0, 0x809);
  EXPECT_EQ(codeOf(tmp.file("e.pt2", encrypted.bytes())), "archive-encrypted");
  ZipWriter several;
  several.add("m/models/a.json", "{}");
  several.add("m/models/b.json", "{}");
  EXPECT_EQ(codeOf(tmp.file("s.pt2", several.bytes())), "graph-choose");
  DiagnosticSink sink;
  OpenOptions options;
  options.graph_name = "c";
  EXPECT_EQ(openModel(tmp.path() + "/s.pt2", options, sink).error().code, "graph-unknown");
}

TEST(Archive, NoticesDamage) {
  TempFolder tmp;
  ZipWriter zip;
  zip.add("m/models/model.json", "{}");
  zip.add("m/data/weights/weight_0", "0123456789");
  std::string bytes = zip.bytes();
  const std::size_t at = bytes.find("0123456789");
  bytes[at] = 'X';
  const auto archive = Archive::open(tmp.file("a.pt2", bytes));
  ASSERT_TRUE(archive);
  const auto status = (*archive)->checkCrcs();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, "archive-crc");
  EXPECT_NE(status.error().message.find("weight_0"), std::string::npos);
}

TEST(Archive, TruncatedAndCorruptedFilesNeverCrash) {
  TempFolder tmp;
  ZipWriter zip;
  zip.add("m/models/model.json", R"({"graph_module":{"graph":{"inputs":[],"outputs":[],"nodes":[]}}})");
  zip.add("m/data/weights/weight_0", std::string(300, 'w'));
  const std::string whole = zip.bytes();
  for (int percent = 0; percent < 100; percent += 5) {
    const std::string path = tmp.file("t.pt2", whole.substr(0, whole.size() * static_cast<std::size_t>(percent) / 100));
    const std::string code = codeOf(path);
    EXPECT_EQ(code, percent == 0 ? "file-empty" : "archive-truncated") << percent;
  }
  // Every byte of the directory changed, one at a time: any answer but a crash, and never an entry beyond the file.
  for (std::size_t i = whole.size() - 250; i < whole.size(); ++i) {
    for (const char flip : {'\x01', '\xff'}) {
      std::string bad = whole;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      const auto archive = Archive::open(tmp.file("f.pt2", bad));
      if (!archive) continue;
      for (const ArchiveEntry& e : (*archive)->entries()) {
        const auto payload = (*archive)->read(e.name);
        if (payload) {
          EXPECT_LE(payload->size(), bad.size());
        }
      }
    }
  }
}

}  // namespace
}  // namespace spscope::io
