// SPDX-License-Identifier: Apache-2.0
// Chrome JSON that viewers take as it is: strict text, exact times, nesting on every track, arrows that can be drawn.
#include "profiler/export/chrome.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "profiler/analyze/breakdown.h"
#include "profiler/analyze/hta.h"
#include "profiler/import/import.h"
#include "profiler/trace/lanes.h"
#include "tests/support/random_trace.h"
#include "tests/support/temp_folder.h"
#include "tests/support/trace_builder.h"

namespace spscope::trace {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;

class ChromeExport : public TempFolderTest {
 protected:
  Json exported(const Trace& trace, const ChromeOptions& options = {}) {
    const auto done = writeChrome(trace, path("t.json"), options);
    EXPECT_TRUE(done) << done.error().message;
    if (done) problems_ = *done;
    text_ = contents("t.json");
    Json json = Json::parse(text_, nullptr, false);
    EXPECT_FALSE(json.is_discarded());
    return json;
  }
  std::vector<Json> ofPhase(const Json& json, const std::string& phase) const {
    std::vector<Json> out;
    for (const Json& e : json["traceEvents"])
      if (e["ph"] == phase) out.push_back(e);
    return out;
  }
  /// The ns that a reader makes of a number of microseconds, from its text.
  static std::int64_t nanoseconds(const Json& us) { return std::llround(us.get<double>() * 1000); }
  Problems problems_;
  std::string text_;
};

struct Slice {
  std::int64_t start, end;
};
/// Two slices of one track either nest or do not overlap.
void expectNesting(const std::vector<Json>& slices, std::int64_t (*ns)(const Json&)) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Slice>> tracks;
  for (const Json& e : slices) {
    const std::int64_t start = ns(e["ts"]);
    tracks[{e["pid"].get<std::int64_t>(), e["tid"].get<std::int64_t>()}].push_back({start, start + ns(e["dur"])});
  }
  for (auto& [track, all] : tracks) {
    std::stable_sort(all.begin(), all.end(), [](const Slice& a, const Slice& b) { return a.start != b.start ? a.start < b.start : a.end > b.end; });
    std::vector<std::int64_t> open;
    for (const Slice& s : all) {
      while (!open.empty() && open.back() <= s.start) open.pop_back();
      ASSERT_TRUE(open.empty() || s.end <= open.back()) << "track " << track.first << "/" << track.second << " at " << s.start;
      open.push_back(s.end);
    }
  }
}

TEST_F(ChromeExport, RandomTracesNestOnEveryTrackAndLoseNothing) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Trace trace = RandomTrace(seed).make(static_cast<int>(seed * 11));
    const Json json = exported(trace);
    const std::vector<Json> slices = ofPhase(json, "X");
    expectNesting(slices, nanoseconds);
    const std::int64_t base = json["baseTimeNanoseconds"];
    std::multiset<std::pair<std::int64_t, std::int64_t>> wanted, got;
    for (std::size_t i = 0; i < trace.events.size(); ++i)
      if (trace.events.category[i] != Category::kInstant) wanted.emplace(trace.events.start[i], trace.events.end[i] - trace.events.start[i]);
    for (const Json& e : slices) got.emplace(base + nanoseconds(e["ts"]), nanoseconds(e["dur"]));
    EXPECT_EQ(wanted, got) << "seed " << seed;
  }
}

