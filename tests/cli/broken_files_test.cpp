// SPDX-License-Identifier: Apache-2.0
// Broken models, stages and inputs through the program itself: exit code 0 or 3 with one line that says what is wrong, no
// crash, no hang, no more than twice the memory of the whole file. The bulk of the broken files is tried in process
// (tests/unit/io/mutation_test.cpp); here a sample sees everything around it, too.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "core/io/archive.h"
#include "tests/support/mutate.h"
#include "tests/support/temp_folder.h"

extern char** environ;  // NOLINT

namespace spscope {
namespace {

using Json = nlohmann::json;
using testing::Entries;
using testing::Random;

const std::string kData = SPSCOPE_SOURCE_DIR "/tests/data";
/// A model of one attention layer in today's layout; the one that the archive of torch 2.8 holds.
const std::string kModel = SPSCOPE_SOURCE_DIR "/tests/fuzz/corpus/archive/raw.pt2";

std::string bytesOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Answer {
  int code = -1;        ///< 124: it did not end in a minute; 128 + n: signal n
  std::string errors;   ///< standard error
  Json json;
  long peak_kib = 0;    ///< most memory the process had
  std::string reason() const {
    if (json.contains("refusals") && !json["refusals"].empty()) return json["refusals"][0].value("code", "");
    if (json.contains("error")) return json["error"].value("code", "");
    return json.contains("failure") ? "failure" : "";
  }
  std::string message() const {
    if (json.contains("refusals") && !json["refusals"].empty()) return json["refusals"][0].value("message", "");
    return json.contains("error") ? json["error"].value("message", "") : std::string();
  }
};

class BrokenFiles : public ::testing::Test {
 protected:
  Answer run(std::vector<std::string> arguments) const {
    const std::string out = tmp_.path() + "/out.json", log = tmp_.path() + "/errors.txt";
    std::filesystem::remove(out);
    arguments.insert(arguments.begin(), {"timeout", "60", SPSCOPE_PROGRAM});
    arguments.insert(arguments.end(), {"--json", out});
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addopen(&files, 2, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    pid_t child = 0;
    Answer answer;
    const int failed = ::posix_spawnp(&child, "timeout", &files, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&files);
    if (failed != 0) return answer;
    int status = 0;
    struct rusage used {};
    ::wait4(child, &status, 0, &used);
    answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    answer.peak_kib = used.ru_maxrss;  // of timeout's child, too
    answer.errors = bytesOf(log);
    answer.json = Json::parse(bytesOf(out), nullptr, false);
    return answer;
  }
  /// What holds for every broken file: 0 or 3, and then a reason with a code and one line.
  static void expectClear(const Answer& a) {
    EXPECT_TRUE(a.code == 0 || a.code == 3) << a.code << ": " << a.errors;
    ASSERT_TRUE(a.json.is_object()) << a.errors;
    if (a.code != 3) return;
    EXPECT_NE(a.reason(), "");
    EXPECT_NE(a.reason(), "internal");
    EXPECT_NE(a.message(), "");
    EXPECT_TRUE(a.reason() == "text-syntax" || a.message().find('\n') == std::string::npos) << a.message();
    EXPECT_EQ(a.errors.find("error[" + a.reason() + "]"), a.errors.rfind("error[")) << "said once: " << a.errors;
  }
  std::string at(const std::string& name) const { return tmp_.path() + "/" + name; }
  TempFolder tmp_;
};

Entries entriesOf(const std::string& path) {
  const auto archive = io::Archive::open(path);
  EXPECT_TRUE(archive);
  return Entries(**archive);
}
/// The file of the model with one entry's contents changed.
std::string withEntry(const std::string& tail, const std::function<void(std::string*)>& change) {
  Entries entries = entriesOf(kModel);
  for (auto& [name, payload] : entries.all)
    if (name.ends_with(tail)) change(&payload);
  return entries.pack();
}
bool warned(const Json& json, const std::string& code) {
  for (const Json& w : json["warnings"])
    if (w["code"] == code) return true;
  return false;
}

TEST_F(BrokenFiles, SeededMutationsOfAModel) {
  const std::string whole = bytesOf(kModel);
  const Entries entries = entriesOf(kModel);
  std::map<std::string, long> intact;
  int refused = 0;
  for (const char* command : {"inspect", "compile", "verify"}) {
    const Answer answer = run({command, kModel});
    ASSERT_EQ(answer.code, 0) << command << answer.errors;
    intact[command] = answer.peak_kib;
  }
  for (int seed = 0; seed < 16; ++seed) {
    Random random(static_cast<std::uint64_t>(seed) + 77);
    const std::string path = tmp_.file("broken.pt2", seed % 2 ? entries.mutated(random) : testing::mutateBytes(whole, random));
    for (const char* command : {"inspect", "compile", "verify"}) {
      if (seed % 3 != 0 && command[0] == 'i') continue;  // the other two open it as well
      if (seed % 2 == 0 && command[0] == 'v') continue;
      SCOPED_TRACE(std::string(command) + " seed " + std::to_string(seed));
      const Answer answer = run({command, path});
      expectClear(answer);
      EXPECT_LE(answer.peak_kib, 2 * intact[command]);
      refused += answer.code == 3;
    }
  }
  EXPECT_GT(refused, 5);
}

TEST_F(BrokenFiles, OtherKindsOfFileInEveryCommand) {
  testing::ZipWriter script, inductor;
  script.add("m/data.pkl", "x");
  script.add("m/code/__torch__.py", "x");
  inductor.add("m/data/aotinductor/model/a.so", "x");
  std::filesystem::create_directory(at("folder.pt2"));
  std::filesystem::create_symlink("loop.pt2", at("loop.pt2"));
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {kData + "/pickles/variety.pt", "archive-kind", "state dict"},
      {tmp_.file("script.pt", script.bytes()), "archive-kind", "TorchScript"},
      {tmp_.file("aoti.pt2", inductor.bytes()), "archive-kind", "AOTInductor"},
      {tmp_.file("model.onnx", std::string("\x08\x09\x12\x07pytorch", 11)), "archive-not-zip", "ONNX"},
      {kData + "/pickles/variety.safetensors", "archive-not-zip", "safetensors"},
      {at("folder.pt2"), "file-is-folder", "folder"},
      {tmp_.file("empty.pt2", ""), "file-empty", "empty"},
      {at("loop.pt2"), "file-unreadable", "loop.pt2"},
      {tmp_.file("notes.txt", "hello"), "archive-not-zip", "text"},
  };
  for (const auto& [path, code, words] : cases) {
    for (const char* command : {"inspect", "compile", "verify", "run"}) {
      const bool first = path == std::get<0>(cases[0]);  // all four for one of them
      if (!first && command[0] != 'i' && command[0] != 'c') continue;
      SCOPED_TRACE(std::string(command) + " " + path);
      const Answer answer = run({command, path});
      expectClear(answer);
      EXPECT_EQ(answer.code, 3);
      EXPECT_EQ(answer.reason(), code);
      EXPECT_NE(answer.message().find(words), std::string::npos) << answer.message();
    }
  }
}

TEST_F(BrokenFiles, AFlippedBitInAWeightIsFoundByCheck) {
  const auto archive = io::Archive::open(kModel);
  ASSERT_TRUE(archive);
  const auto weight = (*archive)->read("data/weights/weight_1");
  ASSERT_TRUE(weight);
  std::string bytes = bytesOf(kModel);
  const std::string payload(reinterpret_cast<const char*>(weight->data()), weight->size());
  const std::size_t where = bytes.find(payload);
  ASSERT_NE(where, std::string::npos);
  EXPECT_EQ(run({"inspect", kModel, "--check"}).code, 0);
  bytes[where + 100] = static_cast<char>(bytes[where + 100] ^ 4);
  const std::string path = tmp_.file("flipped.pt2", bytes);
  EXPECT_EQ(run({"inspect", path}).code, 0) << "no weight is read";
  const Answer checked = run({"inspect", path, "--check"});
  EXPECT_EQ(checked.code, 1);
  EXPECT_EQ(checked.reason(), "archive-crc");
  EXPECT_NE(checked.message().find("weight_1"), std::string::npos) << checked.message();
}

TEST_F(BrokenFiles, SeveralGraphsAreChosenByName) {
  Entries entries = entriesOf(kModel);
  Entries two = entries;
  for (const auto& [name, payload] : entries.all)
    if (const std::size_t at = name.find("model"); name.ends_with(".json")) {
      std::string other = name;
      other.replace(name.rfind("model"), 5, "second");
      EXPECT_NE(at, std::string::npos);
      two.all.emplace_back(other, payload);
    }
  const std::string path = tmp_.file("two.pt2", two.pack());
  for (const char* command : {"inspect", "compile", "verify", "run"}) {
    const Answer answer = run({command, path});
    EXPECT_EQ(answer.code, 2) << command;
    EXPECT_EQ(answer.reason(), "graph-choose");
    EXPECT_NE(answer.message().find("model, second"), std::string::npos) << answer.message();
  }
  const Answer chosen = run({"inspect", path, "--graph", "second"});
  EXPECT_EQ(chosen.code, 0) << chosen.errors;
  EXPECT_EQ(chosen.json["file"]["graph"], "second");
  EXPECT_EQ(run({"compile", path, "--graph", "second"}).code, 0);
  const Answer unknown = run({"compile", path, "--graph", "secnd"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.reason(), "graph-unknown");
  EXPECT_NE(unknown.message().find("did you mean second?"), std::string::npos) << unknown.message();
}

TEST_F(BrokenFiles, ArchivesOfTorch26AndTorch28RunAsTodays) {
  const Answer today = run({"verify", kModel});
  ASSERT_EQ(today.code, 0) << today.errors;
  const Answer older = run({"verify", kData + "/zoo/old/torch_2.8.0.pt2"});
  EXPECT_EQ(older.code, 0) << older.errors;
  EXPECT_EQ(older.json["verdict"], "equal");
  EXPECT_EQ(older.json["reference_loss"], today.json["reference_loss"]) << "the same weights";
  const Answer oldest = run({"verify", kData + "/zoo/old/torch_2.6.0.pt2"});
  EXPECT_EQ(oldest.code, 0) << oldest.errors;
  EXPECT_EQ(oldest.json["verdict"], "equal");
  EXPECT_TRUE(std::isfinite(oldest.json["loss"].get<double>()));
  Entries entries = entriesOf(kData + "/zoo/old/torch_2.8.0.pt2");
  for (auto& [name, payload] : entries.all)
    if (name.ends_with("weights/model.pt")) payload = bytesOf(kData + "/pickles/subclass.pt");
  const std::string path = tmp_.file("subclass.pt2", entries.pack());
  const Answer refused = run({"compile", path});
  EXPECT_EQ(refused.code, 3);
  EXPECT_EQ(refused.reason(), "weight-pickled");
  EXPECT_EQ(run({"inspect", path}).code, 0);
}

TEST_F(BrokenFiles, StagesThatWereCutOrEdited) {
  ASSERT_EQ(run({"compile", kModel, "--stages", at("stages")}).code, 0);
  std::vector<std::string> stages;
  for (const auto& entry : std::filesystem::directory_iterator(at("stages"))) stages.push_back(entry.path());
  std::sort(stages.begin(), stages.end());
  ASSERT_GT(stages.size(), 5U);
  ASSERT_EQ(run({"compile", stages[2]}).code, 0) << "whole, it stands for its model";
  int refused = 0;
  for (std::size_t i = 0; i < 12; ++i) {
    const std::string whole = bytesOf(stages[i % stages.size()]);
    Random random(i + 5);
    const std::string broken = i < 4 ? whole.substr(0, whole.size() * (i + 1) / 5) : testing::mutateBytes(whole, random);
    const std::string path = tmp_.file("stage.txt", broken);
    SCOPED_TRACE("stage " + std::to_string(i));
    const Answer answer = run({i % 2 ? "inspect" : "compile", path});
    expectClear(answer);
    refused += answer.code == 3;
    EXPECT_TRUE(i >= 4 || answer.code == 3) << "cut";
  }
  EXPECT_GE(refused, 4);
}

/// A safetensors file of the tensors {name: (dtype, shape, bytes)}.
std::string safetensors(const std::vector<std::tuple<std::string, std::string, Json, std::string>>& tensors) {
  Json header = Json::object();
  std::string payload;
  for (const auto& [name, dtype, shape, bytes] : tensors) {
    header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {payload.size(), payload.size() + bytes.size()}}};
    payload += bytes;
  }
  const std::string text = header.dump();
  const std::uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + text + payload;
}
std::string ids(std::int64_t value, std::size_t count = 16) {
  const std::vector<std::int64_t> values(count, value);
  return {reinterpret_cast<const char*>(values.data()), count * 8};
}

TEST_F(BrokenFiles, InputsThatDoNotFit) {
  const Json shape = {2, 8};
  const auto x = std::tuple{std::string("x"), std::string("I64"), shape, ids(3)};
  const auto labels = std::tuple{std::string("labels"), std::string("I64"), shape, ids(5)};
  const std::string good = safetensors({x, labels});
  EXPECT_EQ(run({"verify", kModel, "--inputs", tmp_.file("good.safetensors", good)}).code, 0);
  const std::string floats(16 * 4, '\0');
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {"no tensor of that name", safetensors({x, {"label", "I64", shape, ids(5)}}), "input-missing"},
      {"nothing at all", safetensors({}), "input-missing"},
      {"another length", safetensors({x, {"labels", "I64", {2, 7}, ids(5, 14)}}), "input-shape"},
      {"another rank", safetensors({x, {"labels", "I64", {16}, ids(5)}}), "input-shape"},
      {"floats", safetensors({x, {"labels", "F32", shape, floats}}), "input-dtype"},
      {"an id beyond the table", safetensors({x, {"labels", "I64", shape, ids(16)}}), "input-out-of-range"},
      {"a negative id", safetensors({x, {"labels", "I64", shape, ids(-1)}}), "input-out-of-range"},
      {"cut in the payload", good.substr(0, good.size() - 8), "safetensors-truncated"},
      {"cut in the header", good.substr(0, 20), "safetensors-truncated"},
      {"a length of 2^63", std::string("\0\0\0\0\0\0\0\x80{", 9), "safetensors-truncated"},
      {"no JSON", good.substr(0, 8) + "{" + good.substr(8), "json-syntax"},
      {"another kind of file", bytesOf(kModel), "safetensors-corrupt"},
      {"empty", "", "file-empty"},
  };
  for (const auto& [what, bytes, code] : cases) {
    for (const char* command : {"verify", "run"}) {
      if (command[0] == 'r' && code != "input-out-of-range" && code != "safetensors-truncated") continue;
      SCOPED_TRACE(std::string(command) + ": " + what);
      std::vector<std::string> arguments{command, kModel, "--inputs", tmp_.file("in.safetensors", bytes)};
      if (command[0] == 'r') arguments.insert(arguments.end(), {"--ranks", "virtual", "--steps", "1"});
      const Answer answer = run(arguments);
      expectClear(answer);
      EXPECT_EQ(answer.code, 3);
      EXPECT_EQ(answer.reason(), code) << answer.message();
    }
  }
  const Answer unused = run({"verify", kModel, "--inputs", tmp_.file("more.safetensors", safetensors({x, labels, {"more", "I64", shape, ids(1)}}))});
  EXPECT_EQ(unused.code, 0);
  EXPECT_TRUE(warned(unused.json, "input-unused"));
}

