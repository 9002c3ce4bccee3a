// SPDX-License-Identifier: Apache-2.0
#include "core/torch/optimizer.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/InferenceMode.h>

#include <cmath>
#include <set>

#include "core/base/strings.h"
#include "core/ir/mesh_axis.h"
#include "core/torch/compare.h"
#include "core/torch/tensor_bag_impl.h"

namespace spscope::exec {

struct Optimizer::Impl {
  OptimizerOptions options;
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters, first, second;  // first: exp_avg or momentum
  std::vector<at::Tensor> masters;                    // by parameter; undefined: it is trained as it is
  at::Tensor step;                                    // one for all: they step together
  std::int64_t steps = 0;
  std::vector<std::vector<std::int64_t>> shapes;      // of the whole parameters

  struct State {
    std::string name;
    at::Tensor tensor;
    const std::vector<std::int64_t>* whole = nullptr;  ///< shape of the whole parameter; nullptr: it has no blocks (the step counter)
  };
  std::vector<State> states() const {
    std::vector<State> out;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (masters[i].defined()) out.push_back({"master." + names[i], masters[i], &shapes[i]});
      if (!first.empty()) out.push_back({(adamw() ? "exp_avg." : "momentum.") + names[i], first[i], &shapes[i]});
      if (!second.empty()) out.push_back({"exp_avg_sq." + names[i], second[i], &shapes[i]});
    }
    out.push_back({"step", step});
    return out;
  }
  /// What the kernels update.
  at::Tensor& target(std::size_t i) { return masters[i].defined() ? masters[i] : parameters[i]; }
  /// This optimizer's part of a tensor that has the shape of a parameter.
  at::Tensor mine(const at::Tensor& whole) const {
    if (options.shards == 1) return whole;
    const ir::Dims blocks = ir::shardBlocks(whole.numel(), options.shards);
    const auto r = static_cast<std::size_t>(options.shard);
    return whole.view({-1}).narrow(0, ir::offsetsOf(blocks)[r], blocks[r]);
  }
  bool adamw() const { return options.kind == OptimizerOptions::Kind::kAdamW; }
  bool hasFirst() const { return adamw() || options.momentum != 0.0; }
  double decay() const { return options.weight_decay.value_or(adamw() ? 0.01 : 0.0); }
};

namespace {

struct Pair {
  std::size_t parameter;
  at::Tensor gradient;
};

bool half(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; }

double squaredNorm(const at::Tensor& tensor) {
  const double norm = tensor.norm(at::Scalar(2.0), at::kDouble).item<double>();
  return norm * norm;
}

}  // namespace

std::optional<OptimizerOptions::Kind> parseOptimizer(std::string_view text) {
  if (text == "adamw") return OptimizerOptions::Kind::kAdamW;
  if (text == "sgd") return OptimizerOptions::Kind::kSgd;
  return std::nullopt;
}

Optimizer::Optimizer() : impl_(std::make_unique<Impl>()) {}
Optimizer::~Optimizer() = default;
Optimizer::Optimizer(Optimizer&&) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&&) noexcept = default;

Result<Optimizer> Optimizer::create(const OptimizerOptions& options, const TensorBag& parameters,
                                    const std::vector<std::string>& trainable) {
  const c10::InferenceMode off(false);
  Optimizer optimizer;
  Impl& impl = *optimizer.impl_;
  impl.options = options;
  for (const std::string& name : trainable) {
    const int at = parameters.impl().find(name);
    if (at < 0) return makeError("tensor-missing", "there is no parameter named " + name);
    const at::Tensor& parameter = parameters.impl().tensors[static_cast<std::size_t>(at)];
    if (!parameter.is_floating_point())
      return makeError("optimizer-dtype", "the parameter " + name + " does not hold floating-point numbers");
    if (!parameter.is_contiguous()) return makeError("optimizer-dtype", "the parameter " + name + " is not contiguous");
    impl.names.push_back(name);
    impl.shapes.push_back(parameter.sizes().vec());
    impl.parameters.push_back(impl.mine(parameter));
    impl.masters.push_back(options.master_weights && half(parameter.scalar_type()) ? impl.parameters.back().to(at::kFloat) : at::Tensor());
    const at::Tensor& trained = impl.target(impl.masters.size() - 1);
    if (impl.hasFirst()) impl.first.push_back(at::zeros_like(trained));
    if (impl.adamw()) impl.second.push_back(at::zeros_like(trained));
  }
  impl.step = at::zeros({}, at::TensorOptions().dtype(at::kFloat));
  return optimizer;
}

const std::vector<std::string>& Optimizer::trainable() const { return impl_->names; }

Result<double> Optimizer::squaredNorm(const TensorBag& gradients) const {
  const c10::InferenceMode inference;
  if (impl_->options.clip <= 0.0) return 0.0;
  double squares = 0.0;
  try {
    for (const std::string& name : impl_->names)
      if (const int at = gradients.impl().find(name); at >= 0) squares += exec::squaredNorm(gradients.impl().tensors[static_cast<std::size_t>(at)]);
  } catch (const std::exception& e) {
    return makeError("op-failed", std::string("optimizer: ") + e.what(), Outcome::kRunFailed);
  }
  return squares;
}

