// SPDX-License-Identifier: Apache-2.0
// Weights as torch 2.8 and older keep them: values against what PyTorch wrote beside them, and pickles that want more
// than tensors. tests/data/README.md says how the files were made.
#include "core/io/pickle.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "core/io/program.h"
#include "core/io/safetensors.h"
#include "core/io/weight_index.h"
#include "core/io/weights.h"
#include "tests/support/program_text.h"
#include "tests/support/temp_folder.h"

namespace spscope::io {
namespace {

using testing::ZipWriter;
using namespace testing::program;

const std::string kData = SPSCOPE_SOURCE_DIR "/tests/data";

std::string textOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// An archive in the layout of torch 2.8 around a file of torch.save.
std::string archiveOf28(const std::string& saved, const std::string& program = "{}") {
  ZipWriter zip;
  zip.add("r/models/model.json", program);
  zip.add("r/data/weights/model.pt", saved);
  return zip.bytes();
}
std::string savedFile(const std::string& pickle) {
  ZipWriter zip;
  zip.add("archive/data.pkl", pickle);
  zip.add("archive/byteorder", "little");
  zip.add("archive/data/0", std::string(16, 'w'));
  return zip.bytes();
}
Result<PickledTensors> read(const std::string& pickle) {
  return readTensorPickle(std::as_bytes(std::span<const char>(pickle)), "model.pt");
}
std::string codeOf(const std::string& pickle) {
  const auto tensors = read(pickle);
  return tensors ? "read" : tensors.error().code;
}

// --- pickles by hand ---
std::string text(const std::string& s) { return std::string("X") + static_cast<char>(s.size()) + std::string(3, '\0') + s; }
std::string name(const std::string& module, const std::string& n) { return "c" + module + "\n" + n + "\n"; }
std::string number(int n) { return std::string("K") + static_cast<char>(n); }
std::string dict(const std::string& key, const std::string& value) { return "\x80\x02}" + text(key) + value + "s."; }
std::string storage(const std::string& type = "FloatStorage") {
  return "(" + text("storage") + name("torch", type) + text("0") + text("cpu") + number(4) + "tQ";
}
std::string tensorV2(const std::string& of, const std::string& offset = number(0), const std::string& sizes = number(4) + "\x85",
                     const std::string& strides = number(1) + "\x85") {
  return name("torch._utils", "_rebuild_tensor_v2") + "(" + of + offset + sizes + strides + "\x89" +
         name("collections", "OrderedDict") + ")RtR";
}

TEST(Pickle, EveryKindOfTensorHasTheValuesThatPyTorchSaved) {
  TempFolder tmp;
  const auto archive = Archive::open(tmp.file("v.pt2", archiveOf28(textOf(kData + "/pickles/variety.pt"))));
  ASSERT_TRUE(archive) << archive.error().format();
  EXPECT_EQ((*archive)->kind(), ArchiveKind::kProgramPickled);
  const auto index = WeightIndex::read(**archive, "model");
  ASSERT_TRUE(index) << index.error().format();
  const auto twin = SafetensorsFile::open(kData + "/pickles/variety.safetensors");
  ASSERT_TRUE(twin) << twin.error().format();
  EXPECT_EQ(index->weights().size(), twin->tensors().size());
  for (const auto& [name, expected] : twin->tensors()) {
    SCOPED_TRACE(name);
    const WeightEntry* entry = index->weight(name);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->meta.dtype, expected.dtype);
    EXPECT_EQ(entry->meta.sizes, expected.shape);
    // Through the same window that a run takes.
    ir::Graph graph;
    ir::Input input;
    input.name = name;
    input.value = graph.addValue("v", entry->meta.dtype, entry->meta.sizes);
    input.storage = {entry->record, entry->meta.offset, entry->meta.strides, entry->meta.dtype};
    const auto window = WeightSource(*archive).window(graph, input);
    ASSERT_TRUE(window) << window.error().format();
    const auto size = static_cast<std::size_t>(ir::sizeOf(expected.dtype));
    std::vector<std::byte> dense;
    for (std::int64_t i = 0; i < ir::numel(expected.shape); ++i) {
      std::int64_t rest = i, at = 0;
      for (std::size_t d = expected.shape.size(); d-- > 0; rest /= expected.shape[d])
        at += rest % expected.shape[d] * entry->meta.strides[d];
      const auto element = window->subspan(static_cast<std::size_t>(at) * size, size);
      dense.insert(dense.end(), element.begin(), element.end());
    }
    ASSERT_EQ(dense.size(), expected.bytes.size());
    EXPECT_TRUE(dense.empty() || std::memcmp(dense.data(), expected.bytes.data(), dense.size()) == 0);
  }
  EXPECT_TRUE(index->weight("f32")->is_parameter);
  EXPECT_TRUE(index->weight("f32")->meta.requires_grad);
  EXPECT_TRUE(index->weight("frozen")->is_parameter);
  EXPECT_FALSE(index->weight("frozen")->meta.requires_grad);
  EXPECT_FALSE(index->weight("i64")->is_parameter);
  EXPECT_TRUE(sameTensor(*index->weight("tied.a"), *index->weight("tied.b")));
  EXPECT_EQ(index->weight("tied.a")->record, index->weight("column")->record) << "one storage";
  EXPECT_FALSE(sameTensor(*index->weight("tied.a"), *index->weight("transposed")));
  EXPECT_TRUE((*archive)->checkCrcs()) << "the inner file's too";
}

TEST(Pickle, TensorsWithoutValuesAreWeightless) {
  TempFolder tmp;
  const auto archive = Archive::open(tmp.file("m.pt2", archiveOf28(textOf(kData + "/pickles/meta.pt"))));
  ASSERT_TRUE(archive);
  const auto index = WeightIndex::read(**archive, "model");
  ASSERT_TRUE(index) << index.error().format();
  EXPECT_TRUE(index->weight("w")->empty);
  EXPECT_EQ(index->weight("w")->meta.sizes, (ir::Dims{2, 3}));
}

TEST(Pickle, WhatWouldExecuteSomethingIsRefusedAtItsName) {
  // The classic: os.system("touch owned"). It is refused at the name, before any argument is looked at.
  const auto system = read("\x80\x02" + name("os", "system") + "(" + text("touch owned") + "tR.");
  ASSERT_FALSE(system);
  EXPECT_EQ(system.error().code, "weight-pickled");
  EXPECT_NE(system.error().message.find("os.system"), std::string::npos) << system.error().message;
  for (const auto& [module, n] : {std::pair{"builtins", "eval"}, {"torch", "load"}, {"torch._utils", "_rebuild_from_type_v2"},
                                  {"torch.jit", "_unpickle"}, {"collections", "defaultdict"}, {"torch.storage", "_load_from_bytes"},
                                  {"torch", "float"}, {"torch", ""}, {"", "FloatStorage"}, {"torch._utils", "_rebuild_tensor"}}) {
    EXPECT_EQ(codeOf("\x80\x02" + name(module, n) + ")R."), "weight-pickled") << module << "." << n;
  }
  // Ways to call that no dictionary of tensors needs: INST, OBJ, NEWOBJ, EXT1, STACK_GLOBAL, BUILD on a tensor.
  for (const char op : {'i', 'o', '\x81', '\x82', '\x93'}) EXPECT_EQ(codeOf(std::string("\x80\x02(") + op + "os\nsystem\n."), "pickle-corrupt");
  EXPECT_EQ(codeOf("\x80\x02}" + text("w") + tensorV2(storage()) + "}bs."), "weight-pickled");
  EXPECT_EQ(codeOf("\x80\x04}."), "pickle-corrupt") << "a protocol that torch.save does not write";
  TempFolder tmp;
  DiagnosticSink sink;
  Program p;
  p.add(node("torch.ops.aten.sum.default", arg("self", in("p_w")), in("loss"), "loss"));
  const auto model = openModel(tmp.file("s.pt2", archiveOf28(textOf(kData + "/pickles/subclass.pt"), p.json())), {}, sink);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, "weight-pickled") << "a tensor subclass";
  OpenOptions look;
  look.structure_only = true;
  EXPECT_TRUE(openModel(tmp.path() + "/s.pt2", look, sink)) << "its graph can be looked at";
  ASSERT_FALSE(sink.all().empty());
  EXPECT_EQ(sink.all()[0].code, "weight-pickled");
}

