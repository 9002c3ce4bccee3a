// SPDX-License-Identifier: Apache-2.0
// See own_ops.h. Derivatives call the op of the backward through the dispatcher again, below autograd, so that the capture
// records it as one node.
#include "core/torch/own_ops.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <limits>

#include "core/torch/masked_attention.h"
#include "core/torch/tiled_loss.h"

namespace spscope::exec {
namespace {

using at::IntArrayRef;
using at::Tensor;
using at::TensorList;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptTensor = std::optional<Tensor>;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

template <typename Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  static const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
  return handle;
}

// --- attention ------------------------------------------------------------------------------------------------------

using Attention = Two(const Tensor&, const Tensor&, const Tensor&, TensorList, TensorList, IntArrayRef, std::optional<double>);
using AttentionBackward = Three(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, TensorList, TensorList,
                                IntArrayRef, std::optional<double>);
constexpr const char* kAttention = "spscope::_scaled_dot_product_attention_for_cpu";
constexpr const char* kAttentionBackward = "spscope::_scaled_dot_product_attention_for_cpu_backward";

/// Memory [B, S, H, D], seen as [B, H, S, D].
Tensor headsOutside(const Tensor& like, std::int64_t last) {
  return at::empty({like.size(0), like.size(2), like.size(1), last}, like.options()).transpose(1, 2);
}

Two attentionMeta(const Tensor& query, const Tensor& key, const Tensor& value, TensorList rows, TensorList columns, IntArrayRef, std::optional<double>) {
  TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && value.dim() == 4, "spscope: attention takes [B, H, S, D]");
  for (const Tensor& t : rows) TORCH_CHECK(t.dim() == 4 && t.size(1) == 1 && t.size(2) == query.size(2) && t.size(3) == 1, "spscope: a mask's rows are ", t.sizes());
  for (const Tensor& t : columns) TORCH_CHECK(t.dim() == 4 && t.size(1) == 1 && t.size(2) == 1 && t.size(3) == key.size(2), "spscope: a mask's columns are ", t.sizes());
  const auto type = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {headsOutside(query, value.size(3)), at::empty({query.size(0), query.size(2), query.size(1)}, query.options().dtype(type)).transpose(1, 2)};
}

Three attentionBackwardMeta(const Tensor&, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor&, const Tensor&, TensorList, TensorList,
                            IntArrayRef, std::optional<double>) {
  return {headsOutside(query, query.size(3)), headsOutside(key, key.size(3)), headsOutside(value, value.size(3))};
}

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
  static variable_list forward(AutogradContext* context, const Tensor& query, const Tensor& key, const Tensor& value, TensorList rows, TensorList columns,
                               IntArrayRef rule, std::optional<double> scale) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [out, sums] = find<Attention>(kAttention).call(query, key, value, rows, columns, rule, scale);
    variable_list saved{query, key, value, out, sums};
    saved.insert(saved.end(), rows.begin(), rows.end());
    saved.insert(saved.end(), columns.begin(), columns.end());
    context->save_for_backward(saved);
    context->saved_data["rows"] = static_cast<std::int64_t>(rows.size());
    context->saved_data["rule"] = rule.vec();
    context->saved_data["scale"] = scale;
    context->mark_non_differentiable({sums});
    context->set_materialize_grads(false);
    return {out, sums};
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const auto rows = static_cast<std::size_t>(context->saved_data["rows"].toInt());
    const TensorList vectors = TensorList(saved).slice(5);
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [dq, dk, dv] = find<AttentionBackward>(kAttentionBackward)
                            .call(grads[0], saved[0], saved[1], saved[2], saved[3], saved[4], vectors.slice(0, rows), vectors.slice(rows),
                                  context->saved_data["rule"].toIntVector(), context->saved_data["scale"].toOptional<double>());
    variable_list out{dq, dk, dv};
    out.resize(5 + vectors.size());  // one per tensor of the lists
    return out;
  }
};

Two attentionAutograd(const Tensor& query, const Tensor& key, const Tensor& value, TensorList rows, TensorList columns, IntArrayRef rule,
                      std::optional<double> scale) {
  const variable_list out = AttentionFunction::apply(query, key, value, rows, columns, rule, scale);
  return {out[0], out[1]};
}

