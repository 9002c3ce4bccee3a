// SPDX-License-Identifier: Apache-2.0
// `trace report` and `diff` of traces, as scripts use them: fields, figures, exit codes.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/temp_folder.h"
#include "tests/support/zip_writer.h"

namespace spscope {
namespace {

using Json = nlohmann::json;

/// A rank of a run with one device: a GEMM, an all-reduce that rank 1 reaches late, a copy.
std::string rankFile(int rank) {
  const auto x = [](const char* cat, const std::string& name, int pid, int tid, double ts, double dur, const std::string& args) {
    std::ostringstream out;
    out << R"({"ph":"X","cat":")" << cat << R"(","name":")" << name << R"(","pid":)" << pid << R"(,"tid":)" << tid << R"(,"ts":)" << std::fixed
        << ts << R"(,"dur":)" << dur << R"(,"args":{)" << args << "}}";
    return out.str();
  };
  const std::string nccl = R"("stream":20,"device":0,"context":1,"correlation":2,"Collective name":"allreduce","In msg nelems":1000,"Out msg nelems":1000,)"
                           R"("dtype":"Float","Group size":2,"Process Group Name":"0","Process Group Ranks":"[0, 1]","Seq":5)";
  const double late = rank == 0 ? 0 : 40;
  std::string out = R"({"schemaVersion":1,"distributedInfo":{"backend":"nccl","rank":)" + std::to_string(rank) +
                    R"(,"world_size":2},"host_name":"node","displayTimeUnit":"ms","baseTimeNanoseconds":1000,"traceEvents":[)";
  out += x("cpu_op", "aten::mm", 100 + rank, 1, 0, 20, R"("External id":1)") + ",";
  out += x("cuda_runtime", "cudaLaunchKernel", 100 + rank, 1, 5, 5, R"("correlation":1,"External id":1)") + ",";
  out += x("kernel", "gemm", 0, 7, 20, 80 + late, R"("stream":7,"device":0,"context":1,"correlation":1,"External id":1)") + ",";
  out += x("cuda_runtime", "cudaLaunchKernel", 100 + rank, 1, 12, 5, R"("correlation":2)") + ",";
  out += x("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 0, 20, 110 + late, 90 - late, nccl) + ",";
  out += x("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 0, 7, 200, 10, R"("stream":7,"device":0,"context":1,"correlation":3,"bytes":64)");
  return out + "]}";
}

class TraceReport : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int r = 0; r < 2; ++r) std::ofstream(tmp_.path() + "/rank" + std::to_string(r) + ".json") << rankFile(r);
  }
  std::string rank(int r) const { return tmp_.path() + "/rank" + std::to_string(r) + ".json"; }
  /// The object of a run that must end with `code`; what it printed is in text_.
  Json answer(const std::string& arguments, int code = 0) {
    const std::string out = tmp_.path() + "/out.json", text = tmp_.path() + "/out.txt";
    std::filesystem::remove(out);
    const int status = std::system((std::string(SPSCOPE_PROGRAM) + " " + arguments + " --json " + out + " >" + text + " 2>&1").c_str());
    std::stringstream said;
    said << std::ifstream(text).rdbuf();
    text_ = said.str();
    EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, code) << arguments << "\n" << text_;
    std::ifstream in(out);
    return Json::parse(in, nullptr, false);
  }
  static std::string shared(const std::string& path) { return SPSCOPE_SOURCE_DIR "/../shared/traces/" + path; }
  TempFolder tmp_;
  std::string text_;
};

