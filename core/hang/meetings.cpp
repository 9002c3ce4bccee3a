// SPDX-License-Identifier: Apache-2.0
#include "core/hang/meetings.h"

#include <algorithm>

#include "core/base/strings.h"

namespace spscope::hang {
namespace {

using io::RecordedOp;
using Shapes = std::vector<std::vector<std::int64_t>>;

std::string shapeText(const Shapes& shapes, const std::vector<std::string>& dtypes) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> out;
  for (std::size_t i = 0; i < shapes.size() && i < kMost; ++i)
    out.push_back("[" + join(shapes[i], ", ") + "]" + (i < dtypes.size() ? " " + dtypes[i] : ""));
  if (shapes.size() > kMost) out.push_back(strf("and %zu more", shapes.size() - kMost));
  return join(out, ", ");
}

std::string exact(const Shapes& shapes) {
  std::string out;
  for (const auto& s : shapes) out += "[" + join(s, ",") + "]";
  return out;
}

bool even(const Shapes& shapes) {
  return std::adjacent_find(shapes.begin(), shapes.end(), std::not_equal_to<>()) == shapes.end();
}

bool allToAll(const std::string& op) { return op.find("all_to_all") != std::string::npos || op.find("alltoall") != std::string::npos; }

std::int64_t elements(const Shapes& shapes) {
  std::int64_t sum = 0;
  for (const auto& shape : shapes) {
    std::int64_t n = 1;
    for (const std::int64_t d : shape)
      if (__builtin_mul_overflow(n, d, &n)) return -1;
    if (__builtin_add_overflow(sum, n, &sum)) return -1;
  }
  return sum;
}

}  // namespace

std::string Group::title() const {
  if (desc.empty() || desc == "undefined") return name;
  return desc == "default_pg" ? desc : name + " (" + desc + ")";
}

std::vector<Group> groupsOf(const std::vector<io::RecorderDump>& dumps) {
  // Groups made by split share a name and have other members; so both together are the key.
  std::map<std::pair<std::string, std::vector<int>>, Group> found;
  std::set<int> everybody, dumped;
  for (const auto& dump : dumps) {
    dumped.insert(dump.rank);
    for (const auto& [name, members] : dump.groups) everybody.insert(members.begin(), members.end());
  }
  everybody.insert(dumped.begin(), dumped.end());
  // Ranks are numbered without gaps: those between are missing. Where most would be, the numbers are something else.
  if (const auto last = everybody.empty() ? 0 : *everybody.rbegin(); static_cast<std::size_t>(last) < 2 * everybody.size())
    for (int r = 0; r < last; ++r) everybody.insert(r);
  bool default_found = false;
  for (const auto& dump : dumps)
    for (const RecordedOp& op : dump.ops) {
      const auto known = dump.groups.find(op.group);
      const std::vector<int> members = known == dump.groups.end() ? std::vector<int>() : known->second;
      Group& g = found[{op.group, members}];
      g.name = op.group;
      g.desc = op.group_desc;
      g.members = members;
      g.members_known = !members.empty();
      if (op.is_p2p) g.p2p[dump.rank].push_back(&op);
      else g.calls[dump.rank][op.seq].push_back(&op);
    }
  std::vector<Group> out;
  for (auto& [key, g] : found) {
    if (!g.members_known && g.desc == "default_pg" && !default_found) {
      g.members.assign(everybody.begin(), everybody.end());
      default_found = true;
    } else if (!g.members_known) {
      std::set<int> used;
      for (const auto& [rank, calls] : g.calls) used.insert(rank);
      for (const auto& [rank, calls] : g.p2p) used.insert(rank);
      g.members.assign(used.begin(), used.end());
    }
    for (const int r : g.members) (dumped.contains(r) ? g.present : g.without_dump).push_back(r);
    out.push_back(std::move(g));
  }
  return out;
}

bool completed(const Calls& calls) {
  return std::all_of(calls.begin(), calls.end(), [](const RecordedOp* op) { return op->completed; });
}