// All ranks in one file come back as the ranks they were, with the figures they had.
TEST_F(ChromeExport, RanksOfOneFileComeBackApart) {
  for (const bool device : {true, false}) {
    test::TraceBuilder b;
    for (const std::int64_t number : {4, 7}) {
      const auto r = b.rank(number, "node-" + std::to_string(number));
      const double at = number == 4 ? 0 : 13;
      if (device) {
        b.call(r, 11, at, at + 2);  // the same correlation ids on both ranks
        b.kernel(r, "gemm", at + 10, at + 60);
        b.collective(r, b.kernel(r, "ncclDevKernel_AllReduce", at + 30, at + 90 + at, 9), "all_reduce", 1, 64, 2);
      } else {
        b.op(r, "aten::mm", at + 10, at + 60);
        b.collective(r, b.host(r, Category::kCollective, "all_reduce", at + 30, at + 90 + at, 2), "all_reduce", 1, 64, 2);
      }
    }
    exported(b.trace);
    const auto back = importTrace(path("t.json"));
    ASSERT_TRUE(back);
    ASSERT_EQ(back->ranks.size(), 2u);
    EXPECT_EQ(back->ranks[0].number, 4);
    EXPECT_EQ(back->ranks[1].number, 7);
    EXPECT_EQ(back->ranks[1].host, "node-7");
    EXPECT_TRUE(back->counters.empty());  // "busy ranks" is no rank's
    const auto before = breakdown(b.trace, classifyWork(b.trace)), after = breakdown(*back, classifyWork(*back));
    ASSERT_EQ(after.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(after[i].lane.rank, before[i].lane.rank);
      EXPECT_EQ(after[i].lane.device, before[i].lane.device);
      EXPECT_GT(after[i].communication_ns, 0);
      EXPECT_EQ(after[i].span_ns, before[i].span_ns);
      EXPECT_EQ(after[i].compute_ns, before[i].compute_ns);
      EXPECT_EQ(after[i].communication_ns, before[i].communication_ns);
      EXPECT_EQ(after[i].exposed_communication_ns, before[i].exposed_communication_ns);
      EXPECT_EQ(after[i].overlap, before[i].overlap);
    }
    EXPECT_NE(after[0].communication_ns, after[1].communication_ns);
    ASSERT_EQ(back->collectives.size(), 2u);
    EXPECT_EQ(back->collectives[0].rank + back->collectives[1].rank, 1);
  }
}

// Arrows: each id begins once and ends once, not before it began.
TEST_F(ChromeExport, ArrowsBeginOnceAndEndLater) {
  int arrows = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Json json = exported(RandomTrace(seed).make(150));
    std::map<std::int64_t, std::int64_t> begins;
    for (const Json& e : ofPhase(json, "s")) EXPECT_TRUE(begins.emplace(e["id"].get<std::int64_t>(), nanoseconds(e["ts"])).second);
    for (const Json& e : ofPhase(json, "f")) {
      ASSERT_TRUE(begins.count(e["id"])) << e;
      EXPECT_GE(nanoseconds(e["ts"]), begins.at(e["id"]));
      EXPECT_LT(e["id"].get<std::int64_t>(), 1000);
      begins.erase(e["id"]);
      ++arrows;
    }
    EXPECT_TRUE(begins.empty());
  }
  EXPECT_GT(arrows, 100);
}

