// SPDX-License-Identifier: Apache-2.0
// Nsight Systems' SQLite: the schemas of 2023.4 and 2026.1 (their columns, in statements), drift of tables and columns,
// ranks, and rows that no one should trust.
#include "profiler/analyze/breakdown.h"
#include "profiler/analyze/hta.h"
#include "profiler/store/sqlite.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/profiler/import_support.h"

namespace spscope::trace {
namespace {

constexpr std::int64_t kBase = 1700000000000000000;

class ImportNsys : public TempFolderTest {
 protected:
  /// A database made by statements, read.
  Trace made(const std::string& sql, const std::string& name = "t.sqlite") {
    make(sql, name);
    auto t = importTrace(path(name));
    EXPECT_TRUE(t) << t.error().format();
    if (!t) return {};
    expectSound(*t);
    return std::move(*t);
  }
  void make(const std::string& sql, const std::string& name = "t.sqlite") {
    std::filesystem::remove(path(name));
    auto database = Database::create(path(name));
    ASSERT_TRUE(database);
    const Status ran = database->run(sql);
    ASSERT_TRUE(ran) << ran.error().format();
    ASSERT_TRUE(database->close());
  }
  static std::string schema(const std::string& version) { return contentsOf(dataFile("nsys_" + version + ".sql")); }
};

TEST_F(ImportNsys, ReadsTheSchemasOf2023And2026Alike) {
  const Trace old = made(schema("3_7")), recent = made(schema("3_24"));
  EXPECT_EQ(old.format, "nsys 3.7.2");
  EXPECT_EQ(recent.format, "nsys 3.24.14");
  EXPECT_EQ(old.events, recent.events);
  EXPECT_EQ(old.tracks, recent.tracks);
  EXPECT_EQ(old.launches, recent.launches);
  EXPECT_EQ(old.collectives, recent.collectives);
  EXPECT_EQ(old.memory, recent.memory);
  EXPECT_EQ(old.problems.countOf(Problem::kUnknownSchema), 0);

  const Trace& t = recent;
  ASSERT_EQ(t.ranks.size(), 2u);  // a GPU of a process each
  EXPECT_EQ(t.ranks[0].pid, 10);
  EXPECT_EQ(t.ranks[1].pid, 11);
  EXPECT_EQ(t.ranks[0].base_ns, kBase);
  EXPECT_EQ(countOf(t, Category::kKernel, 0), 2);
  EXPECT_EQ(countOf(t, Category::kKernel, 1), 2);
  const Event kernel = eventNamed(t, "gemm");
  EXPECT_EQ(kernel.start, kBase + 1000);
  EXPECT_EQ(kernel.end, kBase + 3000);
  EXPECT_EQ(kernel.correlation, 501);
  EXPECT_EQ(t.launches[static_cast<std::size_t>(kernel.detail)],
            (Launch{.grid = {4, 2, 1}, .block = {256, 1, 1}, .registers = 96, .static_shared = 1024, .dynamic_shared = 4096}));
  EXPECT_EQ(eventNamed(t, "cudaLaunchKernel_v7000").correlation, 501);
  EXPECT_EQ(textOf(t, trackOf(t, eventNamed(t, "cudaLaunchKernel_v7000")).name), "main");
  EXPECT_EQ(eventNamed(t, "Memcpy HtoD (Pinned -> Device)").bytes, 4096);
  const Event set = eventNamed(t, "Memset (Device)");
  EXPECT_EQ(set.bytes, 64);
  EXPECT_EQ(t.copies[static_cast<std::size_t>(set.detail)].value, 255);
  EXPECT_EQ(trackOf(t, eventNamed(t, "Stream Sync")).stream, 7);
  EXPECT_EQ(trackOf(t, eventNamed(t, "Event Sync")).stream, kUnknown);  // of no stream
  EXPECT_EQ(eventNamed(t, "Buffer flush").category, Category::kOverhead);
  EXPECT_EQ(eventNamed(t, "aten::mm, op_id = 77").category, Category::kOperator);
  EXPECT_EQ(eventNamed(t, "mark").category, Category::kInstant);
  EXPECT_EQ(t.properties.at("device.1.smCount"), "132");
}

TEST_F(ImportNsys, RangesOfOurDomainCarryTheNode) {
  const Trace t = made(schema("3_7"));
  const Event range = eventNamed(t, "layers.0.mlp");  // a registered text
  ASSERT_NE(range.node, kNoIndex);
  EXPECT_EQ(t.nodes[static_cast<std::size_t>(range.node)].id, 42);
  EXPECT_EQ(eventNamed(t, "aten::mm, op_id = 77").node, kNoIndex);
}

TEST_F(ImportNsys, OpenRangesEndWithTheTrace) {
  const Event range = eventNamed(made(schema("3_7")), "never ended");
  EXPECT_EQ(range.flags & kOpenEnded, kOpenEnded);
  EXPECT_EQ(range.end, kBase + 6500);
}

TEST_F(ImportNsys, CollectivesComeFromNamesAndRanges) {
  const Trace t = made(schema("3_7"));
  ASSERT_EQ(t.collectives.size(), 2u);
  EXPECT_EQ(textOf(t, t.collectives[0].kind), "all_reduce");
  EXPECT_EQ(textOf(t, t.collectives[1].kind), "all_to_all");  // sends and receives, launched in nccl:all_to_all
  for (const Collective& c : t.collectives) EXPECT_EQ(c.bytes, kUnknown);
}

TEST_F(ImportNsys, AllocationsAndFreesAreSigned) {
  const Trace t = made(schema("3_7"));
  ASSERT_EQ(t.memory.size(), 3u);
  EXPECT_EQ(t.memory[0], (MemoryEvent{.time = kBase + 600, .bytes = 1048576, .address = 4096, .device = 0}));
  EXPECT_EQ(t.memory[1].bytes, -1048576);
  EXPECT_EQ(t.memory[2].rank, 1);
  EXPECT_EQ(t.memory[2].device, -1);  // pinned host memory
}

TEST_F(ImportNsys, TR_23_TR_24_dropped_records_and_tables_not_read_are_counted) {
  const Trace t = made(schema("3_7"));
  EXPECT_EQ(t.problems.countOf(Problem::kDroppedRecords), 12);
  EXPECT_EQ(t.problems.countOf(Problem::kLostMetadata), 1);
  EXPECT_EQ(t.problems.all().at(Problem::kLostMetadata).first, "OSRT_API (1 rows)");
}

TEST_F(ImportNsys, TR_38_tables_are_found_by_prefix_and_highest_version) {
  const Trace t = made(schema("3_7") +
                       "ALTER TABLE NVTX_EVENTS RENAME TO NVTX_EVENTS_V2; ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO CUPTI_ACTIVITY_KIND_KERNEL_V10;"
                       "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL_V9 (start INTEGER, end INTEGER); INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL_V9 VALUES (1, 2);"
                       "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL_COPY (start INTEGER);");
  EXPECT_EQ(countOf(t, Category::kKernel), 4);
  eventNamed(t, "layers.0.mlp");
  EXPECT_EQ(t.problems.countOf(Problem::kMissingTable), 0);
}

TEST_F(ImportNsys, TR_38_a_name_column_with_another_name_is_found) {
  const Trace t = made(schema("3_7") + "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN demangledName;");
  EXPECT_EQ(eventNamed(t, "gemm").category, Category::kKernel);  // its shortName
}

TEST_F(ImportNsys, TR_38_an_absent_table_is_a_partial_report) {
  const Trace t = made(schema("3_7") + "DROP TABLE NVTX_EVENTS; DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY;");
  EXPECT_EQ(countOf(t, Category::kKernel), 4);
  EXPECT_EQ(countOf(t, Category::kRange), 0);
  EXPECT_EQ(t.problems.countOf(Problem::kMissingTable), 1);
  EXPECT_EQ(t.problems.all().at(Problem::kMissingTable).first, "NVTX_EVENTS");
}

TEST_F(ImportNsys, WithoutKernelsOrTheirNamesFiguresAreAbsentNotZero) {
  const auto rows = [](const Trace& t) { return breakdown(t, classifyWork(t)); };
  ASSERT_TRUE(rows(made(schema("3_7"))).at(0).absent.empty());
  for (const char* table : {"CUPTI_ACTIVITY_KIND_KERNEL", "StringIds"}) {
    const Trace t = made(schema("3_7") + "DROP TABLE " + table + ";");
    const Breakdown row = rows(t).at(0);
    EXPECT_NE(row.absent.find(table == std::string("StringIds") ? "names of kernels" : "no table of kernels"), std::string::npos) << row.absent;
    EXPECT_EQ(row.compute_ns, kUnknown);
    EXPECT_EQ(row.communication_ns, kUnknown);
    const HtaRank hta = htaBreakdown(t).at(0);
    EXPECT_EQ(hta.absent, row.absent);
    EXPECT_EQ(hta.compute_us, kUnknown);
    EXPECT_GT(t.problems.countOf(Problem::kMissingTable), 0);
  }
}

TEST_F(ImportNsys, TR_39_null_stays_unknown) {
  const Trace t = made(schema("3_7"));
  EXPECT_EQ(eventNamed(t, "Memcpy DtoD (Device -> Device)").bytes, kUnknown);
}

TEST_F(ImportNsys, UnknownVersionsAreReadAsFarAsTheyAgree) {
  const Trace t = made(schema("3_7") + "UPDATE META_DATA_EXPORT SET value = '4.1.0' WHERE name = 'EXPORT_SCHEMA_VERSION';");
  EXPECT_EQ(t.format, "nsys 4.1.0");
  EXPECT_EQ(t.problems.countOf(Problem::kUnknownSchema), 1);
  EXPECT_EQ(countOf(t, Category::kKernel), 4);
  EXPECT_EQ(made(schema("3_7") + "DROP TABLE META_DATA_EXPORT;").problems.countOf(Problem::kUnknownSchema), 1);
}

TEST_F(ImportNsys, AProcessWithSeveralGpusIsSeveralRanks) {
  // The second process' work moves to the first, onto another device with ids of its own.
  const Trace t = made(schema("3_7") +
                       "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = correlationId + 100 WHERE deviceId = 1;"
                       "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET correlationId = correlationId + 100 WHERE globalTid >> 24 & 0xffffff = 11;"
                       "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = 281474976710656 + 167772160;"
                       "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET globalTid = 281474976710656 + 167772160 + 10;");
  ASSERT_EQ(t.ranks.size(), 2u);
  EXPECT_EQ(t.ranks[0].pid, 10);
  EXPECT_EQ(t.ranks[1].pid, 10);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(countOf(t, Category::kKernel, rank), 2);
    EXPECT_EQ(countOf(t, Category::kRuntime, rank), 2);  // the calls follow their work
  }
}

TEST_F(ImportNsys, ACpuOnlyCaptureHasARankForEachProcess) {
  const Trace t = made(schema("3_7") + "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL; DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY; DELETE FROM CUPTI_ACTIVITY_KIND_MEMSET;");
  EXPECT_EQ(t.ranks.size(), 2u);
  EXPECT_EQ(countOf(t, Category::kRange, 0), 2);
  EXPECT_EQ(t.collectives.size(), 0u);
}

TEST_F(ImportNsys, NothingInTheRowsIsTrusted) {
  const Trace t = made(schema("3_7") +
                       "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, globalPid, shortName, demangledName, gridX) VALUES"
                       " (NULL, 5, 0, 7, 1, 1, 1, 1, 1), ('text', x'00', 'a', 'b', 'c', 'd', 'e', 'f', 'g'), (9000, 8000, -5, -7, -1, -1, 99999, 99999, -3),"
                       " (9223372036854775807, 9223372036854775807, 0, 7, 1, 1, 1, 1, 1), (-9223372036854775808, 0, 0, 7, 1, 1, 1, 1, 1), (9000, 9001, 0, 7, 1e300, 1e300, 1.5, 1.5, 1e10);"
                       "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY (start, end, bytes, copyKind, srcKind) VALUES (1, 2, -7, 4000, -1);"
                       "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) VALUES (1, 2, 59, x'ff41', -1), (1, 2, 'x', 'y', 'z');"
                       "INSERT INTO StringIds VALUES (-5, x'9f');"
                       "UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = -1;");
  EXPECT_EQ(t.problems.countOf(Problem::kBadEvent), 3);  // without a start
  EXPECT_EQ(t.problems.countOf(Problem::kOutOfRange), 1);
  EXPECT_EQ(t.problems.countOf(Problem::kNegativeDuration), 1);
  EXPECT_EQ(t.problems.countOf(Problem::kBadUtf8), 2);
  EXPECT_EQ(t.problems.countOf(Problem::kBadNumber), 1);
  EXPECT_EQ(t.ranks[0].base_ns, 0);
  EXPECT_EQ(countOf(t, Category::kMemcpy), 3);
}

TEST_F(ImportNsys, ADamagedDatabaseIsReadAsFarAsItGoesOrRefused) {
  std::string more = schema("3_7");
  for (int i = 0; i < 400; ++i) more += "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) VALUES (1, 2, 59, 'range " + std::to_string(i) + "', 281474976710656 + 167772160 + 10);";
  make(more);
  const std::string bytes = contents("t.sqlite");
  std::size_t partial = 0, refused = 0;
  for (std::size_t at = 100; at + 64 < bytes.size(); at += 1009) {
    std::string broken = bytes;
    for (std::size_t i = 0; i < 64; ++i) broken[at + i] = static_cast<char>(i * 37 + at);
    const auto t = importBytes(std::as_bytes(std::span(broken.data(), broken.size())), "broken");
    if (t) expectSound(*t);
    else EXPECT_EQ(t.error().code, "trace-unreadable") << t.error().format();
    partial += t && !t->problems.empty(), refused += !t;
  }
  EXPECT_GT(partial, 0u);
  for (const std::size_t size : {std::size_t{100}, bytes.size() / 3, bytes.size() - 10}) {
    const auto t = importBytes(std::as_bytes(std::span(bytes.data(), size)), "cut");
    if (t) expectSound(*t);
    else EXPECT_EQ(t.error().code, "trace-unreadable");
  }
}

TEST_F(ImportNsys, RowsLeftInAJournalAreToldToBeMissing) {
  make(schema("3_7"));
  std::ofstream(path("t.sqlite-wal")) << "pages";
  const auto t = importTrace(path("t.sqlite"));
  ASSERT_TRUE(t);
  EXPECT_EQ(t->problems.countOf(Problem::kTruncated), 1);
}

TEST_F(ImportNsys, AForeignDatabaseIsRefused) {
  make("CREATE TABLE people (name TEXT); INSERT INTO people VALUES ('x');");
  const auto t = importTrace(path("t.sqlite"));
  ASSERT_FALSE(t);
  EXPECT_EQ(t.error().code, "trace-unreadable");
}

TEST_F(ImportNsys, ReadingCanBeStopped) {
  make(schema("3_7"));
  ImportOptions options;
  options.cancel.cancel();
  EXPECT_EQ(importTrace(path("t.sqlite"), options).error().code, "cancelled");
}

}  // namespace
}  // namespace spscope::trace
