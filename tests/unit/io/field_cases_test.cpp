// SPDX-License-Identifier: Apache-2.0
// What went wrong with saved programs in the field: archives that are too big, of another kind, of another version, with
// tied or equal weights, with odd names. One test per case, named after it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "core/io/inspect.h"
#include "core/io/program.h"
#include "core/io/safetensors.h"
#include "core/io/weights.h"
#include "tests/support/program_text.h"
#include "tests/support/temp_folder.h"

namespace spscope::io {
namespace {

using testing::ZipWriter;
using namespace testing::program;

const std::string kTests = SPSCOPE_SOURCE_DIR "/tests";

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), with);
}
Program summing() {
  Program p;
  p.add(node("torch.ops.aten.sum.default", arg("self", in("p_w")), in("loss"), "loss"));
  return p;
}
std::string packed(const std::string& program, const std::string& weights, const std::vector<std::string>& records) {
  ZipWriter zip;
  zip.add("r/models/model.json", program);
  zip.add("r/data/weights/model_weights_config.json", weights);
  for (std::size_t i = 0; i < records.size(); ++i) zip.add("r/data/weights/weight_" + std::to_string(i), records[i]);
  return zip.bytes();
}
/// Memory of this process that is in use now, in bytes.
std::int64_t residentBytes() {
  std::ifstream in("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

class FieldCases : public ::testing::Test {
 protected:
  Result<ImportedModel> open(const std::string& bytes, const OpenOptions& options = {}) {
    return openModel(tmp_.file("m.pt2", bytes), options, sink_);
  }
  bool warned(std::string_view code) const {
    for (const auto& d : sink_.all())
      if (d.code == code) return true;
    return false;
  }
  /// An archive whose one weight is a hole of `size` bytes. Empty where the disk has no holes of that size.
  std::string sparse(std::uint64_t size) {
    const std::string elements = "{\"as_int\": " + std::to_string(size / 4) + "}";
    ZipWriter zip;
    zip.addHole("r/data/weights/weight_0", size);  // first, so that all the others lie behind it
    zip.add("r/data/weights/model_weights_config.json", replaced(summing().weights, R"({"as_int": 4})", elements));
    zip.add("r/models/model.json", replaced(summing().json(), R"({"as_int": 4})", elements));
    const std::string path = tmp_.path() + "/big.pt2";
    if (!zip.write(path)) return {};
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0 || info.st_blocks * 512 > (16 << 20)) return {};
    return path;
  }
  TempFolder tmp_;
  DiagnosticSink sink_;
};

TEST_F(FieldCases, PT_01_symbols_with_and_without_a_declared_range) {
  const std::string range = R"("range_constraints": {"s1": {"min_val": 2, "max_val": 100}}, )";
  for (const auto& [written, low, high] :
       {std::tuple{range, std::int64_t{2}, std::int64_t{100}},
        {std::string(R"("range_constraints": {}, )"), std::int64_t{0}, INT64_MAX},
        {std::string(), std::int64_t{0}, INT64_MAX},
        {std::string(R"("range_constraints": {"s1": {"min_val": 2, "max_val": null}}, )"), std::int64_t{2}, INT64_MAX},
        {std::string(R"("range_constraints": {"s1": {}}, )"), std::int64_t{0}, INT64_MAX}}) {
    SCOPED_TRACE(written);
    const Program p = summing();
    const auto model = open(packed(replaced(p.json(), range, written), p.weights, {std::string(16, 'w')}));
    ASSERT_TRUE(model) << model.error().format();
    ASSERT_EQ(model->symbols.size(), 1U);
    EXPECT_EQ(model->symbols[0].name, "s1");
    EXPECT_EQ(model->symbols[0].min, low);
    EXPECT_EQ(model->symbols[0].max, high);
    EXPECT_EQ(model->symbols[0].hint, 8);
  }
}

TEST_F(FieldCases, PT_02_module_names_with_commas_brackets_and_spaces_open) {
  const char* stacks[] = {R"(L__self__,,my model.Top [v2])", R"(k,blocks['a b, c'].x,pkg.Stack[A, B])", R"(broken[,;)", R"(,)", R"(;;;)",
                          R"(k,[[[,T)", R"(k,layers.0,\"quoted\\\")"};
  for (const char* stack : stacks) {
    Program p;
    p.add(node("torch.ops.aten.sum.default", arg("self", in("p_w")), in("loss"), "loss",
               std::string(R"("nn_module_stack": ")") + stack + R"(", "stack_trace": 7, "from_node": ["x"])"));
    const auto model = open(packed(p.json(), p.weights, {std::string(16, 'w')}));
    ASSERT_TRUE(model) << stack << ": " << model.error().format();
    EXPECT_EQ(model->graph.order.size(), 1U);
  }
  EXPECT_TRUE(warned("metadata-unreadable"));
}

TEST_F(FieldCases, PT_03_other_kinds_of_file_are_named_in_one_line) {
  ZipWriter script, inductor, office;
  script.add("m/data.pkl", "x");
  script.add("m/code/__torch__.py", "x");
  script.add("m/constants.pkl", "x");
  inductor.add("m/data/aotinductor/model/a.so", "x");
  inductor.add("m/archive_format", "pt2");
  office.add("word/document.xml", "<x/>");
  const std::string onnx("\x08\x09\x12\x07pytorch\x1a\x03" "2.0", 17);
  std::filesystem::create_directory(tmp_.path() + "/folder.pt2");
  std::filesystem::create_symlink("loop.pt2", tmp_.path() + "/loop.pt2");
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {kTests + "/data/pickles/variety.pt", "archive-kind", "a state dict"},
      {tmp_.file("script.pt", script.bytes()), "archive-kind", "TorchScript"},
      {tmp_.file("aoti.pt2", inductor.bytes()), "archive-kind", "AOTInductor"},
      {tmp_.file("letter.docx", office.bytes()), "archive-kind", "without an exported program"},
      {tmp_.file("model.onnx", onnx), "archive-not-zip", "an ONNX model"},
      {kTests + "/data/pickles/variety.safetensors", "archive-not-zip", "a safetensors file"},
      {tmp_.file("old.pt", std::string("\x80\x02}q\0.", 6)), "archive-not-zip", "a pickle"},
      {tmp_.path() + "/folder.pt2", "file-is-folder", "a folder"},
      {tmp_.file("empty.pt2", ""), "file-empty", "empty"},
      {tmp_.path() + "/loop.pt2", "file-unreadable", "symbolic links"},
      {tmp_.path() + "/missing.pt2", "file-missing", "no file"},
  };
  for (const auto& [path, code, words] : cases) {
    const auto model = openModel(path, {}, sink_);
    ASSERT_FALSE(model) << path;
    EXPECT_EQ(model.error().code, code) << path;
    EXPECT_NE(model.error().message.find(words), std::string::npos) << model.error().message;
    EXPECT_EQ(model.error().message.find('\n'), std::string::npos);
    EXPECT_NE(model.error().message.find(path.substr(path.rfind('/') + 1)), std::string::npos) << "says which file";
  }
  if (::geteuid() != 0) {
    const std::string locked = tmp_.file("locked.pt2", "x");
    ::chmod(locked.c_str(), 0);
    EXPECT_EQ(openModel(locked, {}, sink_).error().code, "file-unreadable");
  }
}

TEST_F(FieldCases, PT_04_the_same_model_in_the_raw_layout_and_newer_schemas) {
  const auto old = openModel(kTests + "/data/zoo/old/torch_2.8.0.pt2", {}, sink_);
  const auto raw = openModel(kTests + "/fuzz/corpus/archive/raw.pt2", {}, sink_);
  ASSERT_TRUE(old && raw);
  ASSERT_EQ(old->graph.inputs.size(), raw->graph.inputs.size());
  for (std::size_t i = 0; i < old->graph.inputs.size(); ++i) {
    const ir::Input &a = old->graph.inputs[i], &b = raw->graph.inputs[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.aliases, b.aliases);
    if (a.kind == ir::InputKind::kUser) continue;
    const auto x = WeightSource(old->archive).window(old->graph, a), y = WeightSource(raw->archive).window(raw->graph, b);
    ASSERT_TRUE(x && y) << a.name;
    EXPECT_TRUE(std::equal(x->begin(), x->end(), y->begin(), y->end())) << a.name;
  }
  const Program p = summing();
  const auto with = [&](const std::string& version) {
    const std::string json = replaced(p.json(), R"({"major": 8, "minor": 20})", version);
    return open(packed(replaced(json, R"("torch_version")", R"("fields_of_the_future": [1, {"a": null}], "torch_version")"), p.weights,
                       {std::string(16, 'w')}));
  };
  const auto newer = with(R"({"major": 8, "minor": 99})");
  ASSERT_TRUE(newer) << newer.error().format();
  EXPECT_TRUE(warned("schema-newer"));
  const auto other = with(R"({"major": 9, "minor": 1})");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, "schema-unknown");
  EXPECT_NE(other.error().message.find("9.1, which is newer than we know"), std::string::npos) << other.error().message;
  EXPECT_EQ(with(R"({"major": 7, "minor": 0})").error().code, "schema-unknown");
}