Result<OptimizerReport> Optimizer::apply(const TensorBag& gradients, std::optional<double> norm_squares) {
  const c10::InferenceMode inference;
  Impl& impl = *impl_;
  const OptimizerOptions& o = impl.options;
  OptimizerReport report;
  try {
    std::vector<Pair> pairs;
    std::set<const void*> seen;
    if (!norm_squares) {
      SP_ASSIGN(norm_squares, squaredNorm(gradients));
    }
    for (std::size_t i = 0; i < impl.names.size(); ++i) {
      const int at = gradients.impl().find(impl.names[i]);
      if (at < 0) continue;
      const at::Tensor& gradient = gradients.impl().tensors[static_cast<std::size_t>(at)];
      const at::ScalarType type = impl.parameters[i].scalar_type();
      const bool wide = half(type) && gradient.scalar_type() == at::kFloat;
      if (gradient.sizes() != impl.parameters[i].sizes() || (gradient.scalar_type() != type && !wide))
        return makeError("gradient-shape", "the gradient of " + impl.names[i] + " does not have its parameter's shape and type",
                         Outcome::kRunFailed);
      // Clipping in place must not scale one memory twice, nor before another gradient has read it.
      const bool shared = !seen.insert(gradient.storage().unsafeGetStorageImpl()).second;
      pairs.push_back({i, shared ? gradient.clone() : gradient});
    }
    double scale = 1.0;
    if (o.clip > 0.0) {
      report.gradient_norm = std::sqrt(*norm_squares);
      scale = o.clip / (report.gradient_norm + 1e-6);  // as torch.nn.utils.clip_grad_norm_
      report.clipped = scale < 1.0;
    }
    impl.step.add_(1.0);
    ++impl.steps;
    // The fused kernels read raw memory, so a gradient must lie like its parameter. One parameter at a time: a gradient
    // that has to be copied lives only for its own update.
    for (Pair& pair : pairs) {
      at::Tensor& parameter = impl.target(pair.parameter);
      at::Tensor gradient = pair.gradient.contiguous();
      if (parameter.scalar_type() == at::kFloat) gradient = gradient.to(at::kFloat);
      if (report.clipped) gradient.mul_(scale);
      gradient = gradient.to(parameter.scalar_type());
      if (impl.adamw()) {
        at::_fused_adamw_({parameter}, {gradient}, {impl.first[pair.parameter]}, {impl.second[pair.parameter]}, {},
                          {impl.step}, o.lr, o.beta1, o.beta2, impl.decay(), o.eps, /*amsgrad=*/false,
                          /*maximize=*/false, std::nullopt, std::nullopt);
      } else {
        std::vector<at::Tensor> momentum;
        if (impl.hasFirst()) momentum.push_back(impl.first[pair.parameter]);
        at::_fused_sgd_({parameter}, {gradient}, momentum, impl.decay(), o.momentum, o.lr, /*dampening=*/0.0,
                        /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/impl.steps == 1, std::nullopt,
                        std::nullopt);
      }
      if (impl.masters[pair.parameter].defined()) impl.parameters[pair.parameter].copy_(parameter);
    }
  } catch (const std::exception& e) {
    return makeError("op-failed", std::string("optimizer: ") + e.what(), Outcome::kRunFailed);
  }
  return report;
}

void Optimizer::setLearningRate(double lr) { impl_->options.lr = lr; }
std::int64_t Optimizer::steps() const { return impl_->steps; }

std::int64_t Optimizer::stateBytes() const {
  std::int64_t bytes = 0;
  for (const auto* list : {&impl_->masters, &impl_->first, &impl_->second})
    for (const at::Tensor& t : *list) bytes += t.defined() ? static_cast<std::int64_t>(t.nbytes()) : 0;
  return bytes;
}

TensorBag Optimizer::states() const {
  TensorBag bag;
  for (const Impl::State& state : impl_->states()) bag.impl().append(state.name, state.tensor);
  return bag;
}

Status Optimizer::restore(const TensorBag& states) {
  const c10::InferenceMode inference;
  const std::vector<Impl::State> mine = impl_->states();
  // Moments that are not there, or that this kind has no use for: training would go on, but not as it was.
  const auto kindOf = [](const std::vector<std::string>& names) {
    std::string kind = "SGD";
    bool masters = false;
    for (const std::string& name : names) {
      if (name.starts_with("exp_avg")) kind = "AdamW";  // either moment: which one is missing is said below
      if (name.starts_with("momentum.")) kind = "SGD with momentum";
      masters = masters || name.starts_with("master.");
    }
    return kind + (masters ? " on float32 master weights" : "");
  };
  std::vector<std::string> own;
  for (const Impl::State& state : mine) own.push_back(state.name);
  if (const std::string saved = kindOf(states.impl().names), wanted = kindOf(own); saved != wanted)
    return makeError("optimizer-state", "what was saved belongs to " + saved + ", this run uses " + wanted);
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // all checked before any is made
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const std::string& name = mine[i].name;
    const int at = states.impl().find(name);
    if (at < 0) return makeError("tensor-missing", "the saved optimizer has no " + name);
    const at::Tensor& target = mine[i].tensor;
    at::Tensor saved = states.impl().tensors[static_cast<std::size_t>(at)];
    // What is saved is whole, so that it can be resumed on any mesh.
    if (const auto whole = mine[i].whole; impl_->options.shards > 1 && whole && saved.sizes() == at::IntArrayRef(*whole))
      saved = impl_->mine(saved.contiguous());
    if (saved.sizes() != target.sizes() || saved.scalar_type() != target.scalar_type())
      return makeError("optimizer-state", "the saved state " + name + " has another shape or type than its parameter");
    copies.emplace_back(target, saved);
  }
  if (states.size() != mine.size())
    return makeError("optimizer-state", strf("what was saved holds %zu tensors, this optimizer has %zu", states.size(), mine.size()));
  for (auto& [target, saved] : copies) target.copy_(saved);
  impl_->steps = static_cast<std::int64_t>(impl_->step.item<float>());
  return {};
}

}  // namespace spscope::exec