TEST_F(BrokenFiles, WeightsThatAreNoNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // In the embedding, which is the head too, a NaN reaches the loss. In a query, the attention kernel of the CPU hides it
  // from the loss and not from the gradients.
  for (const char* weight : {"weight_0", "weight_1"}) {
    SCOPED_TRACE(weight);
    const std::string path = tmp_.file("nan.pt2", withEntry(weight, [&](std::string* payload) { std::memcpy(payload->data() + 40, &nan, 4); }));
    EXPECT_EQ(run({"compile", path}).code, 0) << "weights are not looked at";
    const Answer verified = run({"verify", path});
    expectClear(verified);
    EXPECT_EQ(verified.code, 3);
    EXPECT_EQ(verified.reason(), "reference-not-finite");
    EXPECT_EQ(verified.json["verdict"], "refused");
    EXPECT_TRUE(warned(verified.json, "weight-not-finite"));
  }
  const std::string path = tmp_.file("nan.pt2", withEntry("weight_0", [&](std::string* payload) { std::memcpy(payload->data() + 40, &nan, 4); }));
  const Answer trained = run({"run", path, "--ranks", "virtual", "--steps", "1"});
  EXPECT_EQ(trained.code, 0) << trained.errors;
  EXPECT_TRUE(warned(trained.json, "weight-not-finite"));
  EXPECT_TRUE(warned(trained.json, "loss-not-finite"));
  const std::string cut = tmp_.file("short.pt2", withEntry("weight_1", [](std::string* payload) { payload->resize(100); }));
  const Answer refused = run({"verify", cut});
  EXPECT_EQ(refused.code, 3);
  EXPECT_EQ(refused.reason(), "weight-size-mismatch");
}

}  // namespace
}  // namespace spscope