namespace {

/// Gloo's recorder knows that an op is over, not how it ended. One that needs every rank and ended without one has failed:
/// those dumps were taken after the time-out.
std::vector<int> endedTooEarly(const Group& group, const Meeting& m) {
  std::vector<int> out;
  for (const int r : m.came) {
    const RecordedOp& op = *group.calls.at(r).at(m.seq).front();
    const bool of_all = op.op.starts_with("all") || op.op.starts_with("_all") || op.op.find("reduce_scatter") != std::string::npos || op.op == "barrier";
    if (of_all && op.state != "completed" && op.completed_ns == 0) out.push_back(r);
  }
  return out;
}

}  // namespace

std::vector<Meeting> meetingsOf(const Group& group) {
  std::set<std::int64_t> numbers;
  for (const auto& [rank, calls] : group.calls)
    for (const auto& [seq, ops] : calls) numbers.insert(seq);
  std::vector<Meeting> out;
  for (const std::int64_t seq : numbers) {
    Meeting m;
    m.group = &group;
    m.seq = seq;
    for (const int rank : group.present) {
      const auto mine = group.calls.find(rank);
      if (mine == group.calls.end() || mine->second.empty() || mine->second.rbegin()->first < seq) m.absent.push_back(rank);
      else if (const auto at = mine->second.find(seq); at == mine->second.end()) m.forgotten.push_back(rank);
      else {
        m.came.push_back(rank);
        if (!completed(at->second)) m.inside.push_back(rank);
      }
    }
    if (!m.absent.empty() && m.inside.empty()) m.inside = endedTooEarly(group, m);
    out.push_back(std::move(m));
  }
  return out;
}

std::string opOf(const Calls& calls) {
  std::vector<std::string> names;
  for (const RecordedOp* op : calls) names.push_back(op->op);
  if (names.size() > 4) return names.front() + strf(" and %zu more, coalesced", names.size() - 1);
  return join(names, " + ");
}

std::string shapeOf(const Calls& calls) {
  std::vector<std::string> out;
  for (const RecordedOp* op : calls) {
    const std::string in = shapeText(op->input_sizes, op->input_dtypes), to = shapeText(op->output_sizes, op->output_dtypes);
    if (!in.empty() || !to.empty()) out.push_back(in == to || to.empty() ? in : in + " -> " + to);
    if (out.size() == 4) break;
  }
  return join(out, "; ");
}

Signature signatureOf(const Calls& calls) {
  Signature out;
  for (const RecordedOp* op : calls) {
    const std::string& name = op->op;
    const auto is = [&](std::string_view other) { return name == other; };
    // Uneven lists: each rank's own part is as large as its entry there.
    const bool inputs = !allToAll(name) && !is("scatter") && !is("all_gather_v") && !(is("all_gather") && !even(op->output_sizes));
    const bool outputs = !allToAll(name) && !is("gather") && !is("reduce_scatter_v") && !(is("reduce_scatter") && !even(op->input_sizes));
    out.op += name + ";";
    if (inputs) out.sizes += exact(op->input_sizes);
    if (outputs) out.sizes += ">" + exact(op->output_sizes);
    out.sizes += ";";
    // A kind once: a list of 30 tensors of one type is of that type.
    const auto kinds = [](const std::vector<std::string>& list) { return std::set<std::string>(list.begin(), list.end()); };
    if (!is("scatter") && !is("broadcast"))
      for (const std::string& d : kinds(op->input_dtypes)) out.dtypes += d + ",";
    if (!is("gather"))
      for (const std::string& d : kinds(op->output_dtypes)) out.dtypes += ">" + d;
    out.dtypes += ";";
  }
  return out;
}

std::pair<std::int64_t, std::int64_t> elementsOf(const Calls& calls) {
  std::int64_t in = 0, out = 0;
  for (const RecordedOp* op : calls) {
    const std::int64_t i = elements(op->input_sizes), o = elements(op->output_sizes);
    if (i < 0 || o < 0 || __builtin_add_overflow(in, i, &in) || __builtin_add_overflow(out, o, &out)) return {-1, -1};
  }
  return {in, out};
}

bool isAllToAll(const Calls& calls) { return !calls.empty() && allToAll(calls.front()->op); }

}  // namespace spscope::hang
