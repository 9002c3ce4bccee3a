// SPDX-License-Identifier: Apache-2.0
#include "profiler/import/collectives.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

namespace spscope::trace {
namespace {

/// Letters and digits, in lower case.
std::string squeezed(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c))) out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool startsWith(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

/// The longer words before the shorter ones that they begin with.
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kKinds{{
    {"allreduce", "all_reduce"},
    {"alltoall", "all_to_all"},
    {"allgather", "all_gather"},
    {"reducescatter", "reduce_scatter"},
    {"broadcast", "broadcast"},
    {"sendrecv", "send_recv"},
    {"batchisendirecv", "send_recv"},
    {"barrier", "barrier"},
    {"gather", "gather"},
    {"scatter", "scatter"},
    {"reduce", "reduce"},
    {"send", "send"},
    {"recv", "recv"},
}};

}  // namespace

std::string collectiveKind(std::string_view spelled) {
  const std::string word = squeezed(spelled);
  for (const auto& [prefix, kind] : kKinds)
    if (startsWith(word, prefix)) return std::string(kind);
  return std::string(spelled);
}

std::string collectiveOfKernel(std::string_view name) {
  // ncclKernel_, ncclDevKernel_, ncclSymkDevKernel_, ncclSymDevKernel_ ... then the kind.
  const auto kernel = name.find("Kernel_");
  if (kernel == std::string_view::npos) return {};
  const std::string word = squeezed(name.substr(kernel + 7));
  for (const auto& [prefix, kind] : kKinds)
    if (startsWith(word, prefix)) return std::string(kind);
  return {};
}

bool collectiveOfRange(std::string_view name, std::string_view* backend, std::string* kind) {
  const auto colon = name.find(':');
  if (colon == std::string_view::npos || name.substr(colon, 2) == "::") return false;
  const std::string_view prefix = name.substr(0, colon);
  if (prefix != "nccl" && prefix != "gloo" && prefix != "mpi" && prefix != "ucc" && prefix != "xccl" && prefix != "hccl") return false;
  std::string_view rest = name.substr(colon + 1);
  rest = rest.substr(0, rest.find(','));  // ", op_id = 7" of NVTX
  *backend = prefix;
  *kind = collectiveKind(rest);
  return true;
}

std::int64_t elementBytes(std::string_view dtype) {
  if (startsWith(dtype, "c10::")) dtype.remove_prefix(5);
  const std::string word = squeezed(dtype);
  if (startsWith(word, "float8") || word == "byte" || word == "char" || word == "bool" || word == "unsignedchar" || word == "signedchar" || word == "int8" || word == "uint8") return 1;
  if (word == "half" || word == "bfloat16" || word == "short" || word == "shortint" || word == "float16" || word == "int16" || word == "uint16") return 2;
  if (word == "float" || word == "int" || word == "float32" || word == "int32" || word == "uint32" || word == "complexhalf") return 4;
  if (word == "double" || word == "long" || word == "longint" || word == "float64" || word == "int64" || word == "uint64" || word == "complexfloat") return 8;
  if (word == "complexdouble") return 16;
  return 0;
}

std::int64_t ranksInList(std::string_view list, bool* cut) {
  std::int64_t count = 0;
  bool number = false;
  for (const char c : list) {
    const bool digit = c >= '0' && c <= '9';
    if (digit && !number) ++count;
    number = digit;
  }
  *cut = list.find("...") != std::string_view::npos || list.find("\xe2\x80\xa6") != std::string_view::npos ||
         (list.find('[') != std::string_view::npos && list.find(']') == std::string_view::npos);
  return count;
}

