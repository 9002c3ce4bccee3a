// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/compare.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "profiler/analyze/nodes.h"
#include "profiler/analyze/statistics.h"

namespace spscope::trace {
namespace {

struct Sum {
  std::int64_t ns = 0, count = 0;
};
using Sums = std::map<std::pair<std::string, std::string>, Sum>;  // (kind, name)

Sums sumsOf(const Trace& trace, bool by_node) {
  const WorkMap map = classifyWork(trace);
  Sums sums;
  const auto add = [&](std::string kind, std::string name, std::int64_t ns, std::int64_t count) {
    Sum& sum = sums[{std::move(kind), std::move(name)}];
    sum.ns += ns, sum.count += count;
  };
  if (by_node)
    for (const NodeTime& row : timeByNode(trace, map))
      if (row.node != kNoIndex) add("node", std::string(trace.strings.text(row.name)), row.total_ns, row.count);
  for (const NameTotal& total : totalsByName(trace, map)) {
    const bool host = total.category == Category::kOperator || total.category == Category::kCollective || total.category == Category::kWait;
    if (isDeviceWork(total.category) || (host && !by_node))
      add(std::string(nameOf(total.category)), std::string(trace.strings.text(total.name)), total.total_ns, total.statistics.count);
  }
  return sums;
}

std::int64_t weight(const ComparedRow& row) { // Of all executions: a kernel that runs often weighs more than a rare one with the same change.
  return std::abs(row.changeNs()) * (row.counts_differ ? std::min(*row.a_count, *row.b_count) : 1); }

}  // namespace

Comparison compareTraces(const Trace& a, const Trace& b) {
  const bool by_node = !a.nodes.empty() && !b.nodes.empty();
  const Sums in_a = sumsOf(a, by_node), in_b = sumsOf(b, by_node);
  Comparison out;
  for (const auto& [key, sum] : in_a) {
    ComparedRow row{.name = key.second, .kind = key.first, .a_ns = sum.ns, .b_ns = {}, .a_count = sum.count, .b_count = {}};
    const auto other = in_b.find(key);
    if (other == in_b.end()) {
      out.removed.push_back(std::move(row));
      continue;
    }
    row.b_ns = other->second.ns, row.b_count = other->second.count;
    row.counts_differ = *row.a_count != *row.b_count;
    out.counts_differ += row.counts_differ;
    if (*row.a_ns == *row.b_ns && *row.a_count == *row.b_count) ++out.same;
    else out.changed.push_back(std::move(row));
  }
  for (const auto& [key, sum] : in_b)
    if (!in_a.contains(key))
      out.added.push_back({.name = key.second, .kind = key.first, .a_ns = {}, .b_ns = sum.ns, .a_count = {}, .b_count = sum.count});
  for (auto* rows : {&out.added, &out.removed, &out.changed})
    std::stable_sort(rows->begin(), rows->end(), [](const ComparedRow& x, const ComparedRow& y) { return weight(x) > weight(y); });
  return out;
}

}  // namespace spscope::trace
