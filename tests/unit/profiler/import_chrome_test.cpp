// SPDX-License-Identifier: Apache-2.0
// Kineto's JSON, event by event: times, tracks, arguments, collectives, memory, arrows.
#include "profiler/import/merge.h"
#include "tests/unit/profiler/import_support.h"

namespace spscope::trace {
namespace {

constexpr std::int64_t kBase = 1790857026000000000;

TEST(ImportChrome, ReadsWhatKinetoWrites) {
  const auto read = importTrace(dataFile("kineto_nccl.json"));
  ASSERT_TRUE(read) << read.error().format();
  const Trace& t = *read;
  expectSound(t);
  EXPECT_EQ(t.format, "kineto");
  ASSERT_EQ(t.ranks.size(), 1u);
  const Rank& rank = t.ranks[0];
  EXPECT_EQ(rank.number, 3);
  EXPECT_EQ(rank.world, 4);
  EXPECT_EQ(rank.backend, "nccl");
  EXPECT_EQ(rank.host, "node7");
  EXPECT_EQ(rank.pid, 100);
  EXPECT_EQ(rank.base_ns, kBase);
  EXPECT_TRUE(rank.fractional_us);
  EXPECT_EQ(rank.first_ns, kBase + 5025000);
  EXPECT_EQ(rank.last_ns, kBase + 6000000);
  EXPECT_EQ(t.properties.at("device.0.name"), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(t.properties.at("device.0.numSms"), "132");
  EXPECT_EQ(t.properties.at("process_group.5.pg_desc"), "sp");  // out of a list within a text
  EXPECT_EQ(t.events.size(), 20u);

  const Event kernel = eventNamed(t, "sm90_xmma_gemm");
  EXPECT_EQ(kernel.start, kBase + 5030002);
  EXPECT_EQ(kernel.end, kBase + 5050005);
  EXPECT_EQ(kernel.category, Category::kKernel);
  EXPECT_EQ(kernel.correlation, 41);
  EXPECT_EQ(kernel.external, 2);
  const Launch& launch = t.launches[static_cast<std::size_t>(kernel.detail)];
  EXPECT_EQ(launch.grid, (std::array<std::int32_t, 3>{16, 2, 1}));
  EXPECT_EQ(launch.block, (std::array<std::int32_t, 3>{128, 1, 1}));
  EXPECT_EQ(launch.registers, 168);
  EXPECT_EQ(launch.shared, 49152);
  EXPECT_EQ(launch.static_shared, -1);  // only the sum is known
  const Track& stream = trackOf(t, kernel);
  EXPECT_EQ(stream.kind, TrackKind::kStream);
  EXPECT_EQ(stream.device, 0);
  EXPECT_EQ(stream.context, 1);
  EXPECT_EQ(stream.stream, 7);
  EXPECT_EQ(textOf(t, stream.name), "stream 7 ");
  EXPECT_EQ(eventNamed(t, "cudaLaunchKernel").correlation, 41);

  const Event copy = eventNamed(t, "Memcpy HtoD (Pinned -> Device)");
  EXPECT_EQ(copy.bytes, 8388608);
  EXPECT_EQ(t.copies[static_cast<std::size_t>(copy.detail)], (Copy{.copy_kind = 1, .source_kind = 1, .target_kind = 2}));
  EXPECT_EQ(t.copies[static_cast<std::size_t>(eventNamed(t, "Memset (Device)").detail)], (Copy{.target_kind = 2}));
  // A wait on a stream lies on it; one of the whole device (stream -1) does not.
  EXPECT_EQ(trackOf(t, eventNamed(t, "Stream Wait Event")).stream, 7);
  EXPECT_EQ(eventNamed(t, "Stream Wait Event").category, Category::kSynchronize);
  EXPECT_EQ(trackOf(t, eventNamed(t, "Context Sync")).kind, TrackKind::kThread);
  // The projection of a range lies beside the kernels of its stream.
  for (std::size_t i = 0; i < t.events.size(); ++i)
    EXPECT_TRUE(t.events.category[i] != Category::kDeviceRange || t.events.track[i] == kernel.track);
  EXPECT_EQ(textOf(t, trackOf(t, eventNamed(t, "MmBackward0")).name), "thread 101 (pt_autograd_0)");
}

TEST(ImportChrome, CollectivesComeFromTheMetadataOfKernels) {
  const auto read = importTrace(dataFile("kineto_nccl.json"));
  ASSERT_TRUE(read);
  const Trace& t = *read;
  ASSERT_EQ(t.collectives.size(), 3u);
  const Collective& exchange = t.collectives[0];
  EXPECT_EQ(textOf(t, exchange.kind), "all_to_all");
  EXPECT_EQ(textOf(t, exchange.group), "5");
  EXPECT_EQ(exchange.sequence, 17);
  EXPECT_FALSE(exchange.sequence_by_order);
  EXPECT_EQ(exchange.bytes, 8192);
  EXPECT_EQ(exchange.group_size, 2);
  EXPECT_EQ(t.event(exchange.event).bytes, 8192);
  const Collective& reduce = t.collectives[1];
  EXPECT_EQ(textOf(t, reduce.kind), "all_reduce");
  EXPECT_EQ(reduce.sequence, 88);  // numbers in quotes
  EXPECT_EQ(reduce.bytes, 4096);
  EXPECT_EQ(reduce.group_size, 4);
}

TEST(FieldCases, TR_31_a_coalesced_kernel_without_metadata_has_unknown_size_not_zero) {
  const auto read = importTrace(dataFile("kineto_nccl.json"));
  ASSERT_TRUE(read);
  const Collective& gather = read->collectives[2];
  EXPECT_EQ(textOf(*read, gather.kind), "all_gather");  // its name says so
  EXPECT_EQ(gather.bytes, kUnknown);
  EXPECT_EQ(gather.group_size, kUnknown);
  EXPECT_EQ(read->event(gather.event).bytes, kUnknown);
}

TEST(FieldCases, TR_33_all_kernels_of_a_graph_launch_keep_its_correlation) {
  const auto read = importTrace(dataFile("kineto_nccl.json"));
  ASSERT_TRUE(read);
  const Event launch = eventNamed(*read, "cudaGraphLaunch");
  for (const char* name : {"in_graph_a", "in_graph_b"}) {
    const Event kernel = eventNamed(*read, name);
    EXPECT_EQ(kernel.correlation, launch.correlation);
    EXPECT_GT(read->launches[static_cast<std::size_t>(kernel.detail)].graph_node, 0);
  }
}

TEST(FieldCases, TR_23_work_before_the_window_is_kept_marked_and_what_kineto_dropped_is_counted) {
  const auto read = importTrace(dataFile("kineto_nccl.json"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->problems.countOf(Problem::kDroppedRecords), 12);  // "Out-of-range = 12"
  EXPECT_EQ(read->ranks[0].dropped, 12);
  const std::string window = R"j({"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans","tid":"PyTorch Profiler","ts":50,"dur":100},)j";
  const Trace t = traceOf(window + R"({"ph":"X","cat":"kernel","name":"early","pid":0,"tid":7,"ts":40,"dur":5,"args":{"stream":7}},)"
                                   R"({"ph":"X","cat":"kernel","name":"late","pid":0,"tid":7,"ts":60,"dur":5,"args":{"stream":7}})");
  EXPECT_EQ(eventNamed(t, "early").flags & kEarly, kEarly);
  EXPECT_EQ(eventNamed(t, "late").flags & kEarly, 0);
  EXPECT_EQ(t.problems.countOf(Problem::kBeforeCapture), 1);
}

TEST(FieldCases, TR_37_allocations_and_frees_are_kept_as_they_were_recorded) {
  const auto read = importTrace(dataFile("kineto_nccl.json"));
  ASSERT_TRUE(read);
  ASSERT_EQ(read->memory.size(), 3u);
  EXPECT_EQ(read->memory[0], (MemoryEvent{.time = kBase + 5011500, .bytes = 512, .address = 139926520725504, .live = 1024, .reserved = 2097152, .device = 0}));
  EXPECT_EQ(read->memory[1].bytes, -512);
  EXPECT_EQ(read->memory[1].live, 512);
  EXPECT_EQ(read->memory[2].device, -1);
}

TEST(ImportChrome, ArrowsEndAtTheOpsOfTheirSequenceNumber) {
  const auto read = importTrace(dataFile("kineto_nccl.json"));
  ASSERT_TRUE(read);
  ASSERT_EQ(read->flows.size(), 1u);  // ac2g says what the correlation ids say
  EXPECT_EQ(textOf(*read, read->events.name[static_cast<std::size_t>(read->flows[0].from)]), "aten::mm");
  EXPECT_EQ(textOf(*read, read->events.name[static_cast<std::size_t>(read->flows[0].to)]), "MmBackward0");
  EXPECT_EQ(textOf(*read, read->flows[0].kind), "fwdbwd");
}

TEST(ImportChrome, CountersAreSeries) {
  const auto read = importTrace(dataFile("kineto_nccl.json"));
  ASSERT_TRUE(read);
  ASSERT_EQ(read->counters.size(), 2u);
  EXPECT_EQ(textOf(*read, read->counters[0].name), "GPU power limit");
  EXPECT_EQ(read->counters[0].value, 700);
  EXPECT_EQ(textOf(*read, read->counters[1].name), "GPU power watts");
  EXPECT_EQ(read->counters[1].value, 610.5);
}

TEST(ImportChrome, ReadsTheNamesOfKinetosFirstReleases) {
  const auto read = importTrace(dataFile("kineto_2021.json"));
  ASSERT_TRUE(read);
  const Trace& t = *read;
  expectSound(t);
  EXPECT_EQ(eventNamed(t, "aten::conv2d").category, Category::kOperator);
  EXPECT_EQ(eventNamed(t, "aten::conv2d").start, 1621400000000000000);
  EXPECT_EQ(eventNamed(t, "cudaLaunchKernel").category, Category::kRuntime);
  EXPECT_EQ(eventNamed(t, "cudaLaunchKernel").external, 5);  // "external id"
  const Event kernel = eventNamed(t, "volta_scudnn_128x64");
  EXPECT_EQ(kernel.category, Category::kKernel);
  EXPECT_EQ(trackOf(t, kernel).stream, 7);
  EXPECT_EQ(countOf(t, Category::kMemcpy), 1);
  EXPECT_EQ(countOf(t, Category::kMemset), 1);
  EXPECT_FALSE(t.ranks[0].fractional_us);
  EXPECT_TRUE(t.problems.empty());
}

TEST(ImportChrome, TheThreeFormsOfTimeMeanTheSame) {
  const std::string event = R"({"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":TS,"dur":2.5})";
  const auto at = [&](const std::string& head, const std::string& ts) {
    std::string one = event;
    one.replace(one.find("TS"), 2, ts);
    const auto t = readText("{" + head + "\"traceEvents\":[" + one + "]}");
    EXPECT_TRUE(t);
    return eventNamed(*t, "a").start;
  };
  EXPECT_EQ(at("", "1712195495519689"), 1712195495519689000);
  EXPECT_EQ(at("\"displayTimeUnit\":\"ns\",", "1712195495519689.047"), 1712195495519689047);
  EXPECT_EQ(at("\"baseTimeNanoseconds\":1712195000000000000,", "495519689.047"), 1712195495519689047);
  // The base may come behind the events, too.
  const auto late = readText("{\"traceEvents\":[" + event.substr(0, event.find("TS")) + "495519689.047" + event.substr(event.find("TS") + 2) +
                             "],\"baseTimeNanoseconds\":1712195000000000000}");
  ASSERT_TRUE(late);
  EXPECT_EQ(eventNamed(*late, "a").start, 1712195495519689047);
}

TEST(FieldCases, TR_07_times_as_texts_and_ids_beyond_2_to_53_are_exact) {
  const Trace t = traceOf(R"({"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":"1700000000000000.001","dur":"0.001","args":{"External id":1152921504606846976}},)"
                          R"({"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":1700000000000000.002,"dur":0.001,"args":{"External id":1152921504606846977}},)"
                          R"({"ph":"s","id":1152921504606846976,"pid":1,"tid":1,"ts":1700000000000000.001,"cat":"x","name":"x"},)"
                          R"({"ph":"f","id":1152921504606846976,"pid":1,"tid":1,"ts":1700000000000000.002,"cat":"x","name":"x","bp":"e"},)"
                          R"({"ph":"s","id":1152921504606846977,"pid":1,"tid":1,"ts":1700000000000000.002,"cat":"x","name":"x"})");
  EXPECT_EQ(eventNamed(t, "a").start, 1700000000000000001);
  EXPECT_EQ(eventNamed(t, "a").end, 1700000000000000002);
  EXPECT_EQ(eventNamed(t, "b").start, 1700000000000000002);
  EXPECT_EQ(eventNamed(t, "a").external, 1LL << 60);
  EXPECT_EQ(eventNamed(t, "b").external, (1LL << 60) + 1);
  ASSERT_EQ(t.flows.size(), 1u);  // ids that a double takes for one
  EXPECT_EQ(t.problems.countOf(Problem::kLostMetadata), 1);
}

TEST(FieldCases, TR_08_events_that_overlap_without_nesting_are_read_as_they_are) {
  const Trace t = traceOf(R"({"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":0,"dur":100},{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":50,"dur":100})");
  EXPECT_EQ(eventNamed(t, "a").end, 100000);
  EXPECT_EQ(eventNamed(t, "b").end, 150000);
  EXPECT_EQ(eventNamed(t, "a").track, eventNamed(t, "b").track);
}

TEST(FieldCases, TR_09_overlapping_kernels_of_one_stream_are_both_read) {
  const Trace t = traceOf(R"({"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":0,"dur":10,"args":{"stream":7}},{"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":9,"dur":10,"args":{"stream":7}})");
  EXPECT_EQ(countOf(t, Category::kKernel), 2);
  EXPECT_EQ(eventNamed(t, "a").end - eventNamed(t, "b").start, 1000);
}

TEST(FieldCases, TR_22_a_kernel_before_its_launch_keeps_its_time_and_its_id) {
  const Trace t = traceOf(R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":103,"dur":5,"args":{"correlation":9}},{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":100,"dur":10,"args":{"stream":7,"correlation":9}})");
  EXPECT_EQ(eventNamed(t, "k").start, 100000);
  EXPECT_EQ(eventNamed(t, "k").correlation, eventNamed(t, "cudaLaunchKernel").correlation);
}

TEST(FieldCases, TR_15_a_list_of_ranks_that_was_cut_is_at_least_so_many) {
  const auto kernel = [](const std::string& more) {
    return R"({"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum","pid":0,"tid":7,"ts":1,"dur":1,"args":{"stream":7,"Collective name":"allreduce","In msg nelems":8,"dtype":"Half",)" + more + "}}";
  };
  const Trace cut = traceOf(kernel(R"("Process Group Ranks":"[0, 1, 2, 3, ...]")"));
  ASSERT_EQ(cut.collectives.size(), 1u);
  EXPECT_EQ(cut.collectives[0].group_size, 4);
  EXPECT_TRUE(cut.collectives[0].group_size_at_least);
  EXPECT_EQ(cut.collectives[0].bytes, 16);
  EXPECT_EQ(cut.problems.countOf(Problem::kCutList), 1);
  const Trace whole = traceOf(kernel(R"("Process Group Ranks":"[0, 1, 2, 3]")"));
  EXPECT_EQ(whole.collectives[0].group_size, 4);
  EXPECT_FALSE(whole.collectives[0].group_size_at_least);
  EXPECT_EQ(whole.problems.countOf(Problem::kCutList), 0);
  const Trace told = traceOf(kernel(R"("Group size":128,"Process Group Ranks":"[0, 1, 2, ..., 127]")"));
  EXPECT_EQ(told.collectives[0].group_size, 128);  // said beside the list
  EXPECT_FALSE(told.collectives[0].group_size_at_least);
}

TEST(FieldCases, TR_39_a_missing_number_stays_unknown) {
  const Trace t = traceOf(R"({"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoD","pid":0,"tid":7,"ts":1,"dur":1,"args":{"stream":7}},)"
                          R"({"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":1,"tid":1,"ts":2,"args":{"Bytes":4,"Device Type":0,"Device Id":-1}},)"
                          R"({"ph":"C","name":"c","pid":1,"tid":1,"ts":3,"args":{"a":null,"b":0}})");
  EXPECT_EQ(eventNamed(t, "Memcpy DtoD").bytes, kUnknown);
  EXPECT_EQ(t.memory.at(0).live, kUnknown);
  EXPECT_EQ(t.memory.at(0).address, kUnknown);
  ASSERT_EQ(t.counters.size(), 1u);
  EXPECT_EQ(textOf(t, t.counters[0].name), "c b");
}

TEST(ImportChrome, KindsOfSendsAndReceivesComeFromTheRangeAroundTheLaunch) {
  const Trace t = traceOf(R"({"ph":"X","cat":"user_annotation","name":"nccl:all_to_all","pid":1,"tid":1,"ts":10,"dur":20,"args":{"Input Dims":[[256,4]],"Input type":["float"]}},)"
                          R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":15,"dur":2,"args":{"correlation":9}},)"
                          R"j({"ph":"X","cat":"kernel","name":"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)","pid":0,"tid":7,"ts":20,"dur":10,"args":{"stream":7,"correlation":9}})j");
  ASSERT_EQ(t.collectives.size(), 1u);
  EXPECT_EQ(textOf(t, t.collectives[0].kind), "all_to_all");
  EXPECT_EQ(t.collectives[0].bytes, 4096);
  EXPECT_EQ(t.collectives[0].sequence, 0);
  EXPECT_TRUE(t.collectives[0].sequence_by_order);
}

TEST(ImportChrome, IdsThatRepeatTheCorrelationLinkNoOp) {
  const std::string op = R"({"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":1,"dur":9,"args":{"External id":900}},)";
  const std::string launches = R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":2,"dur":1,"args":{"External id":900,"correlation":900}},)"
                               R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":5,"dur":1,"args":{"External id":900,"stream":7,"correlation":900}})";
  const Trace t = traceOf(op + launches);
  EXPECT_EQ(eventNamed(t, "k").external, 0);
  EXPECT_EQ(eventNamed(t, "aten::add").external, 900);
  EXPECT_EQ(t.problems.countOf(Problem::kMissingTable), 1);
  const Trace real = traceOf(op + launches + R"(,{"ph":"X","cat":"kernel","name":"other","pid":0,"tid":7,"ts":7,"dur":1,"args":{"External id":900,"stream":7,"correlation":901}})");
  EXPECT_EQ(eventNamed(real, "k").external, 900);
}

TEST(ImportChrome, BeginAndEndMakeOneEvent) {
  const Trace t = traceOf(R"({"ph":"B","cat":"user_annotation","name":"outer","pid":1,"tid":1,"ts":1},{"ph":"B","cat":"user_annotation","name":"inner","pid":1,"tid":1,"ts":2},)"
                          R"({"ph":"E","pid":1,"tid":1,"ts":3},{"ph":"E","pid":1,"tid":1,"ts":9},{"ph":"E","pid":1,"tid":1,"ts":10},)"
                          R"({"ph":"b","cat":"io","id":"0x1","name":"read","pid":1,"tid":1,"ts":4},{"ph":"b","cat":"io","id":"0x2","name":"write","pid":1,"tid":1,"ts":5},{"ph":"e","cat":"io","id":"0x1","name":"read","pid":1,"tid":1,"ts":8})");
  EXPECT_EQ(eventNamed(t, "outer").end, 9000);
  EXPECT_EQ(eventNamed(t, "inner").end, 3000);
  EXPECT_EQ(eventNamed(t, "read").end, 8000);
  EXPECT_EQ(eventNamed(t, "write").end, 9000);  // never ended: the last time stands for it
  EXPECT_EQ(eventNamed(t, "write").flags & kOpenEnded, kOpenEnded);
  EXPECT_EQ(t.problems.countOf(Problem::kBadEvent), 1);  // an end too many
}

TEST(ImportChrome, NodesOfOurOwnExportComeBack) {
  const Trace t = traceOf(R"({"ph":"X","cat":"cpu_op","name":"aten.mm","pid":1,"tid":1,"ts":1,"dur":2,"args":{"node":12,"node name":"mm_3","op":"aten.mm.default","module":"layers.0.mlp","phase":"backward"}},)"
                          R"({"ph":"X","cat":"cpu_op","name":"aten.mm","pid":1,"tid":1,"ts":5,"dur":2,"args":{"node":12,"node name":"mm_3"}})");
  ASSERT_EQ(t.nodes.size(), 1u);
  EXPECT_EQ(t.nodes[0].id, 12);
  EXPECT_EQ(textOf(t, t.nodes[0].name), "mm_3");
  EXPECT_EQ(textOf(t, t.nodes[0].module), "layers.0.mlp");
  EXPECT_EQ(t.nodes[0].phase, Phase::kBackward);
  EXPECT_EQ(t.events.node, (std::vector<NodeIndex>{0, 0}));
}

TEST(ImportChrome, BareArraysAndUnnamedThreadsAreRead) {
  const auto t = readText("\xef\xbb\xbf [\n{\"ph\":\"X\",\"name\":\"a\",\"pid\":\"Spans\",\"tid\":\"T\",\"ts\":1,\"dur\":2},\n{\"ph\":\"X\",\"name\":\"b\",\"pid\":1,\"tid\":-1,\"ts\":1,\"dur\":2}\n]\n");
  ASSERT_TRUE(t);
  EXPECT_TRUE(t->problems.empty());
  EXPECT_EQ(textOf(*t, trackOf(*t, eventNamed(*t, "a")).name), "Spans: T");
  EXPECT_EQ(trackOf(*t, eventNamed(*t, "b")).tid, -1);
}

TEST(ImportChrome, EveryBlockSizeGivesTheSameTrace) {
  for (const char* name : {"kineto_nccl.json", "kineto_2021.json", "kineto_damaged.json"}) {
    const std::string text = contentsOf(dataFile(name));
    const auto whole = readText(text);
    ASSERT_TRUE(whole);
    for (const std::size_t block : {64u, 65u, 100u, 333u, 1024u, 5000u}) {
      const auto t = readText(text, {.block_bytes = block});
      ASSERT_TRUE(t);
      EXPECT_EQ(t->events, whole->events) << name << " " << block;
      EXPECT_EQ(t->memory, whole->memory);
      EXPECT_EQ(t->collectives, whole->collectives);
      EXPECT_EQ(t->flows, whole->flows);
      EXPECT_EQ(t->tracks, whole->tracks);
      EXPECT_EQ(t->properties, whole->properties);
      EXPECT_EQ(t->problems.all(), whole->problems.all()) << name << " " << block;
    }
  }
}

TEST(ImportChrome, SeveralFilesAreRanksOfOneRun) {
  const auto both = importTraces({dataFile("kineto_nccl.json"), dataFile("kineto_2021.json")});
  ASSERT_TRUE(both);
  expectSound(*both);
  ASSERT_EQ(both->ranks.size(), 2u);
  EXPECT_EQ(both->events.size(), 25u);
  EXPECT_EQ(trackOf(*both, eventNamed(*both, "volta_scudnn_128x64")).rank, 1);
  EXPECT_EQ(both->launches[static_cast<std::size_t>(eventNamed(*both, "volta_scudnn_128x64").detail)].registers, 128);
  EXPECT_EQ(both->copies[static_cast<std::size_t>(eventNamed(*both, "Memcpy DtoH (Device -> Pageable)").detail)].copy_kind, 2);
  EXPECT_EQ(both->collectives.size(), 3u);
  std::vector<Trace> same;
  for (int i = 0; i < 2; ++i) same.push_back(std::move(*importTrace(dataFile("kineto_nccl.json"))));
  const auto reversed = mergeTraces(std::move(same));
  ASSERT_TRUE(reversed);
  EXPECT_EQ(reversed->collectives[3].rank, 1);
  EXPECT_EQ(reversed->flows[1].from, reversed->flows[0].from + 20);
  EXPECT_EQ(importTraces({}).error().code, "usage");
}

TEST(ImportChrome, FilesOfTwoRunsOrOneFileTwiceAreRefused) {
  const auto twice = importTraces({dataFile("kineto_nccl.json"), dataFile("kineto_nccl.json")});
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, "trace-ranks-clash");
  EXPECT_EQ(twice.error().outcome, readText("[]").error().outcome);  // unusable input, as any file that is no trace

  const auto folder = std::filesystem::path(testing::TempDir()) / "spscope_clash";
  std::filesystem::create_directories(folder);
  const auto file = [&](const std::string& name, int rank, const std::string& plan) {
    const std::string path = (folder / name).string();
    std::ofstream(path) << R"({"distributedInfo":{"rank":)" << rank << R"(,"world_size":2},"spscope":{"plan_hash":")" << plan
                        << R"("},"traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":2}]})";
    return path;
  };
  const std::string first = file("a.json", 0, "p"), same_rank = file("b.json", 0, "p"), other_plan = file("c.json", 1, "q"), second = file("d.json", 1, "p");
  EXPECT_TRUE(importTraces({first, second}));
  for (const std::string& wrong : {same_rank, other_plan}) {
    const auto refused = importTraces({first, wrong});
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().code, "trace-ranks-clash");
    EXPECT_NE(refused.error().message.find("a.json"), std::string::npos);
    EXPECT_NE(refused.error().message.find(std::filesystem::path(wrong).filename().string()), std::string::npos);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace spscope::trace
