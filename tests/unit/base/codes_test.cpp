// SPDX-License-Identifier: Apache-2.0
// The catalogue against the sources: every code that is raised anywhere has a row, every row is raised somewhere, and
// docs/errors.md is the table.
#include "core/base/codes.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace spscope {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// Past the string literal that begins at `i`.
std::size_t pastString(const std::string& text, std::size_t i) {
  for (++i; i < text.size() && text[i] != '"'; ++i)
    if (text[i] == '\\') ++i;
  return i + 1;
}

std::string withoutComments(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '"') {
      const std::size_t end = std::min(pastString(text, i), text.size());
      out += text.substr(i, end - i);
      i = end;
    } else if (text.compare(i, 3, "'\"'") == 0) {
      i += 3;
    } else if (text.compare(i, 2, "//") == 0) {
      while (i < text.size() && text[i] != '\n') ++i;
    } else {
      out += text[i++];
    }
  }
  return out;
}

/// The arguments of the call whose parenthesis opens at `open`, without what stands in parentheses inside them.
std::vector<std::string> arguments(const std::string& text, std::size_t open) {
  std::vector<std::string> out(1);
  int depth = 0;
  for (std::size_t i = open + 1; i < text.size();) {
    const char c = text[i];
    if (c == '"') {
      const std::size_t end = std::min(pastString(text, i), text.size());
      if (depth == 0) out.back() += text.substr(i, end - i);
      i = end;
      continue;
    }
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}')
      if (depth-- == 0) break;
    if (c == ',' && depth == 0) out.emplace_back();
    else if (depth == 0) out.back() += c;
    ++i;
  }
  return out;
}

/// Codes that the text raises: literals where a function that makes an error or a finding takes its code. A code may be
/// chosen (cond ? "a" : "b"), and may be a default argument (code = "a").
std::set<std::string> raisedIn(const std::string& source) {
  // The maker, and which of its arguments is the code.
  static const std::map<std::string, std::vector<std::size_t>> makers = {
      {"makeError", {0}}, {"warn", {0}}, {"remark", {0}}, {"nodeError", {0}}, {"refuse", {0}},
      {"fail", {0, 1}},   {"at", {0, 1}}, {"errorAt", {1}}, {"errorAtToml", {0}},
      {"smallToml", {0}}, {"parsedToml", {0}}};
  static const std::regex call(R"((^|[^A-Za-z_0-9.])(?:[A-Za-z_]+(?:\.|->))?(makeError|warn|remark|nodeError|refuse|fail|at|errorAtToml|errorAt|smallToml|parsedToml)\s*\()");
  static const std::regex literal("\"([a-z][a-z0-9]*(?:-[a-z0-9]+)*)\"");
  static const std::regex byDefault("\\bcode\\s*=\\s*\"([a-z0-9-]+)\"");
  const std::string text = withoutComments(source);
  std::set<std::string> out;
  const auto collect = [&](const std::string& part, const std::regex& what) {
    for (std::sregex_iterator it(part.begin(), part.end(), what), end; it != end; ++it) out.insert((*it)[1]);
  };
  for (std::sregex_iterator it(text.begin(), text.end(), call), end; it != end; ++it) {
    const std::string name = (*it)[2];
    const auto open = static_cast<std::size_t>(it->position(0) + it->length(0)) - 1;
    // map.at("key") is no error.
    if (name == "at" && it->str(0).find_first_of(".>") != std::string::npos) continue;
    const auto args = arguments(text, open);
    for (const std::size_t index : makers.at(name))
      if (index < args.size()) collect(args[index], literal);
  }
  collect(text, byDefault);
  return out;
}

std::map<std::string, std::string> raisedInTheProgram() {
  std::map<std::string, std::string> out;  // code -> one file that raises it
  for (const char* room : {"core", "passes", "profiler", "ui", "app"}) {
    const fs::path folder = fs::path(SPSCOPE_SOURCE_DIR) / room;
    if (!fs::exists(folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const auto ext = entry.path().extension();
      if ((ext != ".cpp" && ext != ".h") || entry.path().filename() == "codes.cpp") continue;
      for (const std::string& code : raisedIn(read(entry.path()))) out.emplace(code, entry.path().lexically_relative(SPSCOPE_SOURCE_DIR).string());
    }
  }
  return out;
}

TEST(CodesTest, TheScannerSeesWhatIsRaised) {
  EXPECT_THAT(raisedIn(R"(
    return makeError("plain-code", "text, with (signs) and \"quotes\"");
    return makeError(batch ? "one-way" : "other-way", "x");   // makeError("not-this")
    sink->warn("a-warning", "m"); sink.remark("a-remark", "m");
    SP_TRY(at(node, "of-node", "m")); message.at("some-key"); makeError(m.at("its-key"), "m"); fields->at("other-key");
    Status fail(const std::string& what, std::string_view code = "by-default");
    makeError(code, "no-code: a message");)"),
              ElementsAre("a-remark", "a-warning", "by-default", "of-node", "one-way", "other-way", "plain-code"));
}

TEST(CodesTest, EveryCodeThatIsRaisedHasARow) {
  const auto raised = raisedInTheProgram();
  ASSERT_GT(raised.size(), 50U);
  std::vector<std::string> missing;
  for (const auto& [code, file] : raised)
    if (!findCode(code)) missing.push_back(code + " (" + file + ")");
  EXPECT_THAT(missing, IsEmpty()) << "add rows to core/base/codes.cpp";
}

TEST(CodesTest, EveryRowIsRaisedSomewhere) {
  const auto raised = raisedInTheProgram();
  std::vector<std::string> dead;
  for (const CodeInfo& row : allCodes())
    if (!raised.contains(std::string(row.code))) dead.emplace_back(row.code);
  EXPECT_THAT(dead, IsEmpty()) << "remove the rows, or raise the codes";
}

TEST(CodesTest, RowsAreSortedOnceAndSpeak) {
  const auto& rows = allCodes();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_TRUE(i == 0 || rows[i - 1].code < rows[i].code) << rows[i].code << " stands twice";
    EXPECT_EQ(findCode(rows[i].code), &rows[i]);
    EXPECT_THAT(std::string(rows[i].meaning), ::testing::EndsWith(".")) << rows[i].code;
    EXPECT_THAT(std::string(rows[i].remedy), ::testing::EndsWith(".")) << rows[i].code;
    EXPECT_FALSE(rows[i].example.empty()) << rows[i].code << " has no example of its message";
    EXPECT_EQ(rows[i].example.find('\n'), std::string_view::npos) << rows[i].code;
  }
  EXPECT_EQ(findCode("no-such-code"), nullptr);
}

TEST(CodesTest, ThePageIsTheTable) {
  EXPECT_TRUE(read(fs::path(SPSCOPE_SOURCE_DIR) / "docs/errors.md") == codesMarkdown())
      << "write it again: spscope explain --markdown > docs/errors.md";
}

}  // namespace
}  // namespace spscope
