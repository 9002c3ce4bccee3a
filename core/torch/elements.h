// SPDX-License-Identifier: Apache-2.0
// Going through a tensor's elements as doubles, a block at a time: no copy of it in float64 is ever whole. Of core/torch alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/torch/tensor_bag_impl.h"

namespace spscope::exec {

constexpr std::int64_t kElementBlock = 1 << 18;  // elements converted at a time

/// f(index, x) for every element, in row-major order.
template <typename F>
void forElements(const at::Tensor& t, F&& f) {
  const at::Tensor flat = t.contiguous().view({-1});
  for (std::int64_t first = 0; first < flat.numel(); first += kElementBlock) {
    const at::Tensor block = flat.narrow(0, first, std::min(kElementBlock, flat.numel() - first)).to(at::kDouble);
    const double* x = block.const_data_ptr<double>();
    for (std::int64_t i = 0; i < block.numel(); ++i) f(first + i, x[i]);
  }
}

/// f(index, x, y) for the elements of two tensors of one size.
template <typename F>
void forElements(const at::Tensor& a, const at::Tensor& b, F&& f) {
  const at::Tensor left = a.contiguous().view({-1}), right = b.contiguous().view({-1});
  for (std::int64_t first = 0; first < left.numel(); first += kElementBlock) {
    const std::int64_t count = std::min(kElementBlock, left.numel() - first);
    const at::Tensor x = left.narrow(0, first, count).to(at::kDouble), y = right.narrow(0, first, count).to(at::kDouble);
    const double* xs = x.const_data_ptr<double>();
    const double* ys = y.const_data_ptr<double>();
    for (std::int64_t i = 0; i < count; ++i) f(first + i, xs[i], ys[i]);
  }
}

/// Where the element with this number stands.
inline ir::Dims indexOf(std::int64_t flat, at::IntArrayRef shape) {
  ir::Dims out(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    out[d] = flat % shape[d];
    flat /= shape[d];
  }
  return out;
}

/// The bag's one tensor. Errors: tensor-missing; tensor-dtype where it is complex.
inline Result<at::Tensor> onlyTensor(const TensorBag& bag) {
  if (bag.size() != 1) return makeError("tensor-missing", "a bag of one tensor is wanted");
  const at::Tensor& t = bag.impl().tensors.front();
  if (t.is_complex()) return makeError("tensor-dtype", "%" + bag.impl().names.front() + " is complex");
  return t;
}

}  // namespace spscope::exec