TEST_F(FieldCases, PT_06_archives_beyond_2_and_4_GiB_and_without_their_tail) {
  for (const std::uint64_t gib : {3, 5}) {
    SCOPED_TRACE(gib);
    const std::uint64_t size = (gib << 30) + 64;
    const std::string path = sparse(size);
    if (path.empty()) GTEST_SKIP() << "no sparse files of " << gib << " GiB here";
    const auto model = openModel(path, {}, sink_);
    ASSERT_TRUE(model) << model.error().format();
    EXPECT_GT(model->archive->fileSize(), size);
    EXPECT_GT(model->archive->find("models/model.json")->header, size) << "the program lies behind the weight";
    const auto window = WeightSource(model->archive).window(model->graph, model->graph.inputs[0]);
    ASSERT_TRUE(window) << window.error().format();
    EXPECT_EQ(window->size(), size);
    EXPECT_EQ(window->back(), std::byte{0}) << "beyond 32 bits";
    const auto whole = static_cast<off_t>(model->archive->fileSize());
    ASSERT_EQ(::truncate(path.c_str(), whole - 10), 0);
    const auto cut = openModel(path, {}, sink_);
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().code, "archive-truncated");
    EXPECT_EQ(cut.error().source, path + "+" + std::to_string(whole - 10)) << "says where it ends";
  }
}