TEST_F(ChromeExport, KernelsBearKinetosNames) {
  Trace t;
  t.ranks.emplace_back();
  t.ranks[0].number = 3, t.ranks[0].world = 4, t.ranks[0].backend = "nccl";
  const TrackIndex thread = t.thread(0, 10, 11), stream = t.stream(0, 1, 2, 7);
  const std::int64_t base = 1795800000000000000;
  t.launches.push_back({.grid = {2, 3, 4}, .block = {32, 1, 1}, .registers = 40, .static_shared = 100, .dynamic_shared = 28});
  t.nodes.push_back({.id = 0, .name = t.strings.intern("%mm_3"), .module = t.strings.intern("layers.0"), .phase = Phase::kBackward});
  t.add({.start = base, .end = base + 5, .correlation = 1LL << 60, .name = t.strings.intern("cudaLaunchKernel"), .track = thread, .category = Category::kRuntime});
  const EventIndex kernel = t.add({.start = base + 1001, .end = base + 3004, .correlation = 1LL << 60, .external = 4, .name = t.strings.intern("ncclDevKernel"), .track = stream, .node = 0, .detail = 0, .category = Category::kKernel});
  t.collectives.push_back({.kind = t.strings.intern("all_to_all"), .group = t.strings.intern("sp"), .sequence = 6, .bytes = 4096, .group_size = 2, .rank = 0, .event = kernel});
  const Json json = exported(t);
  EXPECT_EQ(json["distributedInfo"], Json::parse(R"({"backend":"nccl","rank":3,"world_size":4})"));
  EXPECT_EQ(json["deviceProperties"], Json::parse(R"([{"id":1}])"));
  const std::vector<Json> slices = ofPhase(json, "X");
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[0]["cat"], "cuda_runtime");
  EXPECT_EQ(slices[0]["dur"], 0.005);
  EXPECT_EQ(slices[1]["cat"], "kernel");
  EXPECT_EQ(slices[1]["ts"], 1.001);
  EXPECT_EQ(slices[1]["dur"], 2.003);
  EXPECT_EQ(slices[1]["args"], Json::parse(R"({"External id":4,"correlation":1152921504606846976,"device":1,"context":2,"stream":7,"registers per thread":40,"shared memory":128,
    "grid":[2,3,4],"block":[32,1,1],"node":0,"node name":"%mm_3","module":"layers.0","phase":"backward","Collective name":"all_to_all","Process Group Name":"sp","Seq":6,
    "Group size":2,"In msg nelems":4096,"dtype":"Byte"})"));
  const std::vector<Json> begin = ofPhase(json, "s"), end = ofPhase(json, "f");
  ASSERT_EQ(begin.size(), 1u);
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(begin[0]["cat"], "ac2g");
  EXPECT_EQ(begin[0]["id"], 1);
  EXPECT_EQ(end[0]["id"], 1);
  EXPECT_EQ(end[0]["bp"], "e");
  EXPECT_EQ(end[0]["tid"], slices[1]["tid"]);
}

TEST_F(ChromeExport, RanksAreProcessesWithNamesAndOrder) {
  Trace t;
  for (int r = 0; r < 2; ++r) {
    t.ranks.emplace_back();
    t.ranks.back().number = 1 - r, t.ranks.back().host = "node-" + std::to_string(r);
    t.add({.start = 10, .end = 20, .track = t.thread(r, 5, 6), .category = Category::kOperator});
  }
  const Json json = exported(t);
  std::map<std::int64_t, std::string> names;
  std::map<std::int64_t, std::int64_t> order;
  for (const Json& e : ofPhase(json, "M")) {
    if (e["name"] == "process_name") names[e["pid"]] = e["args"]["name"];
    if (e["name"] == "process_sort_index") order[e["pid"]] = e["args"]["sort_index"];
  }
  EXPECT_THAT(names, ElementsAre(std::pair(1, "rank 1 on node-0"), std::pair(2, "rank 0 on node-1"), std::pair(3, "all ranks")));
  EXPECT_THAT(order, ElementsAre(std::pair(1, 1), std::pair(2, 0), std::pair(3, -1)));
  std::set<std::int64_t> tids;
  for (const Json& e : ofPhase(json, "X")) tids.insert(e["tid"].get<std::int64_t>());
  EXPECT_EQ(tids.size(), 2u) << "equal thread numbers of two processes";
  EXPECT_EQ(ofPhase(exported(t, {.rank = 1}), "X").size(), 1u);
}