// --- loss -----------------------------------------------------------------------------------------------------------

using Loss = Tensor(const Tensor&, const Tensor&, const OptTensor&, const Tensor&, std::int64_t, double, std::int64_t, c10::string_view);
using LossBackward = Three(const Tensor&, const Tensor&, const Tensor&, const OptTensor&, const Tensor&, std::int64_t, double, std::int64_t, c10::string_view,
                           bool);
constexpr const char* kLoss = "spscope::tiled_cross_entropy";
constexpr const char* kLossBackward = "spscope::tiled_cross_entropy_backward";

Tensor loss(const Tensor& self, const Tensor& weight, const OptTensor& bias, const Tensor& target, std::int64_t ignore_index, double label_smoothing,
            std::int64_t rows, c10::string_view steps) {
  return tiledCrossEntropy({self, weight, bias, target, ignore_index, label_smoothing, rows, {steps.data(), steps.size()}});
}
Three lossBackward(const Tensor& grad, const Tensor& self, const Tensor& weight, const OptTensor& bias, const Tensor& target, std::int64_t ignore_index,
                   double label_smoothing, std::int64_t rows, c10::string_view steps, bool weight_wanted) {
  return tiledCrossEntropyBackward(grad, {self, weight, bias, target, ignore_index, label_smoothing, rows, {steps.data(), steps.size()}}, weight_wanted);
}

Tensor lossMeta(const Tensor& self, const Tensor& weight, const OptTensor& bias, const Tensor& target, std::int64_t, double, std::int64_t,
                c10::string_view steps) {
  TORCH_CHECK(self.dim() == 2 && weight.dim() == 2 && self.size(1) == weight.size(1) && target.dim() == 1 && target.size(0) == self.size(0),
              "spscope: rows ", self.sizes(), ", weight ", weight.sizes(), " and labels ", target.sizes(), " do not go together");
  TORCH_CHECK(!bias || (bias->dim() == 1 && bias->size(0) == weight.size(0)), "spscope: the bias has not one number per class");
  return at::empty({self.size(0)}, self.options().dtype(lossType(self, {steps.data(), steps.size()})));
}
Three lossBackwardMeta(const Tensor&, const Tensor& self, const Tensor& weight, const OptTensor& bias, const Tensor&, std::int64_t, double, std::int64_t,
                       c10::string_view, bool weight_wanted) {
  return {at::empty(self.sizes(), self.options()), weight_wanted ? at::empty(weight.sizes(), weight.options()) : Tensor(),
          bias ? at::empty(bias->sizes(), bias->options()) : Tensor()};
}

struct LossFunction : torch::autograd::Function<LossFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& self, const Tensor& weight, const OptTensor& bias, const Tensor& target,
                        std::int64_t ignore_index, double label_smoothing, std::int64_t rows, std::string steps) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({self, weight, bias ? *bias : Tensor(), target});
    context->saved_data["ignore_index"] = ignore_index;
    context->saved_data["label_smoothing"] = label_smoothing;
    context->saved_data["rows"] = rows;
    context->saved_data["weight"] = weight.requires_grad();
    Tensor out = find<Loss>(kLoss).call(self, weight, bias, target, ignore_index, label_smoothing, rows, steps);
    context->saved_data["steps"] = std::move(steps);
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [d_self, d_weight, d_bias] =
        find<LossBackward>(kLossBackward)
            .call(grads[0], saved[0], saved[1], saved[2].defined() ? OptTensor(saved[2]) : OptTensor(), saved[3], data["ignore_index"].toInt(),
                  data["label_smoothing"].toDouble(), data["rows"].toInt(), data["steps"].toStringRef(), data["weight"].toBool());
    variable_list out{d_self, d_weight, d_bias};
    out.resize(8);
    return out;
  }
};

Tensor lossAutograd(const Tensor& self, const Tensor& weight, const OptTensor& bias, const Tensor& target, std::int64_t ignore_index,
                    double label_smoothing, std::int64_t rows, c10::string_view steps) {
  return LossFunction::apply(self, weight, bias, target, ignore_index, label_smoothing, rows, std::string(steps));
}

