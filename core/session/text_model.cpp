// SPDX-License-Identifier: Apache-2.0
#include "core/session/text_model.h"

#include <charconv>
#include <filesystem>

#include "core/base/new_file.h"
#include "core/ir/verifier.h"
#include "core/torch/tensor_store.h"

namespace spscope::session {
namespace {

namespace fs = std::filesystem;
constexpr const char *kWeights = "weights", *kInputs = "inputs";

std::int64_t number(const ir::TextHeader& header, std::string_view key) {
  std::int64_t out = 0;
  if (const std::string* text = header.find(key)) std::from_chars(text->data(), text->data() + text->size(), out);
  return out;
}

}  // namespace

bool isTextModel(const ir::TextHeader& header) { return header.find(kWeights) != nullptr && header.find(kInputs) != nullptr; }

Result<std::shared_ptr<const Model>> openTextModel(ir::GraphText text, const OpenRequest& what) {
  if (text.graph.form != ir::Form::kGlobal) return makeError("stage-source", what.path + " is a stage of the pipeline, not a program", Outcome::kUsage);
  SP_TRY(ir::verifyGraph(text.graph));
  auto imported = std::make_shared<io::ImportedModel>();
  imported->seq = imported->file_seq = number(text.header, "seq");
  imported->batch = imported->file_batch = number(text.header, "batch");
  if ((what.seq != 0 && what.seq != imported->seq) || (what.batch != 0 && what.batch != imported->batch))
    return makeError("usage", what.path + " has its own inputs: no other --seq or --batch", Outcome::kUsage);
  imported->graph_name = text.graph.name;
  for (std::size_t i = 0; i < text.graph.inputs.size(); ++i) {
    const ir::Input& in = text.graph.inputs[i];
    const ir::Value& v = text.graph.value(in.value);
    if (in.kind == ir::InputKind::kUser) imported->user_inputs.push_back({in.name, v.dtype, v.shape, {}, static_cast<int>(i)});
  }
  imported->file_nodes = static_cast<std::int64_t>(text.graph.order.size());
  auto model = std::make_shared<Model>();
  const fs::path folder = fs::path(what.path).parent_path();
  model->weights_file = (folder / fs::path(*text.header.find(kWeights)).filename()).string();
  model->inputs_file = (folder / fs::path(*text.header.find(kInputs)).filename()).string();
  model->imported = std::move(imported);
  model->graph = std::make_shared<const ir::Graph>(std::move(text.graph));
  return std::shared_ptr<const Model>(model);
}

Result<std::vector<std::string>> writeTextModel(const Model& model, const exec::TensorBag& state, const exec::TensorBag& inputs, ir::TextHeader header, const std::string& path) {
  fs::path stem(path);
  stem.replace_extension();
  const std::string weights = stem.string() + ".weights.safetensors", data = stem.string() + ".inputs.safetensors";
  header.set(kWeights, fs::path(weights).filename().string());
  header.set(kInputs, fs::path(data).filename().string());
  header.set("seq", std::to_string(model.imported->seq));
  header.set("batch", std::to_string(model.imported->batch));
  SP_TRY(exec::saveBag(state, weights));
  SP_TRY(exec::saveBag(inputs, data));
  SP_TRY(writeWholeFile(path, ir::printGraph(*model.graph, header)));
  return std::vector<std::string>{path, weights, data};
}

}  // namespace spscope::session
