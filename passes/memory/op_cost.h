// SPDX-License-Identifier: Apache-2.0
// What running a node again would cost: floating-point operations of contractions and attention, bytes moved by the
// rest, and both as nanoseconds at nominal rates. Only ratios between nodes matter here: the price of recomputation is
// searched, so the rates decide which of two nodes is re-run first, never how much is re-run in all.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/ir/graph.h"

namespace spscope::passes {

struct Settings;  // passes/pass.h

struct OpCost {
  std::int64_t flops = 0;  ///< 2MNK of a contraction, 4BHSqSkD of attention; 0 for others
  std::int64_t bytes = 0;  ///< operands read + results written, each expanded operand by its storage; 0 for views
  std::int64_t ns = 0;     ///< flops / rate + bytes / bandwidth, at least 1 for what is not a view
  bool matmul = false;     ///< a contraction (mm, bmm, addmm, baddbmm, linear, matmul, _grouped_mm)
};

/// Nominal rates: cpu 100 GFLOP/s and 10 GB/s (a few cores), cuda 400 TFLOP/s and 2 TB/s (an H100-class card in bf16).
struct DeviceRates {
  double flops_per_ns = 100;
  double bytes_per_ns = 10;
};
DeviceRates nominalRates(std::string_view device);
/// Those that were measured, where there are any; nominal otherwise.
DeviceRates ratesOf(const Settings& settings);

bool isMatmul(Symbol op);
bool isConvolution(Symbol op);

/// Cost on Graph::rank, from local shapes. A node all of whose results share an operand's storage is a view and free.
OpCost costOf(const ir::Graph& graph, const ir::Node& node, const DeviceRates& rates);

}  // namespace spscope::passes
