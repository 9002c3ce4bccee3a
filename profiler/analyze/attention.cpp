// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/attention.h"

#include <algorithm>
#include <array>
#include <map>

#include "profiler/analyze/nodes.h"

namespace spscope::trace {
namespace {

bool isAttention(std::string_view op) { return op.find("attention") != std::string_view::npos; }

std::vector<AttentionKernel> longestFirst(const std::map<StringId, AttentionKernel>& sums) {
  std::vector<AttentionKernel> out;
  for (const auto& entry : sums) out.push_back(entry.second);
  std::stable_sort(out.begin(), out.end(), [](const AttentionKernel& a, const AttentionKernel& b) { return a.total_ns > b.total_ns; });
  return out;
}

}  // namespace

std::vector<AttentionNode> attentionKernels(const Trace& trace) {
  std::vector<AttentionNode> out;
  std::vector<bool> wanted(trace.nodes.size(), false);
  for (std::size_t i = 0; i < trace.nodes.size(); ++i) wanted[i] = isAttention(trace.strings.text(trace.nodes[i].op));
  if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) return out;

  const Attribution cause = attribute(trace);
  std::map<NodeIndex, std::array<std::map<StringId, AttentionKernel>, 2>> sums;  // [1]: on a device
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const NodeIndex node = cause.node[i];
    const Category category = trace.events.category[i];
    if (node == kNoIndex || !wanted[static_cast<std::size_t>(node)]) continue;
    if (category != Category::kKernel && category != Category::kOperator) continue;
    AttentionKernel& kernel = sums[node][category == Category::kKernel ? 1 : 0][trace.events.name[i]];
    kernel.name = trace.events.name[i];
    kernel.total_ns += trace.events.end[i] - trace.events.start[i];
    ++kernel.count;
  }
  for (const auto& [node, places] : sums) {
    const bool on_device = !places[1].empty();
    out.push_back({node, on_device, longestFirst(places[on_device ? 1 : 0])});
  }
  return out;
}

}  // namespace spscope::trace
