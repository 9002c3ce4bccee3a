// SPDX-License-Identifier: Apache-2.0
#include "core/torch/rank_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/InferenceMode.h>


#include "core/base/clock.h"
#include "core/base/strings.h"
#include "core/torch/dtype_convert.h"
#include "core/torch/rng_ops.h"
#include "core/torch/tensor_bag_impl.h"

namespace spscope::exec {
namespace {

/// What the graph says about an input must be what the tensor is.
Status checkTensor(const ir::Graph& graph, const ir::Input& input, const at::Tensor& tensor, bool weight) {
  const ir::Value& value = graph.value(input.value);
  if (tensor.sizes() != at::IntArrayRef(value.local))
    return makeError(weight ? "weight-shape" : "input-shape", strf("%s has shape [%s], the program takes [%s]", input.name.c_str(),
                                                        join(tensor.sizes().vec(), ", ").c_str(),
                                                        join(value.local, ", ").c_str()));
  if (tensor.scalar_type() != toScalarType(value.dtype))
    return makeError(weight ? "weight-dtype" : "input-dtype",
                     strf("%s is %s, the program takes %s", input.name.c_str(),
                          std::string(ir::longName(toDType(tensor.scalar_type()))).c_str(),
                          std::string(ir::longName(value.dtype)).c_str()));
  return {};
}

}  // namespace

Status RankState::bind(const TensorBag& state) {
  const ir::Graph& graph = program_->graph();
  std::vector<at::Tensor> bound(graph.inputs.size());
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const ir::Input& input = graph.inputs[i];
    if (input.kind == ir::InputKind::kUser) continue;
    const int at = state.impl().find(input.name);
    if (at < 0) return makeError("weight-missing", "no values for " + input.name);
    const at::Tensor& tensor = state.impl().tensors[static_cast<std::size_t>(at)];
    SP_TRY(checkTensor(graph, input, tensor, /*weight=*/true));
    bound[i] = tensor;
  }
  bound_ = std::move(bound);
  has_state_ = true;
  return {};
}

Status RankState::begin(const TensorBag& inputs) {
  const ir::Graph& graph = program_->graph();
  if (!has_state_) SP_TRY(bind(TensorBag()));  // fine for programs without parameters
  values.resize(graph.valueCount());
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const ir::Input& input = graph.inputs[i];
    at::Tensor& slot = values[static_cast<std::size_t>(input.value)];
    if (input.kind != ir::InputKind::kUser) {
      slot = bound_[i];
      continue;
    }
    const int at = inputs.impl().find(input.name);
    if (at < 0) return makeError("input-missing", "no values for the input " + input.name);
    const at::Tensor& tensor = inputs.impl().tensors[static_cast<std::size_t>(at)];
    SP_TRY(checkTensor(graph, input, tensor, /*weight=*/false));
    slot = tensor;
  }
  meter.reset();
  return {};
}

Result<StepResult> RankState::finish() {
  const ir::Graph& graph = program_->graph();
  StepResult result;
  result.peak_bytes = meter.peak();
  result.peak_node = meter.peakNode();
  for (const ir::Output& output : graph.outputs) {
    if (output.value == ir::kNone) continue;
    const at::Tensor& tensor = values[static_cast<std::size_t>(output.value)];
    const std::string& name = graph.value(output.value).name;
    if (!tensor.defined())
      return makeError("op-failed", "the output %" + name + " has no value after the step", Outcome::kRunFailed);
    switch (output.kind) {
      case ir::OutputKind::kLoss:
        if (tensor.numel() != 1)
          return makeError("op-failed", "the loss %" + name + " is not a scalar", Outcome::kRunFailed);
        result.has_loss = true;
        result.loss = tensor.item().toDouble();
        break;
      case ir::OutputKind::kGradient:
        result.gradients.impl().append(graph.inputs[static_cast<std::size_t>(output.input)].name, tensor);
        break;
      case ir::OutputKind::kUser: result.outputs.impl().append(name, tensor); break;
      case ir::OutputKind::kBufferUpdate: bound_[static_cast<std::size_t>(output.input)].copy_(tensor); break;
    }
  }
  dropValues();
  return result;
}

void RankState::dropValues() {
  for (at::Tensor& value : values) value.reset();
}

Result<TensorBag> RankState::value(ir::ValueId id) const {
  const auto i = static_cast<std::size_t>(id);
  const ir::Graph& graph = program_->graph();
  if (id < 0 || i >= graph.valueCount()) return makeError("value-not-live", "there is no such value");
  if (i >= values.size() || !values[i].defined())
    return makeError("value-not-live", "%" + graph.value(id).name + " is not computed yet, or was freed after its last use");
  TensorBag bag;
  bag.impl().append(graph.value(id).name, values[i]);
  return bag;
}

Error withRank(Error error, int rank, const Program::Impl::Step* step) {
  error.outcome = Outcome::kRunFailed;
  if (step != nullptr && error.node.empty()) error.node = "%" + step->node->name;
  if (step != nullptr && error.source.empty() && step->node->location) error.source = step->node->location->source;
  error.notes.push_back(strf("on rank %d", rank));
  return error;
}

at::Tensor received(const Program& program, const Program::Impl::Exchange& exchange, std::size_t i, const at::Tensor& buffer) {
  return buffer.view(program.graph().value(exchange.results[i]).local);
}

RandomScope::State drawsOf(const Program& program, const StepOptions& options) {
  const ir::Mesh& mesh = program.impl().mesh;
  const int rank = program.options().rank, replicas = ir::axisSize(mesh, ir::MeshAxis::kData);
  RandomScope::State out{stepSeed(options.seed, options.step), ir::axisRank(mesh, rank, ir::MeshAxis::kSequence), options.replica, options.replicas};
  if (replicas > 1) out.replica = ir::axisRank(mesh, rank, ir::MeshAxis::kData), out.replicas = replicas;
  return out;
}

void seedStep(const Program& program, const StepOptions& options) {
  if (!program.hasRandomNodes()) return;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(stepSeed(options.seed, options.step));
}

}  // namespace spscope::exec
