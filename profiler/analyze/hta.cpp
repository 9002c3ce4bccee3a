// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/hta.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "profiler/analyze/intervals.h"
#include "profiler/analyze/launches.h"
#include "profiler/analyze/queue.h"
#include "profiler/analyze/work.h"

namespace spscope::trace {
namespace {

enum class Class : std::uint8_t { kUnset, kCompute, kCommunication, kOther };

Class classOf(std::string_view name) {
  const auto begins = [&](std::initializer_list<std::string_view> with) {
    return std::any_of(with.begin(), with.end(), [&](std::string_view w) { return name.starts_with(w); });
  };
  const auto holds = [&](std::string_view what) { return name.find(what) != std::string_view::npos; };
  if (begins({"nccl", "hip", "hccl"}) || holds("ncclKernel")) return Class::kCommunication;
  if (begins({"Memcpy", "Memset", "dma"})) return Class::kOther;
  if (holds("Memcpy") || holds("Memset") || holds("dma") || holds("Sync")) return Class::kOther;
  if (name.starts_with("cuda") && holds("LaunchKernel")) return Class::kOther;
  if (begins({"Stream Wait Event", "runFunction", "job_exe", "packet", "pe_exe", "cpum_exe_subgraph",
              "collective_subgraph_execution"}))
    return Class::kOther;
  return Class::kCompute;
}

/// Microseconds as the file has them: a double, where it has decimals.
double microseconds(std::int64_t ns) {
  const std::int64_t whole = ns / 1000;
  return static_cast<double>(whole) + static_cast<double>(ns % 1000) / 1000.0;
}

class Rounded {
 public:
  explicit Rounded(const Trace& trace) : trace_(trace) {}
  Interval of(EventIndex event) const {
    const auto i = static_cast<std::size_t>(event);
    const Rank& rank = trace_.ranks[static_cast<std::size_t>(trace_.tracks[static_cast<std::size_t>(trace_.events.track[i])].rank)];
    const auto own = [&](std::int64_t time) -> std::int64_t {
      const Clock& c = rank.clock;
      if (c.offset_ns == 0 && c.drift_ppb == 0) return time - rank.base_ns;
      const std::int64_t near = time - c.offset_ns;  // undone to the first order: the drift is at most 1e-3
      return near - std::llround(c.drift_ppb * 1e-9 * static_cast<double>(near - c.reference_ns)) - rank.base_ns;
    };
    const std::int64_t start = own(trace_.events.start[i]), end = own(trace_.events.end[i]);
    if (!rank.fractional_us) return {start / 1000, end / 1000};
    const double ts = microseconds(start);
    return {static_cast<std::int64_t>(std::ceil(ts)), static_cast<std::int64_t>(std::floor(ts + microseconds(end - start)))};
  }

