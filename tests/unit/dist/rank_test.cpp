// SPDX-License-Identifier: Apache-2.0
// Messages, the shared state block, the run directory: the parts of a launch that need no second process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/base/clock.h"
#include "core/dist/message.h"
#include "core/dist/rank_reporter.h"
#include "core/dist/rank_state.h"
#include "core/dist/run_directory.h"
#include "tests/support/temp_folder.h"

namespace spscope::dist {
namespace {

using testing::ElementsAre;

TEST(Message, RoundTripsAnyBytesOnOneLine) {
  std::string bytes;
  for (int c = 0; c < 256; ++c) bytes += static_cast<char>(c);
  const Message m{"step", {{"text", bytes}, {"empty", ""}, {"q\"uote", "a\\b"}}};
  const std::string line = m.encode();
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto back = Message::decode(line);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kind, "step");
  EXPECT_EQ(back->fields, m.fields);
}

TEST(Message, ReadsPlainJson) {
  const auto m = Message::decode(R"({ "kind" : "x" , "a" : "1\t2" })");
  ASSERT_TRUE(m);
  EXPECT_EQ(m->at("a"), "1\t2");
  EXPECT_EQ(m->at("missing"), "");
}

TEST(Message, RefusesWhatIsNoMessage) {
  for (const char* bad : {"", "{}", "[]", "hello", R"({"kind":"x")", R"({"kind":"x"} y)", R"({"kind":1})", R"({"kind":"x",})",
                          R"({"kind":"\q"})", R"({"kind":"\u12"})", R"({"a":"b"})", R"({"kind":"x)"})
    EXPECT_FALSE(Message::decode(bad)) << bad;
}

TEST(Message, CarriesAnError) {
  Error e = makeError("capture-failed", "no \"kernel\"", Outcome::kRefused);
  e.node = "%mm";
  e.notes = {"one", "two"};
  const Error back = toError(*Message::decode(toMessage(e).encode()));
  EXPECT_EQ(back.format(), e.format());
  EXPECT_EQ(back.outcome, e.outcome);
}

TEST(RankState, IsSeenThroughTheFile) {
  const std::string path = testing::TempDir() + "state-" + std::to_string(getpid());
  std::filesystem::remove(path);
  auto writer = RankState::create(path);
  ASSERT_TRUE(writer) << writer.error().format();
  EXPECT_FALSE(RankState::create(path));  // nobody else's
  auto reader = RankState::open(path);
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->snapshot().step, -1);
  writer->block().node.set("%linear_3");
  writer->block().node.set(std::string(1000, 'x'));  // cut, not overrun
  EXPECT_EQ(reader->snapshot().node, std::string(191, 'x'));
  writer->block().node.set("%mm");
  EXPECT_EQ(reader->snapshot().node, "%mm");
  std::ofstream(path, std::ios::trunc) << "short";
  EXPECT_FALSE(RankState::open(path));
  std::filesystem::remove(path);
}

TEST(RankReporter, KeepsTheStateWithoutALauncher) {
  const auto reporter = RankReporter::detached(1, 4);
  reporter->phase("step");
  reporter->step(3);
  reporter->note("%linear");
  reporter->collective("all_to_all", 7, true);
  const RankSnapshot s = reporter->snapshot();
  EXPECT_EQ(s.phase, "step");
  EXPECT_EQ(s.step, 3);
  EXPECT_EQ(s.node, "%linear");
  EXPECT_EQ(s.collective, "all_to_all");
  EXPECT_EQ(s.sequence, 7);
  EXPECT_TRUE(s.inside_collective);
  EXPECT_EQ(s.progress, 4);
  reporter->reportError(makeError("internal", "x"));  // nobody to tell; must not block
}

TEST(RankReporter, ANoteCostsFarLessThanANode) {
  const auto reporter = RankReporter::detached(0, 1);
  const std::int64_t began = monotonicNs();
  for (int i = 0; i < 1'000'000; ++i) reporter->note("%scaled_dot_product_attention_17");
  EXPECT_LT((monotonicNs() - began) / 1'000'000, 500);  // about 10 ns; the smallest node takes some thousands
}

TEST(RankReporter, RefusesToAttachOutsideALaunch) {
  const auto reporter = RankReporter::attach();
  ASSERT_FALSE(reporter);
  EXPECT_EQ(reporter.error().code, "launch-env");
}

class RunDirectories : public TempFolderTest {
 protected:
  void SetUp() override {
    if (const char* before = std::getenv("TMPDIR")) before_ = before;
    setenv("TMPDIR", folder_.c_str(), 1);
  }
  void TearDown() override { before_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before_.c_str(), 1); }
  std::string before_;
};

TEST_F(RunDirectories, ArePrivateAndDistinct) {
  auto a = RunDirectory::create(), b = RunDirectory::create();
  ASSERT_TRUE(a && b);
  EXPECT_NE(a->path(), b->path());
  struct stat info {};
  ASSERT_EQ(stat(a->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  a->remove();
  EXPECT_FALSE(std::filesystem::exists(a->path()));
}

/// A directory as a run leaves it behind, so many hours ago.
std::filesystem::path leftBehind(const std::string& base, const std::string& name, int hours, const char* log = "rank0.log") {
  const std::filesystem::path p = base + "/spscope-run-" + name;
  std::filesystem::create_directory(p);
  std::ofstream(p / "launcher") << getpid();  // the id of a process that runs: ids come again
  if (log != nullptr) std::ofstream(p / log) << "x";
  std::filesystem::last_write_time(p, std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours));
  return p;
}

TEST_F(RunDirectories, TheNewestOnesThatWereLeftBehindAreKeptForAWeek) {
  std::vector<std::filesystem::path> young;
  for (int i = 0; i < kKeptRuns + 3; ++i) young.push_back(leftBehind(folder_, "young" + std::to_string(i), i + 1));
  const auto old = leftBehind(folder_, "old", 24 * 8), empty = leftBehind(folder_, "empty", 1, nullptr);
  auto alive = RunDirectory::create();
  ASSERT_TRUE(alive);
  for (int i = 0; i < kKeptRuns + 3; ++i)
    EXPECT_EQ(std::filesystem::exists(young[static_cast<std::size_t>(i)]), i < kKeptRuns) << i;
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_FALSE(std::filesystem::exists(empty));  // nothing in it for people
  // One that is in use is nobody's to remove, however old it is.
  std::filesystem::last_write_time(alive->path(), std::filesystem::file_time_type::clock::now() - std::chrono::hours(24 * 30));
  ASSERT_TRUE(RunDirectory::create());
  EXPECT_TRUE(std::filesystem::exists(alive->path()));
  const std::string path = alive->path();
  { const RunDirectory over = std::move(*alive); }
  ASSERT_TRUE(RunDirectory::create());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(RunDirectories, SayWhyTheyCannotBeMade) {
  setenv("TMPDIR", (folder_ + "/missing").c_str(), 1);
  const auto d = RunDirectory::create();
  ASSERT_FALSE(d);
  EXPECT_EQ(d.error().code, "run-directory");
  EXPECT_EQ(d.error().outcome, Outcome::kRefused);
}

TEST_F(RunDirectories, LastLinesOfALog) {
  const std::string path = folder_ + "/log";
  EXPECT_TRUE(lastLines(path, 3).empty());
  std::ofstream(path) << "a\nb\nc\nd";
  EXPECT_THAT(lastLines(path, 2), ElementsAre("c", "d"));
  std::ofstream(path) << std::string(200'000, 'x') << "\nend\n";
  EXPECT_THAT(lastLines(path, 1), ElementsAre("end"));
}

}  // namespace
}  // namespace spscope::dist