TEST_F(FieldCases, PT_07_a_weight_of_2_5_GiB) {
  const std::uint64_t size = 5ULL << 29;
  const std::string path = sparse(size);
  if (path.empty()) GTEST_SKIP() << "no sparse files of 2.5 GiB here";
  const auto model = openModel(path, {}, sink_);
  ASSERT_TRUE(model) << model.error().format();
  EXPECT_EQ(inspect(*model).parameter_bytes, static_cast<std::int64_t>(size));
  EXPECT_EQ(inspect(*model).parameters, static_cast<std::int64_t>(size / 4));
}

TEST_F(FieldCases, PT_08_an_archive_of_20_GiB_opens_in_little_memory) {
  const std::string path = sparse(20ULL << 30);
  if (path.empty()) GTEST_SKIP() << "no sparse files of 20 GiB here";
  const std::int64_t before = residentBytes();
  const auto model = openModel(path, {}, sink_);
  ASSERT_TRUE(model) << model.error().format();
  EXPECT_EQ(inspect(*model).parameter_bytes, 20LL << 30);
  EXPECT_LT(residentBytes() - before, 32 << 20);
}

TEST_F(FieldCases, PT_09_a_tied_weight_is_one_parameter) {
  // One storage under two names, whichever way the module reached it.
  Program p = summing();
  const std::string row = p.weights.substr(p.weights.find("\"w\": "), p.weights.rfind("}}") - p.weights.find("\"w\": "));
  p.weights = replaced(p.weights, row, row + ", " + replaced(row, "\"w\"", "\"again.w\""));
  p.inputs = in("p_w") + ", " + in("p_again") + ", " + in("x");
  p.specs = R"({"parameter": {"arg": {"name": "p_w"}, "parameter_name": "w"}}, {"parameter": {"arg": {"name": "p_again"}, "parameter_name": "again.w"}}, {"user_input": {"arg": )" + in("x") + "}}";
  p.value(tensor("p_again", 7, R"({"as_int": 4})", true));
  const auto model = open(packed(p.json(), p.weights, {std::string(16, 'w')}));
  ASSERT_TRUE(model) << model.error().format();
  ASSERT_EQ(model->graph.inputs.size(), 2U);
  EXPECT_EQ(model->graph.inputs[0].name, "w");
  EXPECT_EQ(model->graph.inputs[0].aliases, std::vector<std::string>{"again.w"});
  EXPECT_EQ(inspect(*model).parameters, 4) << "counted once";
  EXPECT_EQ(inspect(*model).parameter_bytes, 16);
}