 private:
  const Trace& trace_;
};

/// Where the last of several profiler steps starts; events launched from there on do not count.
std::int64_t lastStep(const Trace& trace, std::int32_t rank, const std::vector<EventIndex>& steps, const Rounded& rounded) {
  std::set<StringId> names;
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  for (const EventIndex i : steps) {
    const auto at = static_cast<std::size_t>(i);
    if (trace.tracks[static_cast<std::size_t>(trace.events.track[at])].rank != rank) continue;
    names.insert(trace.events.name[at]);
    last = std::max(last, rounded.of(i).start);
  }
  return names.size() > 1 ? last : std::numeric_limits<std::int64_t>::max();
}

struct StreamWork {
  EventIndex event;
  Interval us;
  EventIndex call;
};

HtaStream ofStream(std::int64_t number, std::vector<StreamWork> works, const Rounded& rounded) {
  constexpr std::int64_t kKernelWaitUs = 30;
  HtaStream out;
  out.stream = number;
  std::stable_sort(works.begin(), works.end(), [](const StreamWork& a, const StreamWork& b) { return a.us.start < b.us.start; });
  std::vector<std::int64_t> launches, starts;
  for (std::size_t k = 0; k < works.size(); ++k) {
    const StreamWork& work = works[k];
    if (work.call != kNoIndex) launches.push_back(rounded.of(work.call).start), starts.push_back(work.us.start);
    if (k == 0) continue;
    const std::int64_t before = works[k - 1].us.end, gap = work.us.start - before;
    if (gap < 0) continue;
    const HtaIdle why = work.call != kNoIndex && launches.back() > before ? HtaIdle::kHostWait
                        : gap < kKernelWaitUs                             ? HtaIdle::kKernelWait
                                                                          : HtaIdle::kOther;
    out.idle_us[static_cast<std::size_t>(why)] += gap;
    ++out.gaps[static_cast<std::size_t>(why)];
  }
  out.queue_length = statisticsOf(queueOf(launches, starts));
  return out;
}

}  // namespace

std::vector<HtaRank> htaBreakdown(const Trace& trace) {
  const Events& e = trace.events;
  const Rounded rounded(trace);
  const LaunchLinks links = linkLaunches(trace);
  std::vector<EventIndex> steps;
  std::vector<std::vector<EventIndex>> device(trace.ranks.size());
  for (std::size_t i = 0; i < e.size(); ++i) {
    const Track& track = trace.tracks[static_cast<std::size_t>(e.track[i])];
    const bool stream = track.kind == TrackKind::kStream && track.stream != -1;
    if (stream && (isDeviceWork(e.category[i]) || e.category[i] == Category::kSynchronize))
      device[static_cast<std::size_t>(track.rank)].push_back(static_cast<EventIndex>(i));
    if ((e.category[i] == Category::kRange || e.category[i] == Category::kOperator) &&
        trace.strings.text(e.name[i]).starts_with("ProfilerStep#"))
      steps.push_back(static_cast<EventIndex>(i));
  }
  std::vector<Class> classes(trace.strings.size(), Class::kUnset);
  std::vector<HtaRank> out;
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    HtaRank row;
    row.rank = static_cast<std::int32_t>(r);
    const std::int64_t last = lastStep(trace, row.rank, steps, rounded);
    std::vector<Interval> all, compute, communication;
    std::map<std::int64_t, std::vector<StreamWork>> streams;
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), end = std::numeric_limits<std::int64_t>::min();
    for (const EventIndex i : device[r]) {
      const auto at = static_cast<std::size_t>(i);
      const EventIndex call = links.launch[at];
      if (last != std::numeric_limits<std::int64_t>::max() && (call == kNoIndex || rounded.of(call).start >= last)) continue;
      const Interval us = rounded.of(i);
      first = std::min(first, us.start), end = std::max(end, us.end);
      all.push_back(us);
      Class& of = classes[e.name[at]];
      if (of == Class::kUnset) of = classOf(trace.strings.text(e.name[at]));
      if (of == Class::kCompute) compute.push_back(us);
      if (of == Class::kCommunication) communication.push_back(us);
      streams[trace.tracks[static_cast<std::size_t>(e.track[at])].stream].push_back({i, us, call});
    }
    if (all.empty()) {
      row.absent = "no device work was recorded";
    } else if (row.absent = kernelsUnknown(trace, device[r]); row.absent.empty()) {
      const Intervals busy = unionOf(std::move(all)), computing = unionOf(std::move(compute)), talking = unionOf(std::move(communication));
      row.kernel_us = end - first;
      row.idle_us = row.kernel_us - lengthOf(busy);
      row.compute_us = lengthOf(computing);
      row.non_compute_us = row.kernel_us - row.compute_us - row.idle_us;
      row.communication_us = lengthOf(talking);
      if (row.communication_us > 0)
        row.overlap = static_cast<double>(lengthOf(intersection(talking, computing))) / static_cast<double>(row.communication_us);
      for (auto& [number, works] : streams) row.streams.push_back(ofStream(number, std::move(works), rounded));
    }
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace spscope::trace
