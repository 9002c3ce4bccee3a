// SPDX-License-Identifier: Apache-2.0
// See meta_kernels.h. Each function gives its outputs the sizes, strides and types that the CPU kernel gives (a test
// compares them one by one), because strides decide which views are possible and storage sizes are the memory curve.
#include "core/torch/meta_kernels.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>
#include <tuple>

namespace spscope::exec {
namespace {

using at::Tensor;
using OptTensor = std::optional<Tensor>;
using Sizes = std::vector<std::int64_t>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Tensor contiguousLike(const Tensor& t) { return at::empty(t.sizes(), t.options()); }

/// Memory [B, S, H, D], seen as [B, H, S, D]: how most attention kernels return their results.
Tensor headsOutside(const Tensor& like, std::int64_t last) {
  return at::empty({like.size(0), like.size(2), like.size(1), last}, like.options()).transpose(1, 2);
}

c10::ScalarType accumulateType(const Tensor& t) { return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

/// New memory of `sizes` whose dimensions lie in memory as those of `like` do.
Tensor matchingLayout(const Tensor& like, const Sizes& sizes) {
  if (like.sizes() == at::IntArrayRef(sizes)) return at::empty_like(like);
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return like.stride(static_cast<std::int64_t>(a)) > like.stride(static_cast<std::int64_t>(b));
  });
  Sizes permuted, inverse(sizes.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    permuted.push_back(sizes[order[i]]);
    inverse[order[i]] = static_cast<std::int64_t>(i);
  }
  return at::empty(permuted, like.options()).permute(inverse);
}

// --- element-wise, indexing -----------------------------------------------------------------------------------------

Tensor whereSelf(const Tensor& condition, const Tensor& self, const Tensor& other) {
  Tensor out;
  auto iterator = at::TensorIteratorConfig()
                      .check_all_same_dtype(false)
                      .allow_cpu_scalars(true)
                      .declare_static_dtype(at::result_type(self, other))
                      .declare_static_device(c10::kMeta)
                      .add_output(out)
                      .add_const_input(condition)
                      .add_const_input(self)
                      .add_const_input(other)
                      .build();
  return iterator.output();
}

Tensor& whereSelfOut(const Tensor& condition, const Tensor& self, const Tensor& other, Tensor& out) {
  const Tensor result = whereSelf(condition, self, other);
  if (out.sizes() != result.sizes()) {
    out.resize_(result.sizes());
    out.as_strided_(result.sizes(), result.strides());
  }
  return out;
}

/// Elementwise, memory order kept as TensorIterator does.
Tensor logicalNot(const Tensor& self) { return at::empty_like(self, self.options().dtype(at::kBool)); }
Tensor relu(const Tensor& self) { return at::empty_like(self); }

Tensor indexSelect(const Tensor& self, std::int64_t dim, const Tensor& index) {
  Sizes sizes = self.sizes().vec();
  if (!sizes.empty()) sizes[static_cast<std::size_t>(dim < 0 ? dim + self.dim() : dim)] = index.numel();
  return at::empty(sizes, self.options());
}

Tensor embeddingBackward(const Tensor& grad, const Tensor&, c10::SymInt rows, c10::SymInt, bool) {
  return at::empty({rows.expect_int(), grad.size(-1)}, grad.options());
}

Tensor& indexPut(Tensor& self, const c10::List<std::optional<Tensor>>&, const Tensor&, bool, bool) { return self; }

Tensor flip(const Tensor& self, at::IntArrayRef) { return at::empty_like(self, at::MemoryFormat::Preserve); }

Tensor dot(const Tensor& self, const Tensor&) { return at::empty({}, self.options()); }

Tensor fullReduction(const Tensor& self) { return at::empty({}, self.options()); }

Tensor histogram(const Tensor& self, std::int64_t bins, const at::Scalar&, const at::Scalar&) {
  return at::empty({bins}, self.options());
}

std::tuple<Tensor, Tensor> logSigmoid(const Tensor& self) { return {contiguousLike(self), contiguousLike(self)}; }
Tensor logSigmoidBackward(const Tensor& grad, const Tensor&, const Tensor&) { return at::empty_like(grad); }

Tensor gluBackward(const Tensor&, const Tensor& self, std::int64_t) { return contiguousLike(self); }

/// Logits [N, C, H, W], labels [N, H, W]: a cross entropy whose classes are not the last dimension.
std::tuple<Tensor, Tensor> nllLoss2d(const Tensor& self, const Tensor& target, const OptTensor&, std::int64_t reduction, c10::SymInt) {
  return {reduction == at::Reduction::None ? at::empty(target.sizes(), self.options()) : at::empty({}, self.options()), at::empty({}, self.options())};
}
Tensor nllLoss2dBackward(const Tensor&, const Tensor& self, const Tensor&, const OptTensor&, std::int64_t, c10::SymInt, const Tensor&) {
  return at::empty_like(self);
}

Tensor polar(const Tensor& abs, const Tensor& angle) {
  return at::empty(at::infer_size(abs.sizes(), angle.sizes()), abs.options().dtype(c10::toComplexType(abs.scalar_type())));
}

// --- normalisation, reductions, dropout -----------------------------------------------------------------------------

/// libtorch's own shape function goes through batch normalisation, which has none.
Three layerNorm(const Tensor& input, c10::SymIntArrayRef normalized, const OptTensor& weight, const OptTensor& bias,
                double) {
  Sizes sizes = input.sizes().vec();
  for (std::size_t i = sizes.size() - normalized.size(); i < sizes.size(); ++i) sizes[i] = 1;
  // Statistics have the type of the parameters, which may be wider than the input's.
  const Tensor& typed = weight && weight->defined() ? *weight : (bias && bias->defined() ? *bias : input);
  const auto statistics = input.options().dtype(typed.scalar_type());
  return {contiguousLike(input), at::empty(sizes, statistics), at::empty(sizes, statistics)};
}

Three layerNormBackward(const Tensor& grad, const Tensor& input, c10::SymIntArrayRef, const Tensor&, const Tensor&,
                        const OptTensor& weight, const OptTensor& bias, std::array<bool, 3> mask) {
  const Tensor& shape_of_weight = weight && weight->defined() ? *weight : (bias && bias->defined() ? *bias : grad);
  return {mask[0] ? contiguousLike(input) : Tensor(), mask[1] ? contiguousLike(shape_of_weight) : Tensor(),
          mask[2] ? contiguousLike(bias && bias->defined() ? *bias : shape_of_weight) : Tensor()};
}

std::tuple<Tensor, Tensor> rmsNormBackward(const Tensor&, const Tensor& input, at::IntArrayRef, const Tensor&,
                                           const OptTensor& weight, std::array<bool, 2> mask) {
  return {mask[0] ? contiguousLike(input) : Tensor(),
          mask[1] && weight && weight->defined() ? contiguousLike(*weight) : Tensor()};
}

Three groupNormBackward(const Tensor&, const Tensor& input, const Tensor&, const Tensor&, const OptTensor& weight,
                        c10::SymInt, c10::SymInt channels, c10::SymInt, std::int64_t, std::array<bool, 3> mask) {
  const auto options = weight && weight->defined() ? weight->options() : input.options();
  return {mask[0] ? at::empty_like(input) : Tensor(),
          mask[1] ? at::empty({channels.expect_int()}, options) : Tensor(),
          mask[2] ? at::empty({channels.expect_int()}, options) : Tensor()};
}

Tensor reduced(const Tensor& self, at::OptionalIntArrayRef dims, bool keepdim) {
  Sizes all(static_cast<std::size_t>(self.dim()));
  std::iota(all.begin(), all.end(), 0);
  const at::IntArrayRef over = dims && !dims->empty() ? *dims : at::IntArrayRef(all);
  std::vector<bool> gone(static_cast<std::size_t>(self.dim()), false);
  for (const std::int64_t d : over) gone[static_cast<std::size_t>(d < 0 ? d + self.dim() : d)] = true;
  Sizes sizes;
  for (std::int64_t d = 0; d < self.dim(); ++d) {
    if (!gone[static_cast<std::size_t>(d)])
      sizes.push_back(self.size(d));
    else if (keepdim)
      sizes.push_back(1);
  }
  return at::empty(sizes, self.options().dtype(c10::toRealValueType(self.scalar_type())));
}

Tensor varCorrection(const Tensor& self, at::OptionalIntArrayRef dims, const std::optional<at::Scalar>&, bool keepdim) {
  return reduced(self, dims, keepdim);
}
std::tuple<Tensor, Tensor> varMeanCorrection(const Tensor& self, at::OptionalIntArrayRef dims,
                                             const std::optional<at::Scalar>&, bool keepdim) {
  return {reduced(self, dims, keepdim), reduced(self, dims, keepdim).to(self.scalar_type())};
}

std::tuple<Tensor, Tensor> dropout(const Tensor& input, double, std::optional<bool>) {
  return {at::empty_like(input), at::empty_like(input, input.options().dtype(at::kBool))};
}
Tensor dropoutBackward(const Tensor& grad, const Tensor&, double) { return at::empty_like(grad); }

Three linearBackward(const Tensor& self, const Tensor& grad, const Tensor& weight, std::array<bool, 3> mask) {
  return {mask[0] ? contiguousLike(self) : Tensor(), mask[1] ? contiguousLike(weight) : Tensor(),
          mask[2] ? at::empty({grad.size(-1)}, grad.options()) : Tensor()};
}

// --- convolution ----------------------------------------------------------------------------------------------------

Tensor convolution(const Tensor& input, const Tensor& weight, const OptTensor&, c10::SymIntArrayRef stride,
                   c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
                   c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  const auto at_dim = [](c10::SymIntArrayRef list, std::int64_t i) {
    return list[list.size() == 1 ? 0 : static_cast<std::size_t>(i)].expect_int();
  };
  Sizes sizes{input.size(0), transposed ? weight.size(1) * groups.expect_int() : weight.size(0)};
  for (std::int64_t d = 0; d + 2 < input.dim(); ++d) {
    const std::int64_t reach = at_dim(dilation, d) * (weight.size(d + 2) - 1) + 1;
    const std::int64_t in = input.size(d + 2);
    sizes.push_back(transposed ? (in - 1) * at_dim(stride, d) - 2 * at_dim(padding, d) + reach + at_dim(output_padding, d)
                               : (in + 2 * at_dim(padding, d) - reach) / at_dim(stride, d) + 1);
  }
  return at::empty(sizes, input.options().memory_format(input.suggest_memory_format()));
}

Three convolutionBackward(const Tensor& grad, const Tensor& input, const Tensor& weight, at::OptionalSymIntArrayRef,
                          c10::SymIntArrayRef, c10::SymIntArrayRef, c10::SymIntArrayRef, bool, c10::SymIntArrayRef,
                          c10::SymInt, std::array<bool, 3> mask) {
  return {mask[0] ? at::empty(input.sizes(), input.options().memory_format(input.suggest_memory_format())) : Tensor(),
          mask[1] ? at::empty(weight.sizes(), weight.options().memory_format(weight.suggest_memory_format())) : Tensor(),
          mask[2] ? at::empty({grad.size(1)}, grad.options()) : Tensor()};
}

// --- attention ------------------------------------------------------------------------------------------------------

std::tuple<Tensor, Tensor> flashForCpu(const Tensor& query, const Tensor&, const Tensor& value, double, bool,
                                       const OptTensor&, std::optional<double>) {
  const Tensor sums =
      at::empty({query.size(0), query.size(2), query.size(1)}, query.options().dtype(accumulateType(query)));
  Sizes sizes = query.sizes().vec();
  sizes[3] = value.size(3);
  return {matchingLayout(query, sizes), sums.transpose(1, 2)};
}
Three flashForCpuBackward(const Tensor&, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor&,
                          const Tensor&, double, bool, const OptTensor&, std::optional<double>) {
  return {headsOutside(query, query.size(3)), headsOutside(key, key.size(3)), headsOutside(value, value.size(3))};
}

Tensor seedLike(const Tensor& t, Sizes sizes, c10::ScalarType type) { return at::empty(sizes, t.options().dtype(type)); }

using FlashForward =
    std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

FlashForward flash(const Tensor& query, const Tensor& key, const Tensor& value, double, bool, bool debug_mask,
                   std::optional<double>) {
  TORCH_CHECK(!debug_mask, "the debug mask of flash attention has no shape function");
  Sizes sizes = query.sizes().vec();
  sizes[3] = value.size(3);
  const Tensor sums =
      at::empty({query.size(0), query.size(1), query.size(2)}, query.options().dtype(at::kFloat));
  return {matchingLayout(query, sizes), sums, Tensor(), Tensor(), c10::SymInt(query.size(2)), c10::SymInt(key.size(2)),
          seedLike(query, {2}, at::kUInt64), seedLike(query, {}, at::kUInt64), at::empty({0}, query.options())};
}
Three flashBackward(const Tensor&, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor&,
                    const Tensor&, const Tensor&, const Tensor&, c10::SymInt, c10::SymInt, double, bool, const Tensor&,
                    const Tensor&, std::optional<double>) {
  return {at::empty_like(query), at::empty_like(key), at::empty_like(value)};
}

FlashForward cudnn(const Tensor& query, const Tensor& key, const Tensor& value, const OptTensor&, bool, double, bool,
                   bool, std::optional<double>) {
  Sizes sizes = query.sizes().vec();
  sizes[3] = value.size(3);
  const Tensor sums =
      at::empty({query.size(0), query.size(1), query.size(2), 1}, query.options().dtype(at::kFloat));
  return {matchingLayout(query, sizes), sums, Tensor(), Tensor(), c10::SymInt(query.size(2)), c10::SymInt(key.size(2)),
          seedLike(query, {}, at::kLong), seedLike(query, {}, at::kLong), Tensor()};
}
Three cudnnBackward(const Tensor&, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor&,
                    const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                    c10::SymInt, c10::SymInt, double, bool, std::optional<double>) {
  return {at::empty_like(query), at::empty_like(key), at::empty_like(value)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient(const Tensor& query, const Tensor&, const Tensor& value,
                                                     const OptTensor&, bool log_sum, double, bool,
                                                     std::optional<double>) {
  const std::int64_t padded = log_sum ? (query.size(2) + 31) / 32 * 32 : 0;
  return {headsOutside(query, value.size(3)),
          at::empty({query.size(0), query.size(1), padded}, query.options().dtype(at::kFloat)),
          seedLike(query, {}, at::kLong), seedLike(query, {}, at::kLong)};
}
std::tuple<Tensor, Tensor, Tensor, Tensor> efficientBackward(const Tensor&, const Tensor& query, const Tensor& key,
                                                             const Tensor& value, const Tensor& bias, const Tensor&,
                                                             const Tensor&, const Tensor&, const Tensor&, double,
                                                             std::array<bool, 4> mask, bool, std::optional<double>) {
  Tensor bias_grad;
  if (bias.defined() && mask[3]) {
    Sizes sizes = bias.sizes().vec();
    const std::int64_t last = sizes.back();
    sizes.back() = (last + 15) / 16 * 16;
    bias_grad = at::empty(sizes, bias.options()).narrow(-1, 0, last);
  }
  return {headsOutside(query, query.size(3)), headsOutside(key, key.size(3)), headsOutside(value, value.size(3)),
          bias_grad};
}

/// The kernels below SDPA, called directly where documents or windows are given: [B, S, H, D], or [T, H, D] with
/// cumulative lengths.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> flashForward(
    const Tensor& query, const Tensor&, const Tensor& value, const OptTensor& lengths, const OptTensor&, c10::SymInt,
    c10::SymInt, double, bool, bool debug_mask, std::optional<double>, std::optional<c10::SymInt>,
    std::optional<c10::SymInt>, const OptTensor&, const OptTensor&, const OptTensor&, std::optional<std::int64_t>) {
  TORCH_CHECK(!debug_mask, "the debug mask of flash attention has no shape function");
  Sizes sizes = query.sizes().vec();
  sizes.back() = value.size(-1);
  const auto floats = query.options().dtype(at::kFloat);
  const Tensor sums = lengths && lengths->defined()
                          ? at::empty({query.size(-2), query.size(0)}, floats)
                          : at::empty({query.size(0), query.size(2), query.size(1)}, floats);
  return {matchingLayout(query, sizes), sums, seedLike(query, {2}, at::kUInt64), seedLike(query, {}, at::kUInt64),
          at::empty({0}, query.options())};
}

Three flashForwardBackward(const Tensor&, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor&,
                           const Tensor&, const Tensor&, const Tensor&, c10::SymInt, c10::SymInt, double, bool,
                           const Tensor&, const Tensor&, std::optional<double>, std::optional<c10::SymInt>,
                           std::optional<c10::SymInt>) {
  return {at::empty_like(query), at::empty_like(key), at::empty_like(value)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt> efficientForward(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptTensor&, const OptTensor& lengths,
    const OptTensor&, std::optional<c10::SymInt> max_query, std::optional<c10::SymInt> max_key, double, std::int64_t,
    bool log_sum, std::optional<double>, const OptTensor&, std::optional<std::int64_t>) {
  const bool documents = lengths && lengths->defined();
  const std::int64_t rows = documents && max_query ? max_query->expect_int() : query.size(1);
  const std::int64_t columns = max_key ? max_key->expect_int() : key.size(1);
  return {at::empty({query.size(0), query.size(1), query.size(2), value.size(3)}, query.options()),
          at::empty({documents ? lengths->size(0) - 1 : query.size(0), query.size(2), log_sum ? (rows + 31) / 32 * 32 : 0},
                    query.options().dtype(at::kFloat)),
          seedLike(query, {}, at::kLong), seedLike(query, {}, at::kLong), c10::SymInt(rows), c10::SymInt(columns)};
}
std::tuple<Tensor, Tensor, Tensor, Tensor> efficientForwardBackward(
    const Tensor&, const Tensor& query, const Tensor& key, const Tensor& value, const OptTensor& bias, const Tensor&,
    const OptTensor&, const OptTensor&, c10::SymInt, c10::SymInt, const Tensor&, double, const Tensor&, const Tensor&,
    std::int64_t, bool bias_grad, std::optional<double>, std::optional<std::int64_t>, std::optional<std::int64_t>,
    bool shared) {
  TORCH_CHECK(!shared, "gradients in one storage have no shape function");
  TORCH_CHECK(!(bias && bias->defined() && bias_grad), "the gradient of an attention bias has no shape function");
  return {at::empty_like(query), at::empty_like(key), at::empty_like(value), Tensor()};
}

Tensor groupedMm(const Tensor& self, const Tensor& other, const OptTensor& offsets, const OptTensor&,
                 std::optional<c10::ScalarType> type) {
  const bool flat_self = self.dim() == 2;
  const bool flat_other = other.dim() == 2;
  const std::int64_t groups = offsets && offsets->defined() ? offsets->size(0) : 0;
  Sizes sizes;
  if (flat_self)
    sizes = flat_other ? Sizes{groups, self.size(0), other.size(1)} : Sizes{self.size(0), other.size(-1)};
  else
    sizes = flat_other ? Sizes{self.size(1), other.size(1)} : Sizes{self.size(0), self.size(1), other.size(-1)};
  return at::empty(sizes, self.options().dtype(type.value_or(self.scalar_type())));
}

/// Registers `kernel` unless libtorch has one: later versions may bring some.
template <typename Kernel>
void add(torch::Library& library, const char* name, Kernel kernel) {
  const std::string text = std::string("aten::") + name;
  const std::size_t dot = text.find('.');
  const auto handle = c10::Dispatcher::singleton().findSchema(
      {text.substr(0, dot), dot == std::string::npos ? std::string() : text.substr(dot + 1)});
  if (!handle || handle->hasKernelForDispatchKey(c10::DispatchKey::Meta)) return;
  library.impl(name, kernel);
}

}  // namespace

void registerMetaKernels() {
  registerPointwiseMetaKernels();
  static torch::Library* const library = [] {
    auto* l = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
    add(*l, "where.self", &whereSelf);
    add(*l, "where.self_out", &whereSelfOut);  // inside the softmax of attention on meta tensors
    add(*l, "logical_not", &logicalNot);
    add(*l, "relu", &relu);
    add(*l, "index_select", &indexSelect);
    add(*l, "embedding_dense_backward", &embeddingBackward);
    add(*l, "_index_put_impl_", &indexPut);
    add(*l, "flip", &flip);
    add(*l, "dot", &dot);
    add(*l, "vdot", &dot);
    add(*l, "max", &fullReduction);
    add(*l, "min", &fullReduction);
    add(*l, "histc", &histogram);
    add(*l, "polar", &polar);
    add(*l, "log_sigmoid_forward", &logSigmoid);
    add(*l, "log_sigmoid_backward", &logSigmoidBackward);
    add(*l, "glu_backward", &gluBackward);
    add(*l, "nll_loss2d_forward", &nllLoss2d);
    add(*l, "nll_loss2d_backward", &nllLoss2dBackward);
    add(*l, "native_layer_norm", &layerNorm);
    add(*l, "native_layer_norm_backward", &layerNormBackward);
    add(*l, "_fused_rms_norm_backward", &rmsNormBackward);
    add(*l, "native_group_norm_backward", &groupNormBackward);
    add(*l, "var.correction", &varCorrection);
    add(*l, "std.correction", &varCorrection);
    add(*l, "var_mean.correction", &varMeanCorrection);
    add(*l, "std_mean.correction", &varMeanCorrection);
    add(*l, "native_dropout", &dropout);
    add(*l, "native_dropout_backward", &dropoutBackward);
    add(*l, "linear_backward", &linearBackward);
    add(*l, "convolution", &convolution);
    add(*l, "convolution_backward", &convolutionBackward);
    add(*l, "_scaled_dot_product_flash_attention_for_cpu", &flashForCpu);
    add(*l, "_scaled_dot_product_flash_attention_for_cpu_backward", &flashForCpuBackward);
    add(*l, "_scaled_dot_product_flash_attention", &flash);
    add(*l, "_scaled_dot_product_flash_attention_backward", &flashBackward);
    add(*l, "_scaled_dot_product_cudnn_attention", &cudnn);
    add(*l, "_scaled_dot_product_cudnn_attention_backward", &cudnnBackward);
    add(*l, "_scaled_dot_product_efficient_attention", &efficient);
    add(*l, "_scaled_dot_product_efficient_attention_backward", &efficientBackward);
    add(*l, "_flash_attention_forward", &flashForward);
    add(*l, "_flash_attention_backward", &flashForwardBackward);
    add(*l, "_efficient_attention_forward", &efficientForward);
    add(*l, "_efficient_attention_backward", &efficientForwardBackward);
    add(*l, "_grouped_mm", &groupedMm);
    return l;
  }();
  (void)library;
}

}  // namespace spscope::exec
