// SPDX-License-Identifier: Apache-2.0
// Attention whose mask is a rule, on the CPU: libtorch's flash kernel over blocks of queries and runs of keys.
//
// For each block of queries the keys fall into runs that all of them see (no mask is made), that some see (a mask of
// kMaskStep x kMaskStep elements is made from the vectors), and that none sees (skipped: documents and windows save the time,
// too). Smallest and largest number of each block decide that, so no S x S elements are ever looked at one by one where
// whole blocks agree. Results of several runs are joined by their log-sum-exp. A query that sees no key gives zeros.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace spscope::exec {

/// [B, H, Q, Dv] and the log-sum-exp of each row [B, H, Q] (0 where no key is seen). `key` and `value` may have fewer heads.
std::tuple<at::Tensor, at::Tensor> maskedAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, at::TensorList rows,
                                                   at::TensorList columns, at::IntArrayRef rule, std::optional<double> scale);
/// Gradients of query, key and value.
std::tuple<at::Tensor, at::Tensor, at::Tensor> maskedAttentionBackward(const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key,
                                                                       const at::Tensor& value, const at::Tensor& out, const at::Tensor& sums,
                                                                       at::TensorList rows, at::TensorList columns, at::IntArrayRef rule,
                                                                       std::optional<double> scale);

}  // namespace spscope::exec