TEST_F(ChromeExport, CountersOfMemoryAndBusyRanks) {
  Trace t;
  t.ranks.resize(2);
  for (int r = 0; r < 2; ++r) t.add({.start = 1000 * r, .end = 2000 + 1000 * r, .track = t.thread(r, 5, 6), .category = Category::kOperator});
  t.memory = {{.time = 2000, .bytes = -64, .address = 7, .rank = 0, .device = -1}, {.time = 1000, .bytes = 100, .rank = 0, .device = -1}, {.time = 1500, .bytes = 8, .live = 512, .reserved = 600, .rank = 1, .device = 0}};
  t.counters = {{.time = 1000, .value = 0.1, .name = t.strings.intern("power")}, {.time = 1000, .value = std::nan(""), .name = t.strings.intern("power")}};
  const Json json = exported(t);
  std::map<std::string, std::vector<std::pair<double, double>>> curves;
  for (const Json& e : ofPhase(json, "C")) curves[e["name"]].emplace_back(e["ts"].get<double>(), e["args"].begin()->get<double>());
  using P = std::pair<double, double>;
  EXPECT_THAT(curves["memory, host"], ElementsAre(P(1, 100), P(2, 36)));
  EXPECT_THAT(curves["memory, GPU 0"], ElementsAre(P(1.5, 512)));
  EXPECT_THAT(curves["power"], ElementsAre(P(1, 0.1)));
  EXPECT_THAT(curves["busy ranks"], ElementsAre(P(0, 1), P(1, 2), P(2, 1), P(3, 0)));
  EXPECT_EQ(problems_.countOf(Problem::kBadNumber), 1);
  const std::vector<Json> marks = ofPhase(json, "i");
  ASSERT_EQ(marks.size(), 3u);
  EXPECT_EQ(marks[1]["args"], Json::parse(R"({"Bytes":8,"Total Allocated":512,"Total Reserved":600,"Device Type":1,"Device Id":0})"));
}

std::string unpacked(const std::string& path) {
  std::string out;
  char block[1 << 16];
  const gzFile in = gzopen(path.c_str(), "rb");
  for (int n = 0; in && (n = gzread(in, block, sizeof block)) > 0;) out.append(block, static_cast<std::size_t>(n));
  gzclose(in);
  return out;
}

TEST_F(ChromeExport, GzipByTheName) {
  const Trace trace = RandomTrace(1).make(30);
  ASSERT_TRUE(writeChrome(trace, path("t.json")));
  ASSERT_TRUE(writeChrome(trace, path("t.json.gz")));
  EXPECT_EQ(contents("t.json.gz").substr(0, 2), "\x1f\x8b");
  EXPECT_EQ(unpacked(path("t.json.gz")), contents("t.json"));
  EXPECT_THAT(files(), ElementsAre("t.json", "t.json.gz"));
}

TEST_F(ChromeExport, CancelledLeavesNothing) {
  ChromeOptions options;
  options.cancel.cancel();
  const auto done = writeChrome(RandomTrace(1).make(30), path("t.json"), options);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, "cancelled");
  EXPECT_THAT(files(), ElementsAre());
}

TEST_F(ChromeExport, AnEmptyTraceIsValidToo) { EXPECT_TRUE(exported(Trace())["traceEvents"].empty()); }

// What we export, we import again: same events, same figures; those of Holistic Trace Analysis too, which rounds decimals.
TEST_F(ChromeExport, ImportedAgainItIsTheSame) {
  const std::string traces = SPSCOPE_SOURCE_DIR "/../shared/traces/kineto/";
  if (!std::filesystem::exists(traces)) GTEST_SKIP() << "no " << traces;
  for (const char* file : {"overlap_47.json.gz", "ns_resolution.json.gz", "one_rank_with_memory.json.gz"}) {
    SCOPED_TRACE(file);
    auto before = importTrace(traces + file);
    ASSERT_TRUE(before);
    ASSERT_TRUE(writeChrome(*before, path("t.json.gz")));
    auto after = importTrace(path("t.json.gz"));
    ASSERT_TRUE(after);
    const auto summary = [](const Trace& t) {
      std::map<std::string, std::array<std::int64_t, 2>> out;
      for (std::size_t i = 0; i < t.events.size(); ++i) {
        auto& row = out[std::string(nameOf(t.events.category[i])) + " " + std::string(t.strings.text(t.events.name[i]))];
        ++row[0], row[1] += t.events.end[i] - t.events.start[i];
      }
      return out;
    };
    EXPECT_EQ(summary(*before), summary(*after));
    EXPECT_EQ(*std::min_element(before->events.start.begin(), before->events.start.end()), *std::min_element(after->events.start.begin(), after->events.start.end()));
    EXPECT_EQ(before->collectives.size(), after->collectives.size());
    EXPECT_EQ(before->memory.size(), after->memory.size());
    // Absolute times of 19 digits lose decimals in HTA's doubles; ours, rebased, do not: its answer changes by that.
    if (before->ranks[0].fractional_us && before->ranks[0].base_ns == 0) continue;
    const auto hta_before = htaBreakdown(*before), hta_after = htaBreakdown(*after);
    ASSERT_EQ(hta_before.size(), hta_after.size());
    for (std::size_t i = 0; i < hta_before.size(); ++i) {
      EXPECT_EQ(hta_before[i].idle_us, hta_after[i].idle_us);
      EXPECT_EQ(hta_before[i].compute_us, hta_after[i].compute_us);
      EXPECT_EQ(hta_before[i].kernel_us, hta_after[i].kernel_us);
    }
  }
}

