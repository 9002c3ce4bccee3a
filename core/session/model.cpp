// SPDX-License-Identifier: Apache-2.0
#include "core/session/model.h"

#include <filesystem>

#include "core/base/clock.h"
#include "core/base/strings.h"
#include "core/io/weights.h"
#include "core/ir/convert_dtype.h"
#include "core/session/stage.h"
#include "core/session/text_model.h"
#include "core/torch/tensor_store.h"
#include "passes/sequence/respecialize.h"

namespace spscope::session {
namespace {

ir::DType parameterType(const ir::Graph& graph) {
  for (const ir::Input& input : graph.inputs)
    if (input.kind == ir::InputKind::kParameter && input.trainable) return graph.value(input.value).dtype;
  return ir::DType::kF32;
}

/// Decimal digits a floating type holds, roughly; a large number for everything else.
int digitsOf(ir::DType t) {
  switch (t) {
    case ir::DType::kF64: return 16;
    case ir::DType::kF32: return 7;
    case ir::DType::kF16:
    case ir::DType::kBF16: return 3;
    default: return 99;
  }
}

/// The type with the fewest digits among parameters and computed values.
ir::DType computingType(const ir::Graph& graph) {
  ir::DType lowest = parameterType(graph);
  const auto see = [&](ir::ValueId id) {
    if (id == ir::kNone) return;
    const ir::DType t = graph.value(id).dtype;
    if (digitsOf(t) < digitsOf(lowest)) lowest = t;
  };
  for (const ir::Input& input : graph.inputs)
    if (input.kind == ir::InputKind::kParameter) see(input.value);
  for (const ir::NodeId id : graph.order)
    for (const ir::ValueId v : graph.node(id).outputs) see(v);
  return lowest;
}

/// --dtype means all of the program: low-precision parameters and autocast's choices, too. A file that computes in that
/// type already stays as it is.
Status convert(ir::Graph& graph, ir::DType to) {
  if (to == parameterType(graph) && to == computingType(graph)) return {};
  ir::ConvertOptions options;
  options.low_precision = true;
  return ir::convertFloats(graph, to, options);
}

/// A file with static shapes at another length: sizes that follow the sequence or the batch are found by data flow.
Status respecialize(io::ImportedModel& imported, const OpenRequest& what, const Request& request) {
  passes::LengthChange change{imported.seq, imported.seq, imported.batch, imported.batch};
  if (what.seq != 0 && !imported.dynamic) change.seq_to = what.seq;
  if (what.batch != 0 && !imported.dynamic_batch) change.batch_to = what.batch;
  if (change.seq_to == change.seq_from && change.batch_to == change.batch_from) return {};
  request.report("re-specialise");
  passes::Settings settings;
  settings.sequence_marks = what.sequence_marks;
  SP_ASSIGN(imported.graph, passes::respecialize(imported.graph, settings, change, *request.diagnostics));
  imported.seq = change.seq_to;
  imported.batch = change.batch_to;
  for (io::UserInput& input : imported.user_inputs)
    if (input.input != ir::kNone)
      input.shape = imported.graph.value(imported.graph.inputs[static_cast<std::size_t>(input.input)].value).shape;
  return {};
}

Result<io::ImportedModel> openArchive(const OpenRequest& what, const Request& request) {
  io::OpenOptions options;
  options.graph_name = what.graph_name;
  options.seq = what.seq;
  options.batch = what.batch;
  options.sequence_marks = what.sequence_marks;
  options.cancel = request.cancel;
  SP_ASSIGN(io::ImportedModel imported, io::openModel(what.path, options, *request.diagnostics));
  SP_TRY(respecialize(imported, what, request));
  return imported;
}

}  // namespace

Result<std::shared_ptr<const Model>> open(const OpenRequest& what, const Request& request) {
  const std::int64_t begin = monotonicNs();
  request.report("open " + what.path);
  SP_ASSIGN(std::optional<ir::GraphText> text, readStage(what.path));
  auto model = std::make_shared<Model>();
  ir::Graph graph;
  if (text && isTextModel(text->header)) {
    SP_ASSIGN(const auto opened, openTextModel(std::move(*text), what));
    *model = *opened;
    graph = *model->graph;
  } else {
    SP_ASSIGN(io::ImportedModel imported, openArchive(what, request));
    graph = std::move(imported.graph);
    model->imported = std::make_shared<const io::ImportedModel>(std::move(imported));
  }
  if (what.dtype) SP_TRY(convert(graph, *what.dtype));
  model->path = what.path;
  model->display_name = std::filesystem::path(what.path).filename().string();
  model->working_dtype = parameterType(graph);
  model->computing_dtype = computingType(graph);
  model->converted_to = what.dtype;
  model->graph = std::make_shared<const ir::Graph>(std::move(graph));
  model->opened_ns = monotonicNs() - begin;
  return std::shared_ptr<const Model>(model);
}

Result<exec::TensorBag> loadState(const Model& model, const DataRequest& data, const Request& request) {
  if (!model.weights_file.empty() && !data.seed_weights) {
    SP_ASSIGN(const exec::TensorBag bag, exec::loadBag(model.weights_file));
    return exec::inTypeOf(bag, *model.graph);
  }
  const io::WeightSource source(model.imported->archive);
  // Seeded weights replace the file's: a weightless file has none, and a user who asks for a seed wants it.
  return exec::loadState(*model.graph, data.seed_weights ? nullptr : &source, data.seed_weights, *request.diagnostics);
}

Result<exec::TensorBag> loadInputs(const Model& model, const DataRequest& data, std::int64_t index,
                                   const Request& request) {
  if (data.inputs.empty() && !model.inputs_file.empty()) return exec::loadInputs(*model.graph, model.inputs_file, *request.diagnostics);
  if (data.inputs.empty())  // checked like a file's: seeded positions may run past a short position table
    return exec::inputsFrom(*model.graph, exec::seedInputs(*model.graph, data.seed + static_cast<std::uint64_t>(index)),
                            *request.diagnostics);
  const std::size_t file = static_cast<std::size_t>(index) % data.inputs.size();
  return exec::loadInputs(*model.graph, data.inputs[file], *request.diagnostics);
}

}  // namespace spscope::session