TEST(Pickle, ArgumentsAreCheckedLikeAnyOtherInput) {
  EXPECT_EQ(codeOf(dict("w", tensorV2(storage()))), "read");
  const std::string bad[] = {
      tensorV2(storage("OrderedDict")),                                 // no storage type
      tensorV2(text("storage")),                                        // no storage
      tensorV2(storage(), "J\xff\xff\xff\xff"),                         // a negative offset
      tensorV2(storage(), number(0), number(4) + "\x85", ")"),          // strides of another rank
      tensorV2(storage(), number(0), "J\xff\xff\xff\xff\x85"),          // a negative size
      tensorV2(storage(), number(0), text("4") + "\x85"),               // a size that is text
      tensorV2(storage("UntypedStorage")),                              // of torch.storage, not of torch
      name("torch._utils", "_rebuild_tensor_v2") + ")R",                // no arguments
      name("torch._utils", "_rebuild_parameter") + "(" + number(1) + "\x88}tR",
      name("collections", "OrderedDict") + number(1) + "\x85R",
      ")R", "R", "Q", "s", "a", "t", "\x87", "h\x05", "q",
      "(s", "\x8a\x09" + std::string(9, '\1'), "X\xff\xff\xff\xff" "abc",
  };
  for (const std::string& value : bad) {
    const std::string code = codeOf(dict("w", value));
    EXPECT_TRUE(code == "pickle-corrupt" || code == "weight-pickled") << value << ": " << code;
  }
  const std::string good = dict("w", tensorV2(storage()));
  for (std::size_t n = 0; n < good.size(); ++n) EXPECT_NE(codeOf(good.substr(0, n)), "read") << n << " bytes";
  // Sizes whose product overflows; and a tensor larger than its storage, which is seen when its bytes are wanted.
  std::string huge;
  for (int i = 0; i < 3; ++i) huge += std::string("J\xff\xff\xff\x7f", 5);
  EXPECT_EQ(codeOf(dict("w", tensorV2(storage(), number(0), huge + "\x87", number(1) + number(1) + number(1) + "\x87"))), "pickle-corrupt");
  TempFolder tmp;
  Program p;
  p.add(node("torch.ops.aten.sum.default", arg("self", in("p_w")), in("loss"), "loss"));
  for (const auto& [offset, code] : {std::pair{0, "window"}, {1, "weight-size-mismatch"}}) {
    DiagnosticSink sink;
    const auto model = openModel(tmp.file("o.pt2", archiveOf28(savedFile(dict("w", tensorV2(storage(), number(offset)))), p.json())), {}, sink);
    ASSERT_TRUE(model) << model.error().format();
    const auto window = WeightSource(model->archive).window(model->graph, model->graph.inputs[0]);
    EXPECT_EQ(window ? "window" : window.error().code, code);
  }
}

