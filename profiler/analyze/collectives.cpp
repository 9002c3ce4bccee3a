// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/collectives.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>

#include "core/base/strings.h"

namespace spscope::trace {
namespace {

/// "_allgather_base", "all-gather", "AllGather": "allgather".
std::string plainKind(std::string_view kind) {
  std::string out;
  for (const char c : kind)
    if (std::isalpha(static_cast<unsigned char>(c))) out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string whyNot(const Trace& trace, const MatchedCollective& c, std::int64_t expected, bool comparable, const std::string& why) {
  if (c.sequence == kUnknown) return "it bears no sequence number";
  for (const CollectivePart& part : c.parts)
    if (trace.collectives[static_cast<std::size_t>(part.index)].kind != c.kind) return "the ranks do different things under this sequence number";
  if (c.group_size == kUnknown)
    for (const Rank& rank : trace.ranks)
      if (rank.world != kUnknown && rank.world > static_cast<std::int64_t>(trace.ranks.size()))
        return strf("the size of its group is not recorded, and %zu of %lld ranks are in the trace", trace.ranks.size(), static_cast<long long>(rank.world));
  for (std::size_t i = 1; i < c.parts.size(); ++i)
    if (c.parts[i].rank == c.parts[i - 1].rank) return "a rank has this sequence number twice";
  for (const CollectivePart& part : c.parts) {
    const Collective& mine = trace.collectives[static_cast<std::size_t>(part.index)];
    if (mine.group_size != kUnknown && !mine.group_size_at_least && !c.group_size_at_least && mine.group_size != c.group_size)
      return "the ranks disagree on the size of its group";
    const std::int64_t number = trace.ranks[static_cast<std::size_t>(part.rank)].number;
    for (const CollectivePart& other : c.parts)
      if (number != kUnknown && other.rank < part.rank && trace.ranks[static_cast<std::size_t>(other.rank)].number == number)
        return strf("rank %lld is in the trace twice", static_cast<long long>(number));
  }
  const auto seen = static_cast<std::int64_t>(c.parts.size());
  if (c.group_size_at_least && seen >= expected) return strf("its group has at least %lld ranks", static_cast<long long>(expected));
  if (seen > expected) return strf("more ranks than the group of %lld has", static_cast<long long>(expected));
  if (seen < expected)
    return strf("%lld of %lld ranks are in the trace", static_cast<long long>(seen), static_cast<long long>(expected));
  if (seen > 1 && !comparable) return why.empty() ? "the ranks are not on one clock" : why;
  return {};
}

void split(MatchedCollective& c) {
  const auto later = [](const CollectivePart& a, const CollectivePart& b) { return a.start_ns < b.start_ns; };
  const auto first = std::min_element(c.parts.begin(), c.parts.end(), later);
  const auto last = std::max_element(c.parts.begin(), c.parts.end(), later);
  c.last_arrival_ns = last->start_ns;
  c.spread_ns = last->start_ns - first->start_ns;
  if (c.parts.size() > 1) c.last_rank = last->rank;
  for (CollectivePart& part : c.parts) {
    // A rank that had left before another arrived did not wait for it (a broadcast's root; a remainder of skew).
    part.wait_ns = std::min(c.last_arrival_ns, part.end_ns) - part.start_ns;
    part.transfer_ns = part.end_ns - part.start_ns - part.wait_ns;
  }
}

void measure(MatchedCollective& c, const std::string& kind) {
  if (c.bytes == kUnknown || c.group_size == kUnknown || c.group_size_at_least) return;
  std::int64_t ns = c.why_not.empty() ? 0 : std::numeric_limits<std::int64_t>::max();
  for (const CollectivePart& part : c.parts)
    ns = c.why_not.empty() ? std::max(ns, part.transfer_ns) : std::min(ns, part.end_ns - part.start_ns);
  if (ns <= 0) return;
  const BusFactor factor = busFactor(kind, c.group_size);
  c.bus_gbps = static_cast<double>(c.bytes) * factor.bytes / static_cast<double>(ns) * factor.bandwidth;
}

}  // namespace

std::set<StringId> miscountedGroups(const Trace& trace) {
  std::map<StringId, std::map<std::int32_t, std::map<std::int64_t, StringId>>> groups;  // group, rank, number: kind
  for (const Collective& c : trace.collectives)
    if (c.sequence_by_order && c.event != kNoIndex) groups[c.group][c.rank][c.sequence] = c.kind;
  std::set<StringId> out;
  for (const auto& [group, ranks] : groups)
    for (const auto& [rank, kinds] : ranks)
      if (kinds != ranks.begin()->second) out.insert(group);
  return out;
}

BusFactor busFactor(std::string_view kind, std::int64_t ranks) {
  const std::string k = plainKind(kind);
  const auto n = static_cast<double>(ranks);
  const auto is = [&](const char* what) { return k.find(what) != std::string::npos; };
  if (ranks < 1) return {};
  if (is("allreduce")) return {1, 2 * (n - 1) / n};
  if (is("allgather")) return {n, (n - 1) / n};
  if (is("reducescatter") || is("alltoall")) return {1, (n - 1) / n};
  return {};
}

std::vector<MatchedCollective> matchCollectives(const Trace& trace, bool comparable, const std::string& why) {
  const Events& e = trace.events;
  const std::set<StringId> miscounted = miscountedGroups(trace);
  std::vector<std::int32_t> order;
  std::map<StringId, std::vector<bool>> ranks_of_group;  // who takes part where a group's size is not recorded
  for (std::size_t i = 0; i < trace.collectives.size(); ++i) {
    const Collective& c = trace.collectives[i];
    if (c.event == kNoIndex) continue;
    order.push_back(static_cast<std::int32_t>(i));
    auto& ranks = ranks_of_group[c.group];
    ranks.resize(trace.ranks.size(), false);
    ranks[static_cast<std::size_t>(c.rank)] = true;
  }
  const auto at = [&](std::int32_t i) -> const Collective& { return trace.collectives[static_cast<std::size_t>(i)]; };
  std::sort(order.begin(), order.end(), [&](std::int32_t i, std::int32_t j) {
    const Collective &a = at(i), &b = at(j);
    if (a.group != b.group) return a.group < b.group;
    if (a.sequence != b.sequence) return a.sequence < b.sequence;
    return a.rank != b.rank ? a.rank < b.rank : i < j;
  });
  std::vector<MatchedCollective> out;
  for (std::size_t i = 0; i < order.size();) {
    const Collective& first = at(order[i]);
    MatchedCollective c;
    c.kind = first.kind, c.group = first.group, c.sequence = first.sequence;
    c.bytes = first.bytes;
    do {
      const Collective& part = at(order[i]);
      const auto event = static_cast<std::size_t>(part.event);
      c.bytes = part.bytes == kUnknown || c.bytes == kUnknown ? kUnknown : std::max(c.bytes, part.bytes);
      c.group_size = std::max(c.group_size, part.group_size);
      c.group_size_at_least |= part.group_size_at_least;
      CollectivePart mine{.index = order[i], .rank = part.rank, .start_ns = e.start[event], .end_ns = e.end[event]};
      if (part.wait != kNoIndex) {
        const auto wait = static_cast<std::size_t>(part.wait);
        mine.blocked_ns = e.end[wait] - e.start[wait];
      }
      c.parts.push_back(mine);
      ++i;
    } while (i < order.size() && c.sequence != kUnknown && at(order[i]).group == c.group && at(order[i]).sequence == c.sequence);
    const auto& ranks = ranks_of_group[c.group];
    const std::int64_t expected = c.group_size != kUnknown ? c.group_size : std::count(ranks.begin(), ranks.end(), true);
    c.why_not = whyNot(trace, c, expected, comparable, why);
    if (c.why_not.empty() && miscounted.contains(c.group)) c.why_not = "it bears no sequence number, and the ranks do not count alike";
    if (c.why_not.empty()) split(c);
    measure(c, std::string(trace.strings.text(c.kind)));
    out.push_back(std::move(c));
  }
  const auto start = [](const MatchedCollective& c) {
    std::int64_t least = c.parts.front().start_ns;
    for (const CollectivePart& part : c.parts) least = std::min(least, part.start_ns);
    return least;
  };
  std::vector<std::pair<std::int64_t, std::size_t>> by_start;
  for (std::size_t i = 0; i < out.size(); ++i) by_start.emplace_back(start(out[i]), i);
  std::sort(by_start.begin(), by_start.end());
  std::vector<MatchedCollective> sorted;
  sorted.reserve(out.size());
  for (const auto& [ns, i] : by_start) sorted.push_back(std::move(out[i]));
  return sorted;
}

std::vector<Straggler> stragglers(const std::vector<MatchedCollective>& collectives) {
  std::map<std::int32_t, Straggler> by_rank;
  for (const MatchedCollective& c : collectives) {
    if (c.last_rank == kNoIndex) continue;
    std::int64_t before_last = std::numeric_limits<std::int64_t>::min();
    for (const CollectivePart& part : c.parts)
      if (part.rank != c.last_rank) before_last = std::max(before_last, part.start_ns);
    for (const CollectivePart& part : c.parts) {
      Straggler& rank = by_rank[part.rank];
      rank.rank = part.rank;
      ++rank.collectives;
      rank.own_wait_ns += part.wait_ns;
      Straggler& last = by_rank[c.last_rank];
      last.rank = c.last_rank;
      if (part.rank != c.last_rank) last.caused_wait_ns += part.wait_ns;
      else ++last.last, last.margin_ns += c.last_arrival_ns - before_last;
    }
  }
  std::vector<Straggler> out;
  for (const auto& [rank, straggler] : by_rank) out.push_back(straggler);
  std::stable_sort(out.begin(), out.end(), [](const Straggler& a, const Straggler& b) { return a.caused_wait_ns > b.caused_wait_ns; });
  return out;
}

std::vector<CollectiveTotal> collectiveTotals(const Trace& trace, const std::vector<MatchedCollective>& collectives) {
  std::map<std::pair<StringId, StringId>, CollectiveTotal> totals;
  std::map<std::pair<StringId, StringId>, std::vector<double>> rates;
  for (const MatchedCollective& c : collectives) {
    CollectiveTotal& total = totals[{c.kind, c.group}];
    total.kind = c.kind, total.group = c.group;
    ++total.count;
    if (c.bus_gbps) rates[{c.kind, c.group}].push_back(*c.bus_gbps);
    for (const CollectivePart& part : c.parts) {
      ++total.parts;
      total.duration_ns += part.end_ns - part.start_ns;
      const std::int64_t bytes = trace.collectives[static_cast<std::size_t>(part.index)].bytes;
      if (bytes == kUnknown) ++total.bytes_unknown;
      else total.bytes += bytes;
      if (part.wait_ns == kUnknown) continue;
      ++total.judged;
      total.wait_ns += part.wait_ns;
      total.transfer_ns += part.transfer_ns;
    }
  }
  std::vector<CollectiveTotal> out;
  for (auto& [key, total] : totals) {
    if (auto& all = rates[key]; !all.empty()) {
      const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
      std::nth_element(all.begin(), middle, all.end());
      total.bus_gbps = *middle;
    }
    out.push_back(total);
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.duration_ns > b.duration_ns; });
  return out;
}

}  // namespace spscope::trace
