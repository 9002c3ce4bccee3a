// SPDX-License-Identifier: Apache-2.0
// What Nsight Systems reads in our files. The tables and numbering always; its own reports where `nsys` is: named by
// SPSCOPE_NSYS, or on the path. Debian's non-free packages hold one (docs/traces.md).
#include <gmock/gmock.h>

#include <map>
#include <numeric>

#include "core/base/strings.h"
#include "profiler/import/import.h"
#include "profiler/store/nsight_ids.h"
#include "profiler/store/sqlite.h"
#include "profiler/store/store.h"
#include "tests/support/csv.h"
#include "tests/support/random_trace.h"
#include "tests/support/shell.h"
#include "tests/support/temp_folder.h"

namespace spscope::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Nsight : public TempFolderTest {
 protected:
  /// One step of two ranks with a GPU each: launches in a range on the host, a kernel, a copy, a set, a wait. Both have the
  /// same pid and the same correlation ids, as on two hosts.
  static Trace twoRanks() {
    Trace t;
    t.format = "spscope";
    const auto name = [&](const char* text) { return t.strings.intern(text); };
    t.launches.push_back({.grid = {8, 1, 1}, .block = {128, 1, 1}, .registers = 32, .static_shared = 0, .dynamic_shared = 1024});
    t.copies.push_back({.copy_kind = 1, .source_kind = 1, .target_kind = 2});
    t.copies.push_back({.copy_kind = 0, .source_kind = 7, .target_kind = 2, .value = 0});
    t.nodes.push_back({.id = 41, .name = name("%mm_3")});
    const std::int64_t base = 1795800000000000000;
    for (int r = 0; r < 2; ++r) {
      t.ranks.emplace_back();
      t.ranks.back().number = r, t.ranks.back().pid = 700;
      const TrackIndex host = t.thread(r, 700, 701), stream = t.stream(r, r, 1, 7);
      const std::int64_t at = base + 1000 * r;
      t.add({.start = at, .end = at + 5000, .name = name("step 0"), .track = host, .category = Category::kRange});
      t.add({.start = at + 100, .end = at + 900, .name = name("aten::mm"), .track = host, .node = 0, .category = Category::kOperator});
      t.add({.start = at + 200, .end = at + 300, .correlation = 1, .name = name("cudaLaunchKernel"), .track = host, .category = Category::kRuntime});
      t.add({.start = at + 400, .end = at + 900, .correlation = 1, .external = 42, .name = name("void gemm<float, 4>(float*)"), .track = stream, .node = 0, .detail = 0, .category = Category::kKernel});
      t.add({.start = at + 1000, .end = at + 1100, .correlation = 2, .name = name("cudaMemcpyAsync"), .track = host, .category = Category::kRuntime});
      t.add({.start = at + 1200, .end = at + 1500, .correlation = 2, .bytes = 4096, .name = name("Memcpy HtoD"), .track = stream, .detail = 0, .category = Category::kMemcpy});
      t.add({.start = at + 1600, .end = at + 1650, .correlation = 3, .name = name("cuMemsetD8Async"), .track = host, .category = Category::kRuntime});
      t.add({.start = at + 1700, .end = at + 1750, .correlation = 3, .bytes = 64, .name = name("Memset"), .track = stream, .detail = 1, .category = Category::kMemset});
      t.add({.start = at + 1800, .end = at + 2000, .name = name("Stream Sync"), .track = stream, .category = Category::kSynchronize});
      t.add({.start = at + 4000, .end = at + 6000, .bytes = 512, .name = name("all_to_all"), .track = host, .category = Category::kCollective});  // overlaps the step
      t.add({.start = at + 2500, .end = at + 2500, .name = name("mark"), .track = host, .category = Category::kInstant});
      t.add({.start = at + 2600, .end = at + 2700, .name = name("Buffer Flush"), .track = host, .category = Category::kOverhead});
    }
    return t;
  }