void addCollectives(Trace& trace, std::vector<FoundCollective> found, std::vector<FoundCollective> ranges) {
  Events& e = trace.events;
  const auto at = [](EventIndex i) { return static_cast<std::size_t>(i); };
  const auto rankOf = [&](EventIndex i) { return trace.tracks[static_cast<std::size_t>(e.track[at(i)])].rank; };
  const auto lacks = [](const CollectiveFacts& f) { return f.kind.empty() || f.kind == "send_recv" || f.bytes == kUnknown || f.sequence == kUnknown; };

  // The launches of the kernels that need them.
  struct KeyHash {
    std::size_t operator()(const std::pair<std::int32_t, std::int64_t>& k) const { return std::hash<std::uint64_t>()(static_cast<std::uint64_t>(k.second) * 31 + static_cast<std::uint64_t>(k.first)); }
  };
  std::unordered_map<std::pair<std::int32_t, std::int64_t>, EventIndex, KeyHash> launches;
  if (!ranges.empty()) {
    for (const FoundCollective& f : found)
      if (lacks(f.facts) && e.correlation[at(f.event)] != 0) launches[{rankOf(f.event), e.correlation[at(f.event)]}] = kNoIndex;
    if (!launches.empty())
      for (std::size_t i = 0; i < e.size(); ++i) {
        if (e.category[i] != Category::kRuntime || e.correlation[i] == 0) continue;
        const auto it = launches.find({rankOf(static_cast<EventIndex>(i)), e.correlation[i]});
        if (it != launches.end()) it->second = static_cast<EventIndex>(i);
      }
  }
  std::sort(ranges.begin(), ranges.end(), [&](const FoundCollective& a, const FoundCollective& b) {
    return std::tuple(e.track[at(a.event)], e.start[at(a.event)], a.event) < std::tuple(e.track[at(b.event)], e.start[at(b.event)], b.event);
  });
  const auto rangeAround = [&](EventIndex call) -> const FoundCollective* {
    const std::pair place(e.track[at(call)], e.start[at(call)]);
    auto it = std::upper_bound(ranges.begin(), ranges.end(), place, [&](const auto& p, const FoundCollective& r) {
      return p < std::pair(e.track[at(r.event)], e.start[at(r.event)]);
    });
    for (int steps = 0; it != ranges.begin() && steps < 64; ++steps) {  // they hardly nest
      --it;
      if (e.track[at(it->event)] != place.first) return nullptr;
      if (e.end[at(it->event)] >= place.second) return &*it;
    }
    return nullptr;
  };
  for (FoundCollective& f : found) {
    if (!lacks(f.facts)) continue;
    const auto it = launches.find({rankOf(f.event), e.correlation[at(f.event)]});
    const FoundCollective* range = it == launches.end() || it->second == kNoIndex ? nullptr : rangeAround(it->second);
    if (range == nullptr) continue;
    const CollectiveFacts& r = range->facts;
    // A group of sends and receives is one kernel: only the range says that it is an all-to-all.
    if (f.facts.kind.empty() || (f.facts.kind == "send_recv" && !r.kind.empty())) f.facts.kind = r.kind;
    if (f.facts.bytes == kUnknown) f.facts.bytes = r.bytes;
    if (f.facts.group.empty()) f.facts.group = r.group;
    if (f.facts.sequence == kUnknown) f.facts.sequence = r.sequence;
    if (f.facts.group_size == kUnknown) f.facts.group_size = r.group_size, f.facts.group_size_at_least = r.group_size_at_least;
  }

  std::sort(found.begin(), found.end(), [&](const FoundCollective& a, const FoundCollective& b) {
    return std::pair(e.start[at(a.event)], a.event) < std::pair(e.start[at(b.event)], b.event);
  });
  struct Group {
    bool numbered = false;
    std::set<TrackIndex> tracks;
    std::int64_t next = 0;
  };
  std::map<std::pair<std::int32_t, std::string>, Group> groups;
  for (const FoundCollective& f : found) {
    Group& group = groups[{rankOf(f.event), f.facts.group}];
    group.numbered = group.numbered || f.facts.sequence != kUnknown;
    group.tracks.insert(e.track[at(f.event)]);
  }
  for (const FoundCollective& f : found) {
    Group& group = groups[{rankOf(f.event), f.facts.group}];
    const bool counted = !group.numbered && (!f.facts.group.empty() || group.tracks.size() == 1);
    trace.collectives.push_back({.kind = trace.strings.intern(f.facts.kind), .group = trace.strings.intern(f.facts.group),
                                 .sequence = counted ? group.next++ : f.facts.sequence, .sequence_by_order = counted,
                                 .bytes = f.facts.bytes, .group_size = f.facts.group_size,
                                 .group_size_at_least = f.facts.group_size_at_least, .rank = rankOf(f.event), .event = f.event});
    if (f.facts.bytes != kUnknown) e.bytes[at(f.event)] = f.facts.bytes;
  }
}

}  // namespace spscope::trace
