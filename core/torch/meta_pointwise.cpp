// SPDX-License-Identifier: Apache-2.0
// Meta kernels of element-wise ops, as one boxed function: broadcast shape, the memory order that libtorch's iterator
// chooses, and a rule for the type. Plus a few shape functions that are no more than a line.
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>
#include <torch/library.h>

#include <algorithm>

#include "core/torch/meta_kernels.h"

namespace spscope::exec {
namespace {

using at::Tensor;
using c10::IValue;

enum class Result : std::uint8_t { kPromoted, kFirst, kReal, kBool, kLong };

c10::ScalarType typeOf(Result rule, const std::vector<Tensor>& operands) {
  switch (rule) {
    case Result::kFirst: return operands[0].scalar_type();
    case Result::kReal: return c10::toRealValueType(operands[0].scalar_type());
    case Result::kBool: return c10::kBool;
    case Result::kLong: return c10::kLong;
    case Result::kPromoted: break;
  }
  return operands.size() > 1 ? at::result_type(operands[0], operands[1]) : operands[0].scalar_type();
}

Tensor broadcast(const std::vector<Tensor>& operands, c10::ScalarType type) {
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).allow_cpu_scalars(true).declare_static_dtype(type).declare_static_device(c10::kMeta);
  const Tensor out;
  config.add_output(out);
  for (const Tensor& operand : operands) config.add_const_input(operand);
  return config.build().output();
}

/// Element-wise over all tensor arguments; as many results as the schema has, all alike.
template <Result kRule>
void pointwise(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  std::vector<Tensor> operands, outs;
  const std::size_t first = stack->size() - schema.arguments().size();
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const IValue& value = (*stack)[first + i];
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const auto* alias = schema.arguments()[i].alias_info();
    (alias && alias->isWrite() ? outs : operands).push_back(value.toTensor());
  }
  TORCH_CHECK(!operands.empty(), op.schema().name(), ": no operand");
  const Tensor result = broadcast(operands, typeOf(kRule, operands));
  torch::jit::drop(*stack, schema.arguments().size());
  for (Tensor& out : outs) {
    if (out.sizes() != result.sizes()) {
      out.resize_(result.sizes());
      out.as_strided_(result.sizes(), result.strides());
    }
    stack->emplace_back(out);
  }
  for (std::size_t i = outs.size(); i < schema.returns().size(); ++i)
    stack->emplace_back(i == 0 ? result : at::empty_like(result));
}

template <Result kRule>
void add(torch::Library& library, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const std::string text = std::string("aten::") + name;
    const std::size_t dot = text.find('.');
    const auto handle = c10::Dispatcher::singleton().findSchema(
        {text.substr(0, dot), dot == std::string::npos ? std::string() : text.substr(dot + 1)});
    if (!handle || handle->hasKernelForDispatchKey(c10::DispatchKey::Meta)) continue;
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&pointwise<kRule>>());
  }
}

template <typename Kernel>
void addOne(torch::Library& library, const char* name, Kernel kernel) {
  const auto handle = c10::Dispatcher::singleton().findSchema({std::string("aten::") + name, ""});
  if (handle && !handle->hasKernelForDispatchKey(c10::DispatchKey::Meta)) library.impl(name, kernel);
}

Tensor roll(const Tensor& self, c10::SymIntArrayRef, at::IntArrayRef) { return at::empty(self.sizes(), self.options()); }
Tensor take(const Tensor& self, const Tensor& index) { return at::empty(index.sizes(), self.options()); }
Tensor trace(const Tensor& self) {
  return at::empty({}, c10::isIntegralType(self.scalar_type(), true) ? self.options().dtype(c10::kLong) : self.options());
}
Tensor product(const Tensor& self, std::optional<c10::ScalarType> type) {
  const bool integral = c10::isIntegralType(self.scalar_type(), true);
  return at::empty({}, self.options().dtype(type.value_or(integral ? c10::kLong : self.scalar_type())));
}
Tensor triangle(std::int64_t rows, std::int64_t columns, std::int64_t offset, bool lower,
                std::optional<c10::ScalarType> type) {
  std::int64_t count = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t below = std::clamp<std::int64_t>(r + offset + (lower ? 1 : 0), 0, columns);
    count += lower ? below : columns - below;
  }
  return at::empty({2, count}, at::TensorOptions().device(c10::kMeta).dtype(type.value_or(c10::kLong)));
}
Tensor lowerIndices(std::int64_t rows, std::int64_t columns, std::int64_t offset, std::optional<c10::ScalarType> type,
                    std::optional<c10::Layout>, std::optional<c10::Device>, std::optional<bool>) {
  return triangle(rows, columns, offset, true, type);
}
Tensor upperIndices(std::int64_t rows, std::int64_t columns, std::int64_t offset, std::optional<c10::ScalarType> type,
                    std::optional<c10::Layout>, std::optional<c10::Device>, std::optional<bool>) {
  return triangle(rows, columns, offset, false, type);
}
Tensor unfoldBackward(const Tensor& grad, c10::SymIntArrayRef sizes, std::int64_t, std::int64_t, std::int64_t) {
  std::vector<std::int64_t> concrete;
  for (const c10::SymInt& size : sizes) concrete.push_back(size.expect_int());
  return at::empty(concrete, grad.options());
}
Tensor maskedSoftmax(const Tensor& self, const Tensor&, std::optional<std::int64_t>, std::optional<std::int64_t>) {
  return at::empty_like(self, at::MemoryFormat::Contiguous);
}

}  // namespace

void registerPointwiseMetaKernels() {
  static torch::Library* const library = [] {
    auto* l = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
    add<Result::kPromoted>(*l, {"floor_divide", "floor_divide.out", "rsub.Tensor", "remainder.Scalar_Tensor"});
    add<Result::kFirst>(*l, {"hardswish", "hardswish.out", "hardswish_backward", "hardtanh", "hardtanh.out",
                             "hardtanh_backward", "hardtanh_backward.grad_input", "log_sigmoid_backward",
                             "logit", "logit.out", "conj_physical.out", "nan_to_num.out", "mse_loss_backward",
                             "mse_loss_backward.grad_input", "smooth_l1_loss_backward.grad_input",
                             "huber_loss_backward.out", "binary_cross_entropy_backward", "bernoulli.out"});
    add<Result::kReal>(*l, {"abs.out", "angle", "angle.out"});
    add<Result::kBool>(*l, {"isnan", "logical_and.out", "logical_or.out", "logical_xor.out", "logical_not.out"});
    addOne(*l, "roll", &roll);
    addOne(*l, "take", &take);
    addOne(*l, "trace", &trace);
    addOne(*l, "prod", &product);
    addOne(*l, "tril_indices", &lowerIndices);
    addOne(*l, "triu_indices", &upperIndices);
    addOne(*l, "unfold_backward", &unfoldBackward);
    addOne(*l, "_masked_softmax", &maskedSoftmax);
    return l;
  }();
  (void)library;
}

}  // namespace spscope::exec
