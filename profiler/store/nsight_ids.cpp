// SPDX-License-Identifier: Apache-2.0
#include "profiler/store/nsight_ids.h"

#include <algorithm>
#include <set>

namespace spscope::trace {
namespace {

constexpr std::int64_t kMachine = std::int64_t{1} << 48;
constexpr std::int64_t kLimit = std::int64_t{1} << 24;

/// Its own number where that fits and is free, the next free one otherwise.
class Numbers {
 public:
  std::int64_t take(std::int64_t wanted) {
    if (wanted > 0 && wanted < kLimit && used_.insert(wanted).second) return wanted;
    while (!used_.insert(next_ % kLimit).second && next_ < 2 * kLimit) ++next_;
    return next_++ % kLimit;
  }

 private:
  std::set<std::int64_t> used_;
  std::int64_t next_ = 1;
};

std::int64_t pidOf(const Trace& trace, std::size_t rank) {
  if (rank < trace.ranks.size() && trace.ranks[rank].pid != kUnknown) return trace.ranks[rank].pid;
  for (const Track& t : trace.tracks)
    if (static_cast<std::size_t>(t.rank) == rank && t.kind == TrackKind::kThread && t.pid != kUnknown) return t.pid;
  return kUnknown;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

NsightIds nsightIds(const Trace& trace) {
  NsightIds out;
  Numbers processes;
  std::size_t ranks = trace.ranks.size();
  for (const Track& t : trace.tracks) ranks = std::max(ranks, static_cast<std::size_t>(t.rank) + 1);
  for (std::size_t r = 0; r < ranks; ++r) out.process.push_back(kMachine | processes.take(pidOf(trace, r)) << 24);
  out.thread.resize(trace.tracks.size());
  std::vector<Numbers> threads(ranks);
  for (const bool real : {true, false})  // threads first: they keep their numbers
    for (std::size_t i = 0; i < trace.tracks.size(); ++i) {
      const Track& t = trace.tracks[i];
      if ((t.kind == TrackKind::kThread) != real) continue;
      const auto rank = static_cast<std::size_t>(t.rank);
      out.thread[i] = out.process[rank] | threads[rank].take(real ? t.tid : kUnknown);
    }
  return out;
}

std::string shortKernelName(std::string_view name) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  std::string plain;  // without template arguments and parameters
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i, kAnonymous.size()) == kAnonymous) {
      i += kAnonymous.size() - 1;
      if (depth == 0) plain += '_';
      continue;
    }
    const char c = name[i];
    if (c == '<') ++depth;
    else if (c == '>' && depth > 0) --depth;
    else if (depth == 0 && c == '(') break;
    else if (depth == 0) plain += c;
  }
  while (!plain.empty() && plain.back() == ' ') plain.pop_back();
  if (const auto colons = plain.rfind("::"); colons != std::string::npos) plain.erase(0, colons + 2);
  if (const auto space = plain.rfind(' '); space != std::string::npos) plain.erase(0, space + 1);
  return plain.empty() || depth != 0 ? std::string(name) : plain;
}

bool isDriverCall(std::string_view name) { return name.size() > 2 && name.substr(0, 2) == "cu" && name[2] >= 'A' && name[2] <= 'Z'; }

int syncTypeOf(std::string_view name) {
  if (contains(name, "Wait")) return 2;
  if (contains(name, "Event")) return 1;
  if (contains(name, "Stream")) return 3;
  if (contains(name, "Context") || contains(name, "Device")) return 4;
  return 0;
}

}  // namespace spscope::trace