TEST(Pickle, DeepNestingCostsNoStack) {
  std::string deep = "\x80\x02";
  for (int i = 0; i < 1000000; ++i) deep += i % 2 ? ")" : "\x85";
  EXPECT_EQ(codeOf("\x80\x02" + std::string(1000000, '(') + "."), "pickle-corrupt");
  EXPECT_EQ(codeOf("\x80\x02N" + std::string(1000000, '\x85') + "."), "pickle-corrupt");
  EXPECT_EQ(codeOf(deep + "."), "pickle-corrupt");
}

TEST(Pickle, OtherByteOrdersAreRefused) {
  ZipWriter zip;
  zip.add("archive/data.pkl", dict("w", tensorV2(storage())));
  zip.add("archive/byteorder", "big");
  zip.add("archive/data/0", std::string(16, 'w'));
  TempFolder tmp;
  DiagnosticSink sink;
  const auto model = openModel(tmp.file("b.pt2", archiveOf28(zip.bytes(), Program().json())), {}, sink);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, "weight-big-endian");
}

TEST(Pickle, PT_04_old_layouts_open_with_the_values_that_torch_load_reads) {
  for (const std::string version : {"2.6.0", "2.8.0"}) {
    SCOPED_TRACE(version);
    const std::string path = kData + "/zoo/old/torch_" + version;
    DiagnosticSink sink;
    const auto model = openModel(path + ".pt2", {}, sink);
    ASSERT_TRUE(model) << model.error().format();
    const auto expected = SafetensorsFile::open(path + ".weights.safetensors");
    ASSERT_TRUE(expected) << expected.error().format();
    const WeightSource weights(model->archive);
    std::set<std::string> seen;
    for (const ir::Input& input : model->graph.inputs) {
      if (input.kind == ir::InputKind::kUser) continue;
      EXPECT_EQ(input.trainable, input.kind == ir::InputKind::kParameter) << input.name;
      const auto window = weights.window(model->graph, input);
      ASSERT_TRUE(window) << window.error().format();
      std::vector<std::string> names = input.aliases;
      names.push_back(input.name);
      for (const std::string& name : names) {
        const TensorView* tensor = expected->find(name);
        ASSERT_NE(tensor, nullptr) << name;
        EXPECT_EQ(tensor->shape, model->graph.value(input.value).shape);
        ASSERT_EQ(tensor->bytes.size(), window->size()) << name;
        EXPECT_EQ(std::memcmp(tensor->bytes.data(), window->data(), window->size()), 0) << name;
        seen.insert(name);
      }
    }
    EXPECT_EQ(seen, (std::set<std::string>{"e.weight", "h.weight", "q.weight", "tri"})) << "tied ones under both names";
  }
}

}  // namespace
}  // namespace spscope::io