// --- a fault on purpose ------------------------------------------------------------------------------------------------

Tensor damage(const Tensor& self, std::int64_t element, std::int64_t bit) {
  Tensor out = self.clone(at::MemoryFormat::Contiguous);
  if (out.numel() == 0) return out;
  const auto width = static_cast<std::int64_t>(out.element_size());
  TORCH_CHECK(bit >= -1 && bit < 8 * width, "spscope: an element of ", out.scalar_type(), " has no bit ", bit);
  element = (element % out.numel() + out.numel()) % out.numel();
  if (bit < 0) {
    TORCH_CHECK(at::isFloatingType(out.scalar_type()), "spscope: only a floating type has a NaN");
    out.view({-1}).select(0, element).fill_(std::numeric_limits<double>::quiet_NaN());
  } else {
    auto* byte = static_cast<unsigned char*>(out.data_ptr()) + element * width + bit / 8;  // little-endian
    *byte = static_cast<unsigned char>(*byte ^ (1U << (bit % 8)));
  }
  return out;
}
Tensor damageMeta(const Tensor& self, std::int64_t, std::int64_t) { return at::empty(self.sizes(), self.options()); }

}  // namespace

void registerOwnOps() {
  using torch::Library;
  static Library* const libraries = [] {
    auto* definition = new Library(Library::DEF, "spscope", std::nullopt, __FILE__, __LINE__);
    definition->def(
        "_scaled_dot_product_attention_for_cpu(Tensor query, Tensor key, Tensor value, Tensor[] query_rows, Tensor[] key_columns, int[] mask_rule, *, "
        "float? scale=None) -> (Tensor output, Tensor logsumexp)");
    definition->def(
        "_scaled_dot_product_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, "
        "Tensor[] query_rows, Tensor[] key_columns, int[] mask_rule, *, float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)");
    definition->def(
        "tiled_cross_entropy(Tensor self, Tensor weight, Tensor? bias, Tensor target, int ignore_index, float label_smoothing, int rows, str steps) -> Tensor");
    definition->def(
        "tiled_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor weight, Tensor? bias, Tensor target, int ignore_index, float label_smoothing, "
        "int rows, str steps, bool weight_wanted) -> (Tensor, Tensor, Tensor)");
    definition->def("damage(Tensor self, int element, int bit) -> Tensor");  // core/ir/damage.h
    // Registrations live as long as the process, as those of the sp.* ops.
    auto* cpu = new Library(Library::IMPL, "spscope", c10::DispatchKey::CPU, __FILE__, __LINE__);
    cpu->impl("_scaled_dot_product_attention_for_cpu", &maskedAttention);
    cpu->impl("_scaled_dot_product_attention_for_cpu_backward", &maskedAttentionBackward);
    cpu->impl("damage", &damage);
    auto* cuda = new Library(Library::IMPL, "spscope", c10::DispatchKey::CUDA, __FILE__, __LINE__);
    for (Library* device : {cpu, cuda}) {  // made of ATen's ops: as they are for each device
      device->impl("tiled_cross_entropy", &loss);
      device->impl("tiled_cross_entropy_backward", &lossBackward);
    }
    auto* meta = new Library(Library::IMPL, "spscope", c10::DispatchKey::Meta, __FILE__, __LINE__);
    meta->impl("_scaled_dot_product_attention_for_cpu", &attentionMeta);
    meta->impl("_scaled_dot_product_attention_for_cpu_backward", &attentionBackwardMeta);
    meta->impl("tiled_cross_entropy", &lossMeta);
    meta->impl("tiled_cross_entropy_backward", &lossBackwardMeta);
    meta->impl("damage", &damageMeta);
    auto* gradients = new Library(Library::IMPL, "spscope", c10::DispatchKey::Autograd, __FILE__, __LINE__);
    gradients->impl("_scaled_dot_product_attention_for_cpu", &attentionAutograd);
    gradients->impl("tiled_cross_entropy", &lossAutograd);
    return definition;
  }();
  (void)libraries;
}

}  // namespace spscope::exec