  void write(const Trace& trace) {
    const auto done = writeStore(trace, path("t.sqlite"));
    ASSERT_TRUE(done) << done.error().message;
  }
  /// All rows of a statement, cells joined by "|".
  std::vector<std::string> query(const std::string& sql, int columns) {
    std::vector<std::string> out;
    auto db = Database::openToRead(path("t.sqlite"));
    EXPECT_TRUE(db);
    auto s = db->prepare(sql);
    EXPECT_TRUE(s) << sql << ": " << s.error().message;
    if (!s) return out;
    for (auto row = s->next(); row && *row; row = s->next()) {
      std::vector<std::string> cells;
      for (int c = 0; c < columns; ++c) cells.emplace_back(s->isNull(c) ? "NULL" : std::string(s->text(c)));
      out.push_back(join(cells, "|"));
    }
    return out;
  }
};

// From running the shipped reports of 2022.4 and 2023.4 on files that lacked them: a report is skipped, or fails.
TEST_F(Nsight, HasTheTablesAndColumnsThatReportsLookFor) {
  write(Trace());
  const std::map<std::string, std::string> columns{
      {"StringIds", "id, value"},
      {"CUPTI_ACTIVITY_KIND_KERNEL",
       "start, end, deviceId, contextId, greenContextId, streamId, correlationId, globalPid, demangledName, shortName, mangledName, launchType, cacheConfig, registersPerThread, gridX, gridY, gridZ, "
       "blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory, localMemoryPerThread, localMemoryTotal, gridId, sharedMemoryExecuted, graphNodeId, sharedMemoryLimitConfig"},
      {"CUPTI_ACTIVITY_KIND_MEMCPY", "start, end, deviceId, contextId, greenContextId, streamId, correlationId, globalPid, bytes, copyKind, srcKind, dstKind"},
      {"CUPTI_ACTIVITY_KIND_MEMSET", "start, end, deviceId, contextId, greenContextId, streamId, correlationId, globalPid, bytes, value, memKind"},
      {"CUPTI_ACTIVITY_KIND_RUNTIME", "start, end, eventClass, globalTid, correlationId, nameId, returnValue, callchainId"},
      {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "start, end, deviceId, contextId, streamId, correlationId, globalPid, syncType, eventId"},
      {"NVTX_EVENTS", "start, end, eventType, rangeId, category, color, text, globalTid, endGlobalTid, textId, domainId, uint64Value, int64Value, doubleValue, uint32Value, int32Value, floatValue, jsonTextId, jsonText"},
      {"PROFILER_OVERHEAD", "start, end, globalTid, nameId, overheadType"},
      {"TARGET_INFO_GPU", "id, name"},
      {"TARGET_INFO_CUDA_DEVICE", "gpuId, cudaId, pid"},
      {"TARGET_INFO_SESSION_START_TIME", "utcEpochNs"},
      {"ANALYSIS_DETAILS", "globalVid, duration, startTime, stopTime"},
      {"PROCESSES", "globalPid, pid, name"},
      {"ThreadNames", "nameId, priority, globalTid"},
      {"META_DATA_EXPORT", "name, value"},
      {"ENUM_CUDA_MEMCPY_OPER", "id, name, label"},
      {"ENUM_CUDA_MEM_KIND", "id, name, label"}};
  for (const auto& [table, names] : columns) query("SELECT " + names + " FROM " + table, 1);
  EXPECT_THAT(query("SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION'", 1), ElementsAre("3.7.2"));
}