TEST_F(FieldCases, PT_11_equal_values_are_not_the_same_weight) {
  Program p = summing();
  const std::string row = p.weights.substr(p.weights.find("\"w\": "), p.weights.rfind("}}") - p.weights.find("\"w\": "));
  p.weights = replaced(p.weights, row, row + ", " + replaced(replaced(row, "\"w\"", "\"v\""), "weight_0", "weight_1"));
  p.inputs = in("p_w") + ", " + in("p_v") + ", " + in("x");
  p.specs = R"({"parameter": {"arg": {"name": "p_w"}, "parameter_name": "w"}}, {"parameter": {"arg": {"name": "p_v"}, "parameter_name": "v"}}, {"user_input": {"arg": )" + in("x") + "}}";
  p.value(tensor("p_v", 7, R"({"as_int": 4})", true));
  const auto model = open(packed(p.json(), p.weights, {std::string(16, 'w'), std::string(16, 'w')}));
  ASSERT_TRUE(model) << model.error().format();
  ASSERT_EQ(model->graph.inputs.size(), 3U) << "two parameters and x";
  EXPECT_TRUE(model->graph.inputs[0].aliases.empty());
  EXPECT_EQ(inspect(*model).parameters, 8);
}

TEST_F(FieldCases, PT_12_a_buffer_that_is_written_is_an_output_of_its_own) {
  Program p;
  p.value(tensor("new", 7, R"({"as_int": 4})"));
  p.add(node("torch.ops.aten.neg.default", arg("self", in("p_w")), in("new"), "new"));
  p.add(node("torch.ops.aten.sum.default", arg("self", in("new")), in("loss"), "loss"));
  p.specs = replaced(p.specs, R"({"parameter": {"arg": {"name": "p_w"}, "parameter_name": "w"}})",
                     R"({"buffer": {"arg": {"name": "p_w"}, "buffer_name": "w", "persistent": true}})");
  const auto model = open(packed(replaced(p.json(), R"("output_specs": [)", R"("output_specs": [{"buffer_mutation": {"arg": {"name": "new"}, "buffer_name": "w"}}, )"),
                                 p.weights, {std::string(16, 'w')}));
  ASSERT_TRUE(model) << model.error().format();
  ASSERT_EQ(model->graph.outputs.size(), 2U);
  EXPECT_EQ(model->graph.outputs[0].kind, ir::OutputKind::kBufferUpdate);
  EXPECT_EQ(model->graph.outputs[0].input, 0);
  EXPECT_EQ(model->graph.outputs[1].kind, ir::OutputKind::kLoss) << "the update is not taken for the loss";
  EXPECT_EQ(inspect(*model).written_buffers, std::vector<std::string>{"w"});
}

}  // namespace
}  // namespace spscope::io
