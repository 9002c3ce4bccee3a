// SPDX-License-Identifier: Apache-2.0
// See capture.h: sets the stage (meta inputs, dispatch keys, rank), runs forward and backward, and puts the outputs
// together. What is written into the graph and how is the Recorder's business.
#include "core/torch/capture.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>

#include <unordered_map>

#include "core/base/strings.h"
#include "core/torch/dtype_convert.h"
#include "core/torch/equivalent.h"
#include "core/torch/meta_kernels.h"
#include "core/torch/op_call.h"
#include "core/torch/own_ops.h"
#include "core/torch/recorder.h"
#include "core/torch/rng_ops.h"
#include "core/torch/sp_ops.h"
#include "core/torch/workspace.h"

namespace spscope::exec {
namespace {

Error captureError(const ir::Graph& graph, ir::NodeId id, std::string message) {
  Error error = makeError("capture-failed", std::move(message));
  if (id != ir::kNone) {
    const ir::Node& node = graph.node(id);
    error.node = "%" + node.name;
    if (node.location) error.source = node.location->source;
  }
  return error;
}

/// No gaps and no overlaps: the layout is a permutation of rows. A window of a larger tensor is copied out of it before it runs.
bool isDense(const ir::Dims& sizes, const ir::Dims& strides) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) last += std::max<std::int64_t>(sizes[d] - 1, 0) * strides[d];
  return last + 1 == ir::numel(sizes);
}

/// A tensor without memory, laid out as the file has it where the rank holds all of it.
at::Tensor metaTensor(const ir::Graph& graph, const ir::Input& input) {
  const ir::Value& value = graph.value(input.value);
  std::vector<std::int64_t> strides(value.local.size());
  if (input.storage && input.storage->strides.size() == value.local.size() && value.local == value.shape &&
      isDense(value.local, input.storage->strides)) {
    strides = input.storage->strides;
  } else {
    std::int64_t next = 1;
    for (std::size_t i = strides.size(); i-- > 0;) {
      strides[i] = next;
      next *= std::max<std::int64_t>(value.local[i], 1);
    }
  }
  return at::empty_strided(value.local, strides,
                           at::TensorOptions().dtype(toScalarType(value.dtype)).device(c10::kMeta));
}

/// Checks of the program on its own operands: they hold or the export had failed, and name devices that are not ours.
bool isAssertion(Symbol op) {
  const std::string_view base = ir::baseName(op);
  return base.rfind("_assert", 0) == 0 || base.rfind("sym_constrain", 0) == 0;
}

class ActiveScope {
 public:
  explicit ActiveScope(Recorder* recorder) : previous_(activeRecorder()) { activeRecorder() = recorder; }
  ~ActiveScope() { activeRecorder() = previous_; }
  ActiveScope(const ActiveScope&) = delete;
  ActiveScope& operator=(const ActiveScope&) = delete;

 private:
  Recorder* previous_;
};

class Capture {
 public:
  Capture(const ir::Graph& forward, const CancelToken& cancel, const Equivalents* equivalents)
      : forward_(forward), cancel_(cancel), equivalents_(equivalents), joint_(forward), recorder_(clearOrder(joint_), cancel_) {}

  Result<ir::Graph> run() {
    const RankScope rank(forward_.rank, forward_.mesh);
    const at::AutoGradMode grad(true);
    const c10::impl::IncludeDispatchKeyGuard include(c10::DispatchKey::Fake);
    SP_TRY(makeInputs());
    const ActiveScope active(&recorder_);
    SP_TRY(runForward());
    SP_TRY(runBackward());
    SP_TRY(makeOutputs());
    joint_.form = ir::Form::kJoint;
    joint_.removeDeadNodes();
    return std::move(joint_);
  }

 private:
  static ir::Graph& clearOrder(ir::Graph& graph) {
    graph.order.clear();
    return graph;
  }

  at::Tensor& tensor(ir::ValueId value) { return tensors_[static_cast<std::size_t>(value)]; }

  Status makeInputs() {
    tensors_.resize(forward_.valueCount());
    for (std::size_t i = 0; i < forward_.inputs.size(); ++i) {
      const ir::Input& input = forward_.inputs[i];
      if (input.value == ir::kNone) continue;
      const ir::Value& value = forward_.value(input.value);
      if (toScalarType(value.dtype) == c10::ScalarType::Undefined)
        return captureError(forward_, ir::kNone, "the input " + input.name + " has no element type");
      at::Tensor made = metaTensor(forward_, input);
      if (input.trainable && (ir::isFloating(value.dtype) || ir::isComplex(value.dtype))) {
        made.set_requires_grad(true);
        parameters_.push_back(made);
        parameter_inputs_.push_back(static_cast<int>(i));
      }
      recorder_.bindInput(input.value, made);
      tensor(input.value) = std::move(made);
    }
    return {};
  }