TEST_F(Nsight, NumbersAreItsOwnNotCuptis) {
  write(twoRanks());
  EXPECT_THAT(query("SELECT c.bytes, o.label, s.label, d.label FROM CUPTI_ACTIVITY_KIND_MEMCPY c JOIN ENUM_CUDA_MEMCPY_OPER o ON o.id = copyKind JOIN ENUM_CUDA_MEM_KIND s ON s.id = srcKind JOIN ENUM_CUDA_MEM_KIND d ON d.id = dstKind LIMIT 1", 4),
              ElementsAre("4096|Host-to-Device|Pinned|Device"));
  EXPECT_THAT(query("SELECT l.name FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN ENUM_CUDA_KERNEL_LAUNCH_TYPE l ON l.id = launchType LIMIT 1", 1), ElementsAre("CUDA_KERNEL_LAUNCH_TYPE_REGULAR"));
  EXPECT_THAT(query("SELECT e.label FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION JOIN ENUM_CUPTI_SYNC_TYPE e ON e.id = syncType LIMIT 1", 1), ElementsAre("Stream sync"));
  EXPECT_THAT(query("SELECT value, eventClass FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON id = nameId GROUP BY 1", 2), ElementsAre("cuMemsetD8Async|1", "cudaLaunchKernel|0", "cudaMemcpyAsync|0"));
  EXPECT_THAT(query("SELECT l.value, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds l ON l.id = demangledName JOIN StringIds s ON s.id = shortName LIMIT 1", 2), ElementsAre("void gemm<float, 4>(float*)|gemm"));
}

// Host work goes as NVTX: domain, registered strings, the node's id as payload; push/pop only where ranges nest.
TEST_F(Nsight, HostWorkIsNvtx) {
  write(twoRanks());
  EXPECT_THAT(query("SELECT eventType, value, uint64Value, domainId, end IS NULL FROM NVTX_EVENTS JOIN StringIds ON id = textId WHERE globalTid = (SELECT min(globalTid) FROM NVTX_EVENTS WHERE textId NOT NULL) ORDER BY start", 5),
              ElementsAre("59|step 0|NULL|1|0", "59|aten::mm|41|1|0", "34|mark|NULL|1|1", "60|all_to_all|NULL|1|0"));
  EXPECT_THAT(query("SELECT DISTINCT text FROM NVTX_EVENTS WHERE eventType = 75", 1), ElementsAre("spscope"));
}

// Reports look up domains by the pid alone: two ranks under one pid would count twice.
TEST_F(Nsight, NoTwoRanksShareAPid) {
  const Trace t = twoRanks();
  const NsightIds ids = nsightIds(t);
  EXPECT_EQ(ids.process[0] >> 24 & 0xffffff, 700);
  EXPECT_NE(ids.process[1] >> 24 & 0xffffff, 700);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Trace random = RandomTrace(seed).make(10);
    const NsightIds found = nsightIds(random);
    std::set<std::int64_t> pids, threads;
    for (const std::int64_t p : found.process) EXPECT_TRUE(pids.insert(p & 0xffffff000000).second);
    for (std::size_t i = 0; i < found.thread.size(); ++i) {
      EXPECT_TRUE(threads.insert(found.thread[i]).second);
      EXPECT_EQ(found.thread[i] & ~std::int64_t{0xffffff}, found.process[static_cast<std::size_t>(random.tracks[i].rank)]);
    }
  }
}

