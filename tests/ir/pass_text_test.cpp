// SPDX-License-Identifier: Apache-2.0
// One GoogleTest per case of tests/ir/<pass>/*.txt (tests/support/pass_text.h says how they are written).
#include "tests/support/pass_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace spscope::test {
namespace {

class PassText : public ::testing::Test {
 public:
  PassText(PassCase test, std::string file) : test_(std::move(test)), file_(std::move(file)) {}
  void TestBody() override {
    const std::string wrong = runPassCase(test_, file_);
    EXPECT_TRUE(wrong.empty()) << test_.title << "\n" << wrong;
  }

 private:
  PassCase test_;
  std::string file_;
};

/// A file that cannot be read as cases is one failing test.
class BadFile : public ::testing::Test {
 public:
  explicit BadFile(std::string message) : message_(std::move(message)) {}
  void TestBody() override { FAIL() << message_; }

 private:
  std::string message_;
};

bool registerAll() {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(SPSCOPE_SOURCE_DIR) / "tests/ir"))
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& path : files) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    const std::string name = path.parent_path().filename().string() + "/" + path.stem().string();
    auto cases = parsePassCases(text.str(), name + ".txt");
    if (!cases) {
      ::testing::RegisterTest("PassText", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                              [message = cases.error().message]() -> ::testing::Test* { return new BadFile(message); });
      continue;
    }
    for (std::size_t i = 0; i < cases->size(); ++i)
      ::testing::RegisterTest("PassText", (name + "/" + std::to_string(i + 1)).c_str(), nullptr, (*cases)[i].title.c_str(),
                              path.c_str(), 1, [test = (*cases)[i], name]() -> ::testing::Test* { return new PassText(test, name + ".txt"); });
  }
  return true;
}
const bool registered = registerAll();

PassCase onlyCase(const std::string& checks) {
  auto cases = parsePassCases("// RUN: functionalize\ngraph \"t\" global mesh() {\n  input %x : f32[2] user \"x\"\n"
                              "  %y = aten.relu_.default(self=%x) : f32[2]\n  %z = aten.clone.default(self=%x) : f32[2]\n"
                              "  output user %z\n}\n" + checks, "t");
  EXPECT_TRUE(cases);
  return (*cases)[0];
}

// The harness itself: a case that is wrong must fail.
TEST(PassTextHarness, SeesWrongExpectations) {
  EXPECT_TRUE(registered);
  EXPECT_EQ(runPassCase(onlyCase("// expected-error: mutates-input\n"), "t"), "");
  EXPECT_NE(runPassCase(onlyCase("// expected-error: text-syntax\n"), "t"), "");
  EXPECT_NE(runPassCase(onlyCase("// CHECK: relu\n"), "t"), "") << "a failure nobody expected";
  PassCase good = onlyCase("// CHECK: aten.clone{{.*}}f32[2]\n");
  good.graph.replace(good.graph.find("relu_"), 5, "relu");
  EXPECT_EQ(runPassCase(good, "t"), "");
  for (const char* bad : {"// CHECK: aten.neg\n", "// CHECK: clone\n// CHECK: graph\n", "// CHECK-NOT: clone\n", "// CHECK-COUNT-2: clone\n",
                          "// expected-error: mutates-input\n", "// expected-remark: attention-math\n"}) {
    PassCase c = onlyCase(bad);
    c.graph = good.graph;
    EXPECT_NE(runPassCase(c, "t"), "") << bad;
  }
  EXPECT_FALSE(parsePassCases("// RUN: functionalize\ngraph \"t\" global {}\n", "t")) << "checks nothing";
  EXPECT_FALSE(parsePassCases("// RUN: functionalize\n// CHECK-NEXT: x\n", "t")) << "unknown directive";
}

}  // namespace
}  // namespace spscope::test
