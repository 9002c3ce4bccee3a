// SPDX-License-Identifier: Apache-2.0
// The JSON objects as a contract: every field that scripts rely on, with its type, on the sample model.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/support/temp_folder.h"
#include "tests/support/zip_writer.h"

namespace spscope {
namespace {

using Json = nlohmann::json;

std::string sample() { return std::string(SPSCOPE_SOURCE_DIR) + "/resources/samples/llama_gqa.pt2"; }

/// What is wrong with `value` as seen by `schema`; "" where nothing is. A schema is an object of fields (a trailing ? in a
/// name: the value may be null), an array of one schema (each element; at least one), or a word: int, number, string, bool,
/// object, list (an array that may be empty or of anything).
std::string wrong(const Json& schema, const Json& value, const std::string& at) {
  if (schema.is_object()) {
    if (!value.is_object()) return at + " is no object\n";
    std::string out;
    for (const auto& [key, inner] : schema.items()) {
      const bool nullable = key.back() == '?';
      const std::string name = nullable ? key.substr(0, key.size() - 1) : key;
      if (!value.contains(name)) out += at + "." + name + " is missing\n";
      else if (!(nullable && value[name].is_null())) out += wrong(inner, value[name], at + "." + name);
    }
    return out;
  }
  if (schema.is_array()) {
    if (!value.is_array() || value.empty()) return at + " is no list with elements\n";
    std::string out;
    for (std::size_t i = 0; i < value.size(); ++i) out += wrong(schema[0], value[i], at + "[" + std::to_string(i) + "]");
    return out;
  }
  const std::string type = schema;
  const bool right = type == "int"      ? value.is_number_integer()
                     : type == "number" ? value.is_number()
                     : type == "string" ? value.is_string()
                     : type == "bool"   ? value.is_boolean()
                     : type == "object" ? value.is_object()
                     : type == "list"   ? value.is_array()
                                        : false;
  return right ? "" : at + " is no " + type + ": " + value.dump().substr(0, 60) + "\n";
}

const Json& common() {
  static const Json fields = {{"version", "string"}, {"model", "string"}, {"seconds", "number"}, {"warnings", "list"}};
  return fields;
}

class JsonFieldsTest : public ::testing::Test {
 protected:
  /// The object of a run of the program that must end with `code`.
  Json answer(const std::string& arguments, int code = 0) {
    const std::string out = tmp_.path() + "/out.json";
    std::filesystem::remove(out);
    const int status = std::system((std::string(SPSCOPE_PROGRAM) + " " + arguments + " --json " + out + " >/dev/null 2>&1").c_str());
    EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, code) << arguments;
    std::ifstream in(out);
    return Json::parse(in, nullptr, false);
  }
  void expectFields(const Json& object, Json schema) {
    schema.update(common());
    EXPECT_EQ(wrong(schema, object, ""), "");
  }
  TempFolder tmp_;
};

const Json kCompile = Json::parse(R"({"plan_hash":"string",
  "stages":[{"name":"string","seconds":"number","changed":"int","nodes":"int","peak_bytes":"int","comm_bytes":"int"}],
  "collectives":[{"kind":"string","count":"int","bytes":"int"}],
  "expected_all_to_all":"int","inserted_all_to_all":"int","gathers":"list","saved":{"tensors":"int","bytes":"int"},
  "recomputed":{"nodes":"int","views":"int","collectives":"int","attention":"int","matmul":"int"},
  "memory":{"parameters":"int","gradients":"int","optimizer":"int","activations":"int","temporaries":"int",
            "communication":"int","workspace":"int","peak":"int","peak_node":"string","peak_source":"string"},
  "largest_values":[{"node":"string","bytes":"int"}],
  "curve":[{"peak_bytes":"int","recompute_flops":"int"}],"scaling":"string"})");

TEST_F(JsonFieldsTest, TheCheckItselfSeesDifferences) {
  const Json schema = {{"a", "int"}, {"b?", "string"}, {"c", Json::array({{{"d", "bool"}}})}};
  EXPECT_EQ(wrong(schema, Json::parse(R"({"a":1,"b":null,"c":[{"d":true}]})"), ""), "");
  EXPECT_EQ(wrong(schema, Json::parse(R"({"a":1.5,"c":[{"d":null},{}]})"), ""),
            ".a is no int: 1.5\n.b is missing\n.c[0].d is no bool: null\n.c[1].d is missing\n");
}

TEST_F(JsonFieldsTest, Inspect) {
  expectFields(answer("inspect " + sample()), Json::parse(R"({"inputs":[{"name":"string","dtype":"string","shape":"list"}],
    "nodes":"int","ops":"object","parameters":"int","parameter_bytes":"int",
    "attention":[{"node":"string","kind":"string","mask":"string","heads":"int","kv_heads":"int","head_dim":"int"}],
    "sequence":{"input?":"string","dim?":"int","length?":"int","dynamic":"bool"}})"));
}

TEST_F(JsonFieldsTest, Compile) { expectFields(answer("compile " + sample() + " --threads 1"), kCompile); }

TEST_F(JsonFieldsTest, CompileExplainsMemory) {
  Json fields = kCompile;
  fields["values"] = Json::parse(R"([{"node":"string","source":"string","decision":"string","reason":"string","bytes":"int","recompute_ns":"int"}])");
  const Json j = answer("compile " + sample() + " --save min-cut --explain-memory --threads 1");
  expectFields(j, fields);
  EXPECT_GT(j["values"].size(), 10u);
}