// --- field cases

// A reader made NaN of what it could not read; writers then wrote it.
TEST_F(ChromeExport, FieldCases_TR_02_no_number_that_json_lacks_is_written) {
  Trace t = RandomTrace(7).make(100);
  t.counters.push_back({.time = t.events.start[0], .value = std::numeric_limits<double>::infinity()});
  exported(t);
  for (const char* word : {"NaN", "nan", "Infinity", "inf", "N/A", "-9223372036854775808"}) EXPECT_EQ(text_.find(word), std::string::npos) << word;
}

TEST_F(ChromeExport, FieldCases_TR_03_names_with_control_characters_are_escaped) {
  Trace t;
  t.ranks.emplace_back();
  const std::string name = std::string("a\x01\"\\\n\t\r") + '\0' + "\x1f ü";
  t.add({.start = 0, .end = 1, .name = t.strings.intern(name), .track = t.thread(0, 1, 2), .category = Category::kRange});
  t.add({.start = 2, .end = 3, .name = t.strings.intern("bad\x9f utf8"), .track = t.thread(0, 1, 2), .category = Category::kRange});
  const std::vector<Json> slices = ofPhase(exported(t), "X");
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[0]["name"], name);
  EXPECT_EQ(slices[1]["name"], "bad\xef\xbf\xbd utf8");
  for (const char c : text_) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
}

TEST_F(ChromeExport, FieldCases_TR_07_times_are_rebased_and_ids_are_small) {
  Trace t;
  t.ranks.emplace_back();
  t.ranks[0].base_ns = 1700000000123456789;
  const std::int64_t start = 1700000000123456789 + 5 * 1000 + 1;  // .001 us steps at 1.7e15 us
  t.add({.start = start, .end = start + 1, .correlation = 1LL << 60, .name = t.strings.intern("cudaLaunchKernel"), .track = t.thread(0, 1, 2), .category = Category::kRuntime});
  t.add({.start = start + 2, .end = start + 1000, .correlation = 1LL << 60, .name = t.strings.intern("k"), .track = t.stream(0, 0, 1, 7), .category = Category::kKernel});
  const Json json = exported(t);
  const std::vector<Json> slices = ofPhase(json, "X");
  const std::int64_t base = json["baseTimeNanoseconds"];
  EXPECT_EQ((base - t.ranks[0].base_ns) % 1000, 0) << "decimals differ from those of the source";
  EXPECT_NE(text_.find("\"ts\":0.001,"), std::string::npos);
  EXPECT_NE(text_.find("\"ts\":0.003,"), std::string::npos);
  EXPECT_EQ(base + 1, start);
  EXPECT_EQ(ofPhase(json, "s")[0]["id"], 1);
}

TEST_F(ChromeExport, FieldCases_TR_08_overlap_without_nesting_gets_a_lane_of_its_own) {
  Trace t;
  t.ranks.emplace_back();
  const TrackIndex thread = t.thread(0, 1, 2);
  for (const auto& [start, end] : {std::pair(0, 100), std::pair(50, 150), std::pair(60, 90), std::pair(150, 160)})
    t.add({.start = start, .end = end, .name = t.strings.intern(std::to_string(start)), .track = thread, .category = Category::kRange});
  const Json json = exported(t);
  std::map<std::string, std::int64_t> tid;
  for (const Json& e : ofPhase(json, "X")) tid[e["name"]] = e["tid"];
  EXPECT_NE(tid["50"], tid["0"]);
  EXPECT_EQ(tid["60"], tid["0"]) << "nests in the tightest";
  EXPECT_EQ(tid["150"], tid["0"]);
  EXPECT_EQ(problems_.countOf(Problem::kOverlapSplit), 1);
  std::vector<std::string> names;
  for (const Json& e : ofPhase(json, "M"))
    if (e["name"] == "thread_name") names.push_back(e["args"]["name"]);
  EXPECT_THAT(names, ElementsAre("thread 2", "thread 2 (lane 2)"));
}

