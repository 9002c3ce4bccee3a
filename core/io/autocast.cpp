// SPDX-License-Identifier: Apache-2.0
#include "core/io/autocast.h"

#include <string_view>
#include <unordered_map>

#include "core/ir/graph.h"

namespace spscope::io {
namespace {

using Table = std::unordered_map<std::string_view, CastPolicy>;

void fill(Table& table, CastPolicy policy, std::initializer_list<std::string_view> names) {
  for (const auto name : names) table.emplace(name, policy);
}

// Names without overload stand for every overload; where an overload is named, only that one.
const Table& cpuTable() {
  static const Table table = [] {
    Table t;
    // einsum and tensordot are composites of bmm, which the list holds.
    fill(t, CastPolicy::kLower,
         {"_addmm_activation", "_convolution.deprecated", "_native_multi_head_attention", "addbmm", "addmm", "baddbmm",
          "bmm", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d.input",
          "conv_transpose3d.input", "einsum", "linalg_vecdot", "linear", "matmul", "mkldnn_rnn_layer", "mm", "prelu",
          "scaled_dot_product_attention", "tensordot"});
    fill(t, CastPolicy::kFloat32,
         {"_grid_sampler_2d_cpu_fallback", "adaptive_avg_pool3d", "adaptive_max_pool3d", "avg_pool3d",
          "binary_cross_entropy", "binary_cross_entropy_with_logits", "cdist", "cosine_embedding_loss",
          "cross_entropy_loss", "ctc_loss", "fft_fft", "fft_fft2", "fft_fftn", "fft_hfft", "fft_ifft", "fft_ifft2",
          "fft_ifftn", "fft_ihfft", "fft_irfft", "fft_irfft2", "fft_irfftn", "fft_rfft", "fft_rfft2", "fft_rfftn",
          "fractional_max_pool2d", "fractional_max_pool3d", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d",
          "hinge_embedding_loss", "huber_loss", "inverse", "kl_div", "l1_loss", "linalg_cholesky", "linalg_inv",
          "linalg_qr", "linalg_solve", "linalg_svd", "margin_ranking_loss", "max_pool3d", "max_unpool2d",
          "max_unpool3d", "mse_loss", "multi_margin_loss", "multilabel_margin_loss", "nanquantile", "nll_loss",
          "nll_loss2d", "pinverse", "poisson_nll_loss", "polar", "prod", "quantile", "reflection_pad1d",
          "reflection_pad2d", "replication_pad1d", "replication_pad2d", "replication_pad3d", "smooth_l1_loss",
          "soft_margin_loss", "stft", "svd", "trace", "triangular_solve", "triplet_margin_loss", "view_as_complex"});
    fill(t, CastPolicy::kWidest, {"cat", "index_copy", "stack"});
    return t;
  }();
  return table;
}

const Table& cudaTable() {
  static const Table table = [] {
    Table t;
    fill(t, CastPolicy::kLower,
         {"_convolution", "_scaled_dot_product_flash_attention", "_thnn_fused_gru_cell", "_thnn_fused_lstm_cell",
          "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul", "conv1d", "conv2d", "conv3d",
          "conv_tbc", "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input", "convolution", "einsum",
          "gru_cell", "linalg_multi_dot", "linalg_vecdot", "linear", "lstm_cell", "matmul", "mm", "mv", "prelu",
          "rnn_relu_cell", "rnn_tanh_cell", "scaled_dot_product_attention"});
    // cross_entropy_loss is a composite of log_softmax and nll_loss, which the list holds.
    fill(t, CastPolicy::kFloat32,
         {"acos", "asin", "binary_cross_entropy_with_logits", "cdist", "cosh", "cosine_embedding_loss",
          "cosine_similarity", "cross_entropy_loss", "dist", "erfinv", "exp", "expm1", "frobenius_norm.dim",
          "group_norm", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "layer_norm", "log", "log10",
          "log1p", "log2", "logsumexp", "margin_ranking_loss", "mse_loss", "multi_margin_loss",
          "multilabel_margin_loss", "native_layer_norm", "nll_loss", "nll_loss2d", "norm.Scalar",
          "norm.ScalarOpt_dim", "nuclear_norm", "pdist", "poisson_nll_loss", "pow", "reciprocal", "renorm", "rms_norm",
          "rsqrt", "sinh", "smooth_l1_loss", "soft_margin_loss", "softplus", "tan", "triplet_margin_loss",
          "upsample_bicubic2d", "upsample_bilinear2d", "upsample_linear1d", "upsample_nearest1d",
          "upsample_nearest2d", "upsample_nearest3d", "upsample_trilinear3d"});
    fill(t, CastPolicy::kSoftmax, {"cumprod", "cumsum", "linalg_matrix_norm", "linalg_vector_norm", "log_softmax.int",
                                   "prod", "softmax.int", "sum"});
    fill(t, CastPolicy::kWidest, {"addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "grid_sampler",
                                  "index_put", "scatter_add", "tensordot", "vdot"});
    return t;
  }();
  return table;
}

}  // namespace

CastPolicy castPolicy(Symbol op, bool cuda) {
  const std::string& full = op.str();
  constexpr std::string_view kAten = "aten.";
  if (full.compare(0, kAten.size(), kAten) != 0) return CastPolicy::kNone;
  const Table& table = cuda ? cudaTable() : cpuTable();
  const std::string_view with_overload = std::string_view(full).substr(kAten.size());
  if (const auto it = table.find(with_overload); it != table.end()) return it->second;
  const auto it = table.find(ir::baseName(op));
  return it == table.end() ? CastPolicy::kNone : it->second;
}

}  // namespace spscope::io