TEST_F(JsonFieldsTest, Verify) {
  const Json j = answer("verify " + sample() + " --seq 64 --threads 1");
  expectFields(j, Json::parse(R"({"loss":"number","reference_loss":"number","loss_rel":"number","grad_rel_max":"number",
    "parameters":[{"name":"string","rel":"number"}],"verdict":"string",
    "first_difference?":{"node":"string","source":"string","rank":"int","pass":"string"}})"));
  EXPECT_EQ(j["verdict"], "equal");
  EXPECT_TRUE(j["first_difference"].is_null()) << "nothing differs";
}

TEST_F(JsonFieldsTest, Run) {
  const Json j = answer("run " + sample() + " --seq 64 --steps 2 --threads 1");
  expectFields(j, Json::parse(R"({"losses":["number"],"step_seconds":["number"],"peak_bytes":["int"],
    "predicted_peak_bytes":["int"],"comm_ns":"int","exposed_comm_ns":"int","overlap?":"number"})"));
  EXPECT_EQ(j["losses"].size(), 2U);
  EXPECT_EQ(j["peak_bytes"].size(), 2U) << "one for each rank";
}

TEST_F(JsonFieldsTest, Diff) {
  ASSERT_EQ(answer("compile " + sample() + " --threads 1 --stages " + tmp_.path() + "/stages").count("files"), 1U);
  const std::string stages = tmp_.path() + "/stages/";
  expectFields(answer("diff " + stages + "00-import.txt " + stages + "04-plan-sequence.txt"),
               Json::parse(R"({"added":["object"],"removed":"list","changed":["object"]})"));
}

TEST_F(JsonFieldsTest, Hang) {
  const Json j = answer("hang " SPSCOPE_SOURCE_DIR "/tests/data/hangs/gloo/missing_rank", 1);
  expectFields(j, Json::parse(R"({"verdict":{"code":"string","culprits":["int"],"certainty":"string","why":"string","group":"string","seq":"int","op":"string",
      "waiting":["int"],"missing":["int"],"call":{"op":"string","seq":"int","state":"string","completed":"bool","input_sizes":"list","frames":["object"]}},
    "dumps":[{"rank":"int","file":"string","format":"string","host":"string","entries":"int","overwritten":"int","unreadable":"int"}],
    "groups":[{"group":"string","ranks":["int"],"ranks_known":"bool","without_dump":"list"}],
    "places":[{"rank":"int","group":"string","last_completed?":"object","first_open?":"object","since_ns?":"int"}],"other":"list","unknown":"list"})"));
  EXPECT_EQ(j["verdict"]["code"], "hang-absent-rank");
  EXPECT_EQ(j["verdict"]["culprits"], Json::array({2}));
  std::ofstream(tmp_.path() + "/empty_rank_0") << R"({"version": "2.4", "entries": []})";
  EXPECT_EQ(answer("hang " + tmp_.path() + "/empty_rank_0", 3)["refusals"][0]["code"], "hang-no-entries") << "nothing recorded is no sign of health";
}

TEST_F(JsonFieldsTest, Doctor) {
  const Json j = answer("doctor");
  expectFields(j, Json::parse(R"({"checks":[{"name":"string","ok":"bool","detail":"string","remedy":"string"}]})"));
  std::set<std::string> names;
  for (const Json& check : j["checks"]) {
    names.insert(check["name"]);
    EXPECT_NE(check["detail"], "") << check["name"];
    EXPECT_EQ(check["ok"].get<bool>(), check["remedy"] == "") << check["name"] << ": a remedy exactly where something is missing";
    if (check["name"] == "torch" || check["name"] == "ranks" || check["name"] == "tmpdir") {
      EXPECT_TRUE(check["ok"]) << check.dump();
    }
  }
  for (const char* name : {"torch", "threads", "ranks", "tmpdir", "cuda-driver", "gpu-library", "nccl", "cupti", "nsys", "opengl", "fonts"})
    EXPECT_TRUE(names.count(name)) << name;
}

TEST_F(JsonFieldsTest, ExplainAndRefusals) {
  expectFields(answer("explain no-loss"), Json::parse(R"({"code":"string","meaning":"string","remedy":"string"})"));
  const Json schema = Json::parse(R"({"refusals":[{"code":"string","message":"string","node":"string","source":"string","legal":"string"}]})");
  expectFields(answer("compile /no/such/file.pt2", 3), schema);
  Json refused = answer("verify /no/such/file.pt2", 3);
  expectFields(refused, schema);
  EXPECT_EQ(refused["verdict"], "refused");
}

TEST_F(JsonFieldsTest, AnInterruptEndsWithinSecondsWithAnObject) {
  // Long enough that the signal comes in the middle, whatever the machine.
  const std::string out = tmp_.path() + "/out.json", log = tmp_.path() + "/log.txt", model = sample();
  std::string program = SPSCOPE_PROGRAM;
  const char* argv[] = {program.c_str(), "verify", model.c_str(), "--seq", "32768", "--threads", "1", "--json", out.c_str(), nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, 2, log.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t pid = 0;
  ASSERT_EQ(::posix_spawn(&pid, program.c_str(), &files, nullptr, const_cast<char**>(argv), environ), 0);
  posix_spawn_file_actions_destroy(&files);
  // Its plain progress lines say that it is at work.
  for (int i = 0; i < 600 && (!std::filesystem::exists(log) || std::filesystem::file_size(log) == 0); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto begin = std::chrono::steady_clock::now();
  ::kill(pid, SIGINT);
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_LT(seconds, 3.0) << "about one second on a machine that is not loaded";
  std::ifstream in(out);
  const Json j = Json::parse(in, nullptr, false);
  EXPECT_EQ(j["error"]["code"], "cancelled");
  EXPECT_EQ(j["model"], model);
}

}  // namespace
}  // namespace spscope
