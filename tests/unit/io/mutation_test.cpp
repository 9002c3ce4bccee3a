// SPDX-License-Identifier: Apache-2.0
// Broken files, by the thousand: whatever the bytes are, the answer is a graph or one clear reason, without a crash (the
// sanitizers look on), without a hang (CTest's timeout), and with no more than twice the memory of the whole file.
#include <gtest/gtest.h>

#include <map>

#include "core/base/codes.h"
#include "core/io/program.h"
#include "core/io/safetensors.h"
#include "core/io/weights.h"
#include "core/ir/text.h"
#include "core/ir/verifier.h"
#include "tests/support/heap_peak.h"
#include "tests/support/mutate.h"

namespace spscope::io {
namespace {

using testing::Entries;
using testing::HeapPeak;
using testing::Random;

const std::string kData = SPSCOPE_SOURCE_DIR "/tests/data";
const std::string kCorpus = SPSCOPE_SOURCE_DIR "/tests/fuzz/corpus";
const std::string kArchives[] = {kData + "/zoo/old/torch_2.6.0.pt2", kData + "/zoo/old/torch_2.8.0.pt2", kCorpus + "/archive/raw.pt2"};

std::string bytesOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
std::shared_ptr<const MappedFile> fileOf(const std::string& name, const std::string& bytes) {
  const auto view = std::as_bytes(std::span<const char>(bytes));
  return MappedFile::ofBytes(name, {view.begin(), view.end()});
}

void expectClear(const Error& error) {
  EXPECT_NE(findCode(error.code), nullptr) << error.code;
  EXPECT_NE(error.code, "internal") << error.message;
  EXPECT_FALSE(error.message.empty());
  EXPECT_LT(error.message.size(), 2100U);
  EXPECT_TRUE(error.code == "text-syntax" || error.message.find('\n') == std::string::npos) << error.message;
  // Exit code 3; 2 only where the damage left several graphs to choose from.
  EXPECT_TRUE(error.outcome == Outcome::kRefused || error.code == "graph-choose" || error.code == "graph-unknown") << error.code;
}

/// Opens it and looks at every weight. The code of the refusal, or "opened".
std::string openAll(const std::string& bytes) {
  DiagnosticSink sink;
  const auto model = openModel(fileOf("broken.pt2", bytes), {}, sink);
  if (!model) {
    expectClear(model.error());
    return model.error().code;
  }
  const auto sound = ir::verifyGraph(model->graph);
  EXPECT_TRUE(sound) << sound.error().format();
  const WeightSource weights(model->archive);
  unsigned sum = 0;
  for (const ir::Input& input : model->graph.inputs) {
    if (input.kind == ir::InputKind::kUser) continue;
    const auto window = weights.window(model->graph, input);
    if (!window) expectClear(window.error());
    else
      for (const std::byte b : *window) sum += static_cast<unsigned>(b);
  }
  EXPECT_GE(sum, 0U);
  if (const auto crcs = model->archive->checkCrcs(); !crcs) {
    EXPECT_NE(findCode(crcs.error().code), nullptr);
  }
  return "opened";
}

std::ptrdiff_t peakOf(const std::string& bytes, std::string* code) {
  const HeapPeak peak;
  *code = openAll(bytes);
  return peak.bytes();
}

constexpr int kBlocks = 10, kPerBlock = 500;

class ArchiveMutation : public ::testing::TestWithParam<int> {};

TEST_P(ArchiveMutation, IsOpenedOrRefusedClearly) {
  std::map<std::string, int> answers;
  for (const std::string& path : kArchives) {
    const std::string whole = bytesOf(path);
    ASSERT_FALSE(whole.empty()) << path;
    std::string code;
    const std::ptrdiff_t intact = peakOf(whole, &code);
    ASSERT_EQ(code, "opened") << path;
    ASSERT_TRUE(intact > 0 || !testing::kHeapCounted);
    const auto archive = Archive::open(path);
    ASSERT_TRUE(archive);
    const Entries entries(**archive);
    for (int i = 0; i < (kPerBlock + 2) / 3; ++i) {
      const auto seed = static_cast<std::uint64_t>(GetParam() * 1000 + i);
      SCOPED_TRACE(path + " seed " + std::to_string(seed));
      Random random(seed);
      const std::string broken = i % 2 ? entries.mutated(random) : testing::mutateBytes(whole, random);
      const std::ptrdiff_t used = peakOf(broken, &code);
      ++answers[code];
      if (testing::kHeapCounted) {
        EXPECT_LE(used, 2 * intact) << code;
      }
      if (HasFailure()) return;  // one is enough, and it has its seed
    }
  }
  EXPECT_GT(answers["opened"], 0) << "some damage is harmless";
  EXPECT_GT(answers.size(), 5U) << "and the rest is told apart";
  for (const auto& [code, count] : answers) RecordProperty(code, count);
}
INSTANTIATE_TEST_SUITE_P(Seeds, ArchiveMutation, ::testing::Range(0, kBlocks));

TEST(ArchiveMutations, EveryPrefixIsTruncated) {
  for (const std::string& path : {kArchives[0], kArchives[1], kData + "/zoo/gpt2_dyn_pos.pt2"}) {
    const std::string whole = bytesOf(path);
    ASSERT_FALSE(whole.empty()) << path;
    std::string code;
    const std::ptrdiff_t intact = peakOf(whole, &code);
    ASSERT_EQ(code, "opened");
    for (std::size_t percent = 0; percent < 100; ++percent) {
      SCOPED_TRACE(path + " " + std::to_string(percent) + " %");
      const std::ptrdiff_t used = peakOf(whole.substr(0, whole.size() * percent / 100), &code);
      EXPECT_EQ(code, percent == 0 ? "archive-not-zip" : "archive-truncated");  // an empty file on disk is file-empty
      if (testing::kHeapCounted) {
        EXPECT_LE(used, 2 * intact);
      }
    }
    peakOf(whole.substr(0, whole.size() - 1), &code);
    EXPECT_EQ(code, "archive-truncated");
  }
}

TEST(StageMutations, ParseOrAreRefusedAtTheirLine) {
  for (const char* stage : {"00-import.txt", "02-plan-sequence.txt", "10-schedule.txt"}) {
    const std::string whole = bytesOf(kCorpus + "/graph_text/" + stage);
    ASSERT_TRUE(ir::parseGraphText(whole, stage)) << stage;
    const auto check = [&](const std::string& text) {
      const auto parsed = ir::parseGraphText(text, stage);
      if (!parsed) return expectClear(parsed.error());
      if (const auto sound = ir::verifyGraph(parsed->graph); !sound) expectClear(sound.error());
      const std::string printed = ir::printGraph(parsed->graph, parsed->header);
      const auto again = ir::parseGraphText(printed, "printed");
      ASSERT_TRUE(again) << again.error().format();
      EXPECT_EQ(ir::printGraph(again->graph, again->header), printed);
    };
    for (std::size_t percent = 0; percent < 100; ++percent) {
      SCOPED_TRACE(std::string(stage) + " " + std::to_string(percent) + " %");
      check(whole.substr(0, whole.size() * percent / 100));
    }
    for (int seed = 0; seed < 300; ++seed) {
      SCOPED_TRACE(std::string(stage) + " seed " + std::to_string(seed));
      Random random(static_cast<std::uint64_t>(seed));
      check(testing::mutateBytes(whole, random));
      if (HasFailure()) return;
    }
  }
}

TEST(SafetensorsMutations, OpenOrAreRefusedClearly) {
  for (const std::string& path : {kCorpus + "/safetensors/variety.safetensors", kData + "/zoo/gpt2.inputs.safetensors"}) {
    const std::string whole = bytesOf(path);
    ASSERT_TRUE(SafetensorsFile::open(path)) << path;
    const auto check = [&](const std::string& bytes) {
      const auto file = SafetensorsFile::open(fileOf("broken.safetensors", bytes));
      if (!file) return expectClear(file.error());
      unsigned sum = 0;
      for (const auto& [name, tensor] : file->tensors())
        for (const std::byte b : tensor.bytes) sum += static_cast<unsigned>(b);
      EXPECT_GE(sum, 0U);
    };
    for (std::size_t percent = 0; percent < 100; ++percent) check(whole.substr(0, whole.size() * percent / 100));
    for (int seed = 0; seed < 500; ++seed) {
      SCOPED_TRACE(path + " seed " + std::to_string(seed));
      Random random(static_cast<std::uint64_t>(seed));
      std::string broken = whole;
      if (seed % 2 == 0) {
        broken = testing::mutateBytes(whole, random);
      } else {  // the header as JSON, with its length put right
        std::uint64_t length = 0;
        std::memcpy(&length, whole.data(), 8);
        const std::string header = testing::mutateJson(whole.substr(8, length), random);
        length = header.size();
        broken = std::string(reinterpret_cast<const char*>(&length), 8) + header + whole.substr(8 + static_cast<std::size_t>(length < whole.size() ? length : 0));
      }
      check(broken);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace spscope::io