TEST_F(TraceReport, FiguresOfTwoRanksMadeByHand) {
  const Json j = answer("trace report " + rank(0) + " " + rank(1) + " --report " + tmp_.path() + "/page.html");
  EXPECT_EQ(j["ranks"], 2);
  EXPECT_EQ(j["events"], 12);
  EXPECT_TRUE(j["problems"].is_object());
  EXPECT_EQ(j["alignment"]["method"], "same-clock");
  EXPECT_EQ(j["alignment"]["residual_ns"], 0);
  ASSERT_EQ(j["breakdown"].size(), 2u);
  for (const Json& row : j["breakdown"])
    EXPECT_EQ(row["idle_ns"].get<std::int64_t>() + row["compute_ns"].get<std::int64_t>() + row["exposed_comm_ns"].get<std::int64_t>() +
                  row["exposed_memory_ns"].get<std::int64_t>(),
              row["span_ns"].get<std::int64_t>());
  EXPECT_EQ(j["breakdown"][0]["rank"], 0);
  EXPECT_EQ(j["breakdown"][0]["span_ns"], 190'000);
  EXPECT_EQ(j["breakdown"][0]["compute_ns"], 80'000);
  EXPECT_EQ(j["breakdown"][0]["communication_ns"], 90'000);
  EXPECT_EQ(j["breakdown"][0]["memory_ns"], 10'000);
  EXPECT_EQ(j["breakdown"][0]["idle_ns"], 10'000);
  EXPECT_EQ(j["breakdown"][0]["kernel_ns"], 190'000);
  EXPECT_EQ(j["overlap"], 0.0);
  ASSERT_EQ(j["collectives"].size(), 2u);
  const Json& c = j["collectives"][0];
  EXPECT_EQ(c["seq"], 5);
  EXPECT_EQ(c["bytes"], 4000);
  EXPECT_EQ(c["rank"], 0);
  EXPECT_EQ(c["wait_ns"], 40'000);
  EXPECT_EQ(c["transfer_ns"], 50'000);
  EXPECT_EQ(j["stragglers"][0]["rank"], 1);
  EXPECT_EQ(j["stragglers"][0]["caused_wait_ns"], 40'000);
  ASSERT_FALSE(j["critical_path"].empty());
  std::int64_t sum = 0;
  for (const Json& step : j["critical_path"]) sum += step["duration_ns"].get<std::int64_t>();
  EXPECT_EQ(sum, j["critical_path_total"]["span_ns"]);
  EXPECT_EQ(j["memory_peak"], Json::array());
  EXPECT_EQ(j["nodes"][0]["node"], "aten::mm");
  EXPECT_EQ(j["nodes"][0]["total_ns"], 340'000);  // what it launched: the GEMM, and the all-reduce
  EXPECT_EQ(j["nodes"][0]["count"], 2);
  EXPECT_NE(text_.find("Where the time went"), std::string::npos);
  EXPECT_NE(text_.find("190.0 us"), std::string::npos) << text_;
  EXPECT_GT(std::filesystem::file_size(tmp_.path() + "/page.html"), 1000u);
}

TEST_F(TraceReport, HtaBesideOurs) {
  const Json j = answer("trace report --hta " + rank(0));
  EXPECT_EQ(j["breakdown"][0]["kernel_ns"], 190'000);
  EXPECT_EQ(j["breakdown"][0]["idle_ns"].get<int>() + j["breakdown"][0]["compute_ns"].get<int>() + j["breakdown"][0]["non_compute_ns"].get<int>(), 190'000);
  EXPECT_EQ(j["own_breakdown"][0]["compute_ns"], 80'000);
}

TEST_F(TraceReport, AbsentIsSaidInJsonAndText) {
  std::ofstream(tmp_.path() + "/cpu.json") << R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":0,"dur":5}]})";
  const Json j = answer("trace report --hta " + tmp_.path() + "/cpu.json");
  EXPECT_TRUE(j["breakdown"][0]["idle_ns"].is_null());
  EXPECT_TRUE(j["breakdown"][0].contains("absent"));
  EXPECT_TRUE(j["overlap"].is_null());
  EXPECT_NE(text_.find("absent"), std::string::npos);
}

TEST_F(TraceReport, RanksThatCannotBeAlignedAreAWarningNotAnEnd) {
  for (int r = 0; r < 2; ++r)
    std::ofstream(rank(r)) << R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":)" << 1000 * r << R"(,"dur":5,"args":{"stream":7,"device":0}}]})";
  const Json j = answer("trace report " + rank(0) + " " + rank(1));
  EXPECT_TRUE(j["alignment"]["method"].is_null());
  EXPECT_EQ(j["alignment"]["code"], "trace-not-alignable");
  EXPECT_EQ(j["warnings"][0]["code"], "trace-not-alignable");
  EXPECT_EQ(j["critical_path_error"]["code"], "trace-no-critical-path");
  EXPECT_EQ(j["breakdown"][1]["compute_ns"], 5'000);
}

TEST_F(TraceReport, DiffOfTwoTraces) {
  const Json j = answer("diff " + rank(0) + " " + rank(1) + " --exit-code", 1);
  EXPECT_EQ(j["equal"], false);
  EXPECT_TRUE(j["added"].empty());
  ASSERT_EQ(j["changed"].size(), 2u);
  EXPECT_EQ(j["changed"][0]["b_ns"].get<int>() - j["changed"][0]["a_ns"].get<int>(), j["changed"][0]["kind"] == "kernel" && j["changed"][0]["node"] == "gemm" ? 40'000 : -40'000);
  EXPECT_EQ(answer("diff " + rank(0) + " " + rank(0) + " --exit-code")["equal"], true);
}

TEST_F(TraceReport, DiffOfATraceAndAGraphNamesBoth) {
  const std::string model = SPSCOPE_SOURCE_DIR "/resources/samples/llama_gqa.pt2";
  for (const auto& [a, b] : {std::pair{rank(0), model}, std::pair{model, rank(0)}}) {
    const Json j = answer("diff " + a + " " + b, 2);
    EXPECT_EQ(j["error"]["message"], rank(0) + " is a trace, and " + model + " is none: they have nothing to compare");
  }
  EXPECT_EQ(answer("diff " + rank(0) + " " + tmp_.path() + "/absent", 3)["refusals"][0]["message"], "there is no file " + tmp_.path() + "/absent");
}

TEST_F(TraceReport, RefusesWhatIsNoTrace) {
  EXPECT_EQ(answer("trace report " + tmp_.path() + "/nothing.json", 3)["refusals"][0]["code"], "file-missing");
  answer("trace analyse " + rank(0), 2);
  answer("trace report " + rank(0) + " --peak-tflops nan", 2);
}

TEST_F(TraceReport, NsightOfARealSequenceParallelRun) {
  if (!std::filesystem::exists(shared("nsys/sp_2gpu.sqlite"))) GTEST_SKIP() << "the shared traces are not here";
  const Json j = answer("trace report " + shared("nsys/sp_2gpu.sqlite"));
  std::int64_t communication = 0;
  for (const Json& row : j["breakdown"]) communication += row["communication_ns"].get<std::int64_t>();
  EXPECT_EQ(communication, 25'401'752);
  EXPECT_EQ(j["collectives"].size(), 66u);
  EXPECT_EQ(j["overlap"], 0.0);
}

}  // namespace
}  // namespace spscope
