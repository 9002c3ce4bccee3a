// SPDX-License-Identifier: Apache-2.0
// Reading the dumps: both forms say the same, what is not plain is refused unexecuted, damage never goes further than an error.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>

#include "core/base/codes.h"
#include "core/hang/verdict.h"
#include "tests/support/hang_dumps.h"
#include "tests/support/mutate.h"

namespace spscope {
namespace {

using testing::bytesOfFile;
using testing::hangFolder;

Result<io::RecorderDump> read(const std::string& bytes) { return io::readFlightRecorder(std::as_bytes(std::span(bytes)), "rank_0", 0); }

TEST(FlightRecorder, both_forms_of_a_dump_say_the_same) {
  const auto pickled = io::readFlightRecorders({hangFolder("gloo/missing_rank")}, ""), json = io::readFlightRecorders({hangFolder("gloo/missing_rank.json")}, "");
  ASSERT_TRUE(pickled && json);
  ASSERT_EQ(pickled->size(), 4u);
  ASSERT_EQ(json->size(), 4u);
  for (std::size_t d = 0; d < 4; ++d) {
    const auto &a = (*pickled)[d], &b = (*json)[d];
    EXPECT_EQ(a.rank, static_cast<int>(d));
    EXPECT_EQ(a.version, "2.10");
    EXPECT_EQ(a.groups, b.groups);
    ASSERT_EQ(a.ops.size(), d == 2 ? 3u : 4u);
    ASSERT_EQ(a.ops.size(), b.ops.size());
    for (std::size_t i = 0; i < a.ops.size(); ++i) {
      EXPECT_EQ(a.ops[i].op, b.ops[i].op);
      EXPECT_EQ(a.ops[i].seq, b.ops[i].seq);
      EXPECT_EQ(a.ops[i].input_sizes, b.ops[i].input_sizes);
      EXPECT_EQ(a.ops[i].output_dtypes, b.ops[i].output_dtypes);
      EXPECT_EQ(a.ops[i].created_ns, b.ops[i].created_ns);
      EXPECT_TRUE(b.ops[i].completed || i == 3);  // rank 0 had left when the others wrote their JSON: theirs had failed
      EXPECT_EQ(a.ops[i].completed, i < 3);
      EXPECT_FALSE(a.ops[i].frames.empty());
      EXPECT_TRUE(b.ops[i].frames.empty()) << "torch writes no frames into JSON";
    }
  }
}

TEST(FlightRecorder, a_pickle_that_names_a_function_is_refused_and_not_run) {
  const std::string marker = ::testing::TempDir() + "/pickle_was_run";
  const std::string pickle = std::string("\x80\x02") + "cos\nsystem\nX" + std::string("\x20\0\0\0", 4) + ("touch " + marker + std::string(32, ' ')).substr(0, 32) + "\x85R.";
  const auto dump = read(pickle);
  ASSERT_FALSE(dump);
  EXPECT_EQ(dump.error().code, "pickle-not-plain");
  EXPECT_NE(dump.error().message.find("os.system"), std::string::npos);
  EXPECT_NE(access(marker.c_str(), F_OK), 0);
}

TEST(FlightRecorder, two_dumps_of_one_rank_and_names_without_one_are_said) {
  const std::string one = hangFolder("gloo/missing_rank") + "/rank_1";
  const auto twice = io::readFlightRecorders({one, hangFolder("gloo/wrong_order") + "/rank_1"}, "");
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, "recorder-ranks");
  const auto nameless = io::readFlightRecorders({hangFolder("format_dumps.py")}, "");
  ASSERT_FALSE(nameless);
  const auto none = io::readFlightRecorders({hangFolder("gloo/missing_rank")}, "nccl_trace_");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, "recorder-ranks");
}

TEST(FlightRecorder, a_list_that_is_named_again_and_again_takes_no_more_room_than_the_file) {
  // {"entries": [e, e, e, ...]} where e holds the frames [f, f, f, ...]: a square of what the file holds.
  std::string pickle;
  const auto word = [&](const std::string& w) { pickle += "X" + std::string(1, static_cast<char>(w.size())) + std::string(3, '\0') + w; };
  pickle = std::string("\x80\x02", 2) + "}";
  word("entries");
  pickle += "](}(";
  word("profiling_name"), word("nccl:all_reduce"), word("record_id"), pickle += std::string("K\0", 2), word("collective_seq_id"), pickle += std::string("K\1", 2), word("frames");
  pickle += "](}q" + std::string("\1", 1);
  for (int i = 0; i < 20000; ++i) pickle += std::string("h\1", 2);
  pickle += "euq" + std::string("\2", 1);
  for (int i = 0; i < 20000; ++i) pickle += std::string("h\2", 2);
  pickle += "es.";
  const auto dump = read(pickle);
  ASSERT_FALSE(dump);
  EXPECT_EQ(dump.error().code, "recorder-format") << dump.error().format();
}

TEST(FlightRecorder, names_hold_no_control_characters) {
  const auto dump = read(R"({"version":"2.10","entries":[{"profiling_name":"nccl:all\u001b[2J","record_id":0,"collective_seq_id":1,"process_group":["a\nb",""]}]})");
  ASSERT_TRUE(dump) << dump.error().format();
  ASSERT_EQ(dump->ops.size(), 1u);
  EXPECT_EQ(dump->ops[0].op, "all?[2J");
  EXPECT_EQ(dump->ops[0].group, "a?b");
}

/// SPSCOPE_MUTATIONS sets how many; the figure of docs/hangs.md is 10000.
TEST(FlightRecorder, mutated_dumps_are_read_or_refused) {
  const char* asked = std::getenv("SPSCOPE_MUTATIONS");
  const std::size_t count = asked ? static_cast<std::size_t>(std::atoll(asked)) : 600;
  std::vector<std::string> sources;
  for (const char* folder : {"nccl/send_without_recv", "nccl/double_collective", "gloo/wrong_order", "gloo/missing_rank.json"})
    for (int r = 0; r < 4; ++r) sources.push_back(bytesOfFile(hangFolder(folder) + "/rank_" + std::to_string(r) + (std::string(folder).ends_with(".json") ? ".json" : "")));
  std::size_t readable = 0;
  for (std::size_t seed = 0; seed < count; ++seed) {
    testing::Random random(seed);
    const std::size_t first = 4 * random.below(4);
    std::vector<io::RecorderDump> dumps;
    for (std::size_t r = 0; r < 4; ++r) {
      std::string bytes = sources[first + r];
      ASSERT_FALSE(bytes.empty());
      if (r == seed % 4) bytes = bytes[0] == '{' && random.below(3) != 0 ? testing::mutateJson(bytes, random) : testing::mutateBytes(bytes, random);
      auto dump = io::readFlightRecorder(std::as_bytes(std::span(bytes)), "rank_" + std::to_string(r), static_cast<int>(r));
      if (dump) dumps.push_back(std::move(*dump));
      else ASSERT_TRUE(findCode(dump.error().code) && dump.error().code != "internal") << "seed " << seed << ": " << dump.error().format();
    }
    readable += dumps.size() == 4;
    const hang::Finding found = hang::analyse(dumps);
    ASSERT_TRUE(found.verdict.code.empty() || findCode(found.verdict.code)) << found.verdict.code;
    for (const int culprit : found.verdict.culprits) ASSERT_GE(culprit, 0);
  }
  EXPECT_GT(readable, count / 10);
  EXPECT_LT(readable, count);
}

}  // namespace
}  // namespace spscope