TEST_F(Nsight, ShortNamesOfKernels) {
  for (const auto& [full, name] : std::map<std::string, std::string>{
           {"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, at::detail::Array<char*, 1> >(int, at::native::FillFunctor<int>)", "vectorized_elementwise_kernel"},
           {"void at::native::(anonymous namespace)::softmax<float, (int)4>(float*)", "softmax"},
           {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_SendRecv"},
           {"ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"},
           {"a > b", "b"},
           {"broken<", "broken<"},
           {"", ""}})
    EXPECT_EQ(shortKernelName(full), name);
}

// Nsight's indices hold times as 32-bit floats: with epoch times its reports would compare everything with everything.
TEST_F(Nsight, TimesAreRelativeToTheSession) {
  write(twoRanks());
  EXPECT_THAT(query("SELECT min(start), (SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME) FROM NVTX_EVENTS", 2), ElementsAre("0|1795800000000000000"));
}

TEST_F(Nsight, FieldCases_TR_39_what_is_unknown_is_null) {
  Trace t;
  t.ranks.emplace_back();
  t.add({.start = 0, .end = 5, .track = t.stream(0, 0, kUnknown, 7), .category = Category::kKernel});
  t.add({.start = 6, .end = 9, .track = t.stream(0, 0, kUnknown, 7), .category = Category::kMemcpy});
  write(t);
  EXPECT_THAT(query("SELECT contextId, gridX, registersPerThread, dynamicSharedMemory FROM CUPTI_ACTIVITY_KIND_KERNEL", 4), ElementsAre("NULL|NULL|NULL|NULL"));
  EXPECT_THAT(query("SELECT bytes FROM CUPTI_ACTIVITY_KIND_MEMCPY", 1), ElementsAre("NULL"));
}

// --- Nsight Systems itself

class NsightReports : public Nsight {
 protected:
  void SetUp() override {
    nsys_ = findProgram("SPSCOPE_NSYS", "nsys");
    if (nsys_.empty()) GTEST_SKIP() << "no nsys: set SPSCOPE_NSYS (docs/traces.md says where one is)";
    old_ = shell(shellWord(nsys_) + " --version").output.find("version 2022.") != std::string::npos;
  }
  /// The rows of a report, by its names of 2022.4 and since.
  std::vector<std::map<std::string, std::string>> rows(const std::string& of_2022, const std::string& since) {
    const std::string report = old_ ? of_2022 : since;
    if (report.empty()) return {};
    const ShellResult result = shell(shellWord(nsys_) + " stats -f csv -r " + report + " -o - " + shellWord(path("t.sqlite")) + " 2>&1");
    EXPECT_EQ(result.code, 0) << report;
    EXPECT_THAT(result.output, Not(HasSubstr("SKIPPED"))) << report;
    EXPECT_THAT(result.output, Not(HasSubstr("ERROR"))) << report;
    // Behind a line on what is processed.
    const auto table = result.output.find('\n', result.output.find("Processing ["));
    EXPECT_NE(table, std::string::npos) << report;
    std::string text = result.output.substr(std::min(table + 1, result.output.size()));
    text.erase(0, text.find_first_not_of(" \r\n"));
    return csvRows(text);
  }
  static std::int64_t sum(const std::vector<std::map<std::string, std::string>>& rows, const std::string& column) {
    std::int64_t out = 0;
    for (const auto& row : rows) {
      EXPECT_TRUE(row.count(column)) << column;
      if (row.count(column)) out += std::llround(std::stod(row.at(column)));
    }
    return out;
  }
  static std::int64_t sumOf(const Trace& t, std::initializer_list<Category> categories) {
    std::int64_t out = 0;
    for (std::size_t i = 0; i < t.events.size(); ++i)
      if (std::find(categories.begin(), categories.end(), t.events.category[i]) != categories.end()) out += t.events.end[i] - t.events.start[i];
    return out;
  }
  /// Every CUDA and NVTX report: not skipped, no error, sums equal to ours. `project`: also the ranges projected to the GPU.
  void check(const Trace& t, bool project) {
    write(t);
    const std::int64_t kernels = sumOf(t, {Category::kKernel}), copies = sumOf(t, {Category::kMemcpy, Category::kMemset}), calls = sumOf(t, {Category::kRuntime});
    const std::int64_t ranges = sumOf(t, {Category::kOperator, Category::kRange, Category::kDeviceRange, Category::kPython, Category::kCollective, Category::kWait, Category::kOther});
    EXPECT_EQ(sum(rows("gpukernsum", "cuda_gpu_kern_sum"), "Total Time (ns)"), kernels);
    EXPECT_EQ(sum(rows("gpumemtimesum", "cuda_gpu_mem_time_sum"), "Total Time (ns)"), copies);
    EXPECT_EQ(sum(rows("gpusum", "cuda_gpu_sum"), "Total Time (ns)"), kernels + copies);
    EXPECT_EQ(sum(rows("cudaapisum", "cuda_api_sum"), "Total Time (ns)"), calls);
    EXPECT_EQ(sum(rows("apigpusum", "cuda_api_gpu_sum"), "Total Time (ns)"), kernels + copies + calls);
    EXPECT_EQ(sum(rows("nvtxsum", "nvtx_sum"), "Total Time (ns)"), ranges);
    EXPECT_EQ(sum(rows("nvtxppsum", "nvtx_pushpop_sum"), "Total Time (ns)") + sum(rows("nvtxsesum", "nvtx_startend_sum"), "Total Time (ns)"), ranges);
    EXPECT_EQ(sum(rows("gputrace", "cuda_gpu_trace"), "Duration (ns)"), kernels + copies);
    EXPECT_EQ(sum(rows("cudaapitrace", "cuda_api_trace"), "Duration (ns)"), calls);
    // This report loses ranges that start and end together (each is the other's parent there).
    EXPECT_LE(sum(rows("nvtxpptrace", "nvtx_pushpop_trace"), "Duration (ns)"), ranges);
    rows("nvtxsssum", "");
    rows("gpumemsizesum", "cuda_gpu_mem_size_sum");
    rows("kernexecsum", "cuda_kern_exec_sum");
    rows("kernexectrace", "cuda_kern_exec_trace");
    rows("nvtxkernsum", "nvtx_kern_sum");
    if (project) rows("nvtxgpuproj", "nvtx_gpu_proj_trace");
  }
  /// Nsight writes line ends and quotes of names into its CSV as they are.
  static Trace plain(std::uint64_t seed, int events, bool device) {
    RandomTrace random(seed);
    random.plain_names = true;
    return random.make(events, device);
  }
  std::string nsys_;
  bool old_ = false;
};

TEST_F(NsightReports, ReadOurFiles) {
  check(twoRanks(), true);
  // Its projection of ranges to the GPU: the operator has one kernel, the step all three.
  std::map<std::string, std::vector<std::string>> found;
  for (const auto& row : rows("nvtxgpuproj", "nvtx_gpu_proj_trace")) found[row.at("Name")].push_back(row.at("NumGPUOps") + " " + row.at("Projected Duration (ns)"));
  EXPECT_THAT(found["spscope:aten::mm"], ElementsAre("1 500", "1 500"));
  EXPECT_THAT(found["spscope:step 0"], ElementsAre("3 1350", "3 1350"));
}

TEST_F(NsightReports, ReadTracesWithoutAGpu) {
  Trace t = plain(3, 200, false);
  t.format = "spscope";
  check(t, true);
}

TEST_F(NsightReports, ReadRandomTraces) {
  for (std::uint64_t seed = 20; seed < 24; ++seed) check(plain(seed, 100, true), true);
}

// Foreign traces that we export. The projection takes Nsight minutes on files of this size (on its own exports, too).
TEST_F(NsightReports, ReadOurExportsOfForeignTraces) {
  const std::string traces = SPSCOPE_SOURCE_DIR "/../shared/traces";
  if (!std::filesystem::exists(traces)) GTEST_SKIP() << "no " << traces;
  for (const char* file : {"nsys/sp_2gpu.sqlite", "kineto/two_ranks/rank0.json.gz", "kineto/cpu_gloo"}) {
    SCOPED_TRACE(file);
    std::vector<std::string> files{traces + "/" + file};
    if (std::filesystem::is_directory(files[0])) {
      const std::string folder = files[0];
      files.clear();
      for (const auto& e : std::filesystem::directory_iterator(folder)) files.push_back(e.path());
    }
    const auto trace = importTraces(files);
    ASSERT_TRUE(trace) << trace.error().message;
    check(*trace, false);
  }
}

}  // namespace
}  // namespace spscope::trace