  Status runForward() {
    std::vector<at::Tensor> operands, outputs;
    for (const ir::NodeId id : forward_.order) {
      const ir::Node& node = forward_.node(id);
      if (isAssertion(node.op)) continue;
      SP_TRY(cancel_.check());
      SP_ASSIGN(const PreparedOp op, prepare(node, c10::Device(c10::kMeta), equivalents_));
      operands.clear();
      for (const ir::ValueId value : op.operands) operands.push_back(tensor(value));
      recorder_.beginForward(id);
      if (const Status status = call(op, operands, outputs); !status) return opError(id, status.error().message);
      if (const std::string problem = recorder_.endForward(outputs); !problem.empty())
        return captureError(forward_, id, node.op.str() + ": " + problem);
      for (std::size_t i = 0; i < node.outputs.size() && i < outputs.size(); ++i)
        if (node.outputs[i] != ir::kNone) tensor(node.outputs[i]) = outputs[i];
    }
    return {};
  }

  Status runBackward() {
    for (const ir::Output& output : forward_.outputs)
      if (output.kind == ir::OutputKind::kLoss && loss_ == ir::kNone) loss_ = output.value;
    if (loss_ == ir::kNone) return captureError(forward_, ir::kNone, "the graph has no loss among its outputs");
    const at::Tensor& loss = tensor(loss_);
    const ir::NodeId producer = forward_.value(loss_).producer;
    if (loss.numel() != 1)
      return captureError(forward_, producer, "the loss has " + std::to_string(loss.numel()) + " elements, not one");
    if (!loss.requires_grad())
      return captureError(forward_, producer, "the loss depends on no trainable parameter");
    recorder_.beginBackward(loss);
    try {
      gradients_ = torch::autograd::grad({loss}, parameters_, {}, /*retain_graph=*/false, /*create_graph=*/false,
                                         /*allow_unused=*/true);
    } catch (const c10::Error& e) {
      return backwardError(e.what_without_backtrace());
    } catch (const std::exception& e) {
      return backwardError(e.what());
    }
    return {};
  }

  Error backwardError(std::string text) {
    text = text.substr(0, text.find('\n'));
    const std::string op = recorder_.running();
    return opError(recorder_.currentNode(), "backward: " + (op.empty() ? text : op + ": " + text));
  }

  /// Of an op that threw: the recorder lets ops throw as well when the request was cancelled meanwhile.
  Error opError(ir::NodeId id, std::string message) {
    if (const Status going = cancel_.check(); !going) return going.error();
    return captureError(forward_, id, std::move(message));
  }

  Status makeOutputs() {
    std::vector<ir::Output> outputs;
    outputs.push_back({recorder_.replaced(loss_), ir::OutputKind::kLoss, ir::kNone});
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      if (!gradients_[i].defined()) continue;
      const ir::ValueId value = recorder_.valueOf(gradients_[i]);
      if (value == ir::kNone)
        return captureError(forward_, ir::kNone,
                            "the gradient of " + forward_.inputs[static_cast<std::size_t>(parameter_inputs_[i])].name +
                                " was not recorded");
      outputs.push_back({value, ir::OutputKind::kGradient, parameter_inputs_[i]});
    }
    bool loss_seen = false;
    for (const ir::Output& output : forward_.outputs) {
      if (output.kind == ir::OutputKind::kLoss && !loss_seen) {
        loss_seen = true;
        continue;
      }
      outputs.push_back({recorder_.replaced(output.value), output.kind, output.input});
    }
    joint_.outputs = std::move(outputs);
    return {};
  }

  const ir::Graph& forward_;
  const CancelToken& cancel_;
  const Equivalents* equivalents_;
  ir::Graph joint_;
  Recorder recorder_;
  std::vector<at::Tensor> tensors_;  ///< by value id of the forward graph
  std::vector<at::Tensor> parameters_;
  std::vector<int> parameter_inputs_;
  std::vector<at::Tensor> gradients_;
  ir::ValueId loss_ = ir::kNone;
};

class TorchServices final : public ir::OpServices {
 public:
  explicit TorchServices(std::shared_ptr<const Equivalents> equivalents) : equivalents_(std::move(equivalents)) {}
  Result<ir::Graph> captureJoint(const ir::Graph& forward, const CancelToken& cancel) override {
    return exec::captureJoint(forward, cancel, equivalents_.get());
  }
  std::int64_t workspaceBytes(const ir::Graph& graph, const ir::Node& node, std::string_view device, int threads) const override {
    return exec::workspaceBytes(graph, node, device, threads);
  }

 private:
  std::shared_ptr<const Equivalents> equivalents_;
};

}  // namespace

Result<ir::Graph> captureJoint(const ir::Graph& forward, const CancelToken& cancel, const Equivalents* equivalents) {
  registerSpOps();
  registerRngOps();
  registerOwnOps();
  registerMetaKernels();
  registerCaptureFallback();
  return Capture(forward, cancel, equivalents).run();
}

Result<std::shared_ptr<const Equivalents>> compileEquivalents(const ir::OpRulesRef& rules) { return Equivalents::compile(rules); }

std::unique_ptr<ir::OpServices> makeOpServices(std::shared_ptr<const Equivalents> equivalents) {
  return std::make_unique<TorchServices>(std::move(equivalents));
}

}  // namespace spscope::exec