TEST_F(ChromeExport, FieldCases_TR_09_kernels_that_overlap_on_one_stream_are_both_kept) {
  Trace t;
  t.ranks.emplace_back();
  const TrackIndex stream = t.stream(0, 0, 1, 7);
  t.add({.start = 0, .end = 10000, .name = t.strings.intern("a"), .track = stream, .category = Category::kKernel});
  t.add({.start = 9000, .end = 20000, .name = t.strings.intern("b"), .track = stream, .category = Category::kKernel});
  const std::vector<Json> slices = ofPhase(exported(t), "X");
  ASSERT_EQ(slices.size(), 2u);
  expectNesting(slices, nanoseconds);
  EXPECT_EQ(slices[1]["args"]["stream"], 7) << "whatever the lane, the stream is the same";
  EXPECT_EQ(problems_.countOf(Problem::kOverlapSplit), 1);
}

// Clocks disagree: the kernel starts before its launch. The arrow ends within the kernel; where it cannot, it is counted.
TEST_F(ChromeExport, FieldCases_TR_22_an_arrow_to_an_early_kernel) {
  Trace t;
  t.ranks.emplace_back();
  const TrackIndex thread = t.thread(0, 1, 2), stream = t.stream(0, 0, 1, 7);
  t.add({.start = 3000, .end = 4000, .correlation = 5, .track = thread, .category = Category::kRuntime});
  t.add({.start = 0, .end = 8000, .correlation = 5, .track = stream, .category = Category::kKernel});
  t.add({.start = 20000, .end = 21000, .correlation = 6, .track = thread, .category = Category::kRuntime});
  t.add({.start = 10000, .end = 12000, .correlation = 6, .track = stream, .category = Category::kKernel});
  const Json json = exported(t);
  ASSERT_EQ(ofPhase(json, "f").size(), 1u);
  EXPECT_EQ(ofPhase(json, "f")[0]["ts"], 3);
  EXPECT_EQ(problems_.countOf(Problem::kLostMetadata), 1);
}

TEST_F(ChromeExport, FieldCases_TR_39_what_is_unknown_is_absent_not_zero) {
  Trace t;
  t.ranks.emplace_back();
  t.launches.emplace_back();
  const EventIndex e = t.add({.start = 0, .end = 1, .track = t.stream(0, 0, kUnknown, 7), .detail = 0, .category = Category::kKernel});
  t.collectives.push_back({.event = e});
  t.memory.push_back({.time = 0, .bytes = 5});
  const Json json = exported(t);
  EXPECT_EQ(ofPhase(json, "X")[0]["args"], Json::parse(R"({"device":0,"stream":7,"grid":[0,0,0],"block":[0,0,0]})"));
  EXPECT_EQ(ofPhase(json, "i")[0]["args"], Json::parse(R"({"Bytes":5,"Device Type":0,"Device Id":-1})"));
}

TEST(Lanes, AreAsManyAsOverlapAtOnce) {
  Trace t;
  t.ranks.emplace_back();
  const TrackIndex thread = t.thread(0, 1, 2);
  for (int i = 0; i < 200000; ++i) t.add({.start = 10 * i, .end = 10 * i + 1000, .track = thread});  // each overlaps the next hundred
  const std::vector<EventIndex> order = eventsByStart(t);
  std::int32_t most = 0;
  for (const LanePlace& p : lanesOf(t, order)) most = std::max(most, p.lane);
  EXPECT_EQ(most, 99);
}

}  // namespace
}  // namespace spscope::trace
