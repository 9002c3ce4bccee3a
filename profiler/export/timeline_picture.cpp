// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <memory>

#include "core/base/strings.h"
#include "profiler/analyze/work.h"
#include "profiler/export/pictures.h"
#include "profiler/export/svg.h"
#include "profiler/trace/lanes.h"

namespace spscope::trace {
namespace {

constexpr double kWidth = 1100, kLeft = 150, kRight = 16, kRow = 11, kPixels = kWidth - kLeft - kRight;
constexpr std::size_t kTracksOfRank = 8, kRanks = 32;
constexpr std::int32_t kRowsOfTrack = 5;

std::string_view kindOf(const Trace& trace, const WorkMap& map, std::size_t event) {
  if (isDeviceWork(trace.events.category[event])) {
    const Work work = map.work[event];
    return work == Work::kCommunication ? "communication" : work == Work::kMemory ? "memory" : "compute";
  }
  switch (trace.events.category[event]) {
    case Category::kOperator: return "compute";
    case Category::kCollective: return "communication";
    case Category::kWait: case Category::kSynchronize: return "wait";
    case Category::kRange: case Category::kDeviceRange: return "range";
    case Category::kRuntime: return "call";
    case Category::kPython: return "python";
    default: return "other";
  }
}

/// One row of boxes. What is shorter than a pixel is gathered until a pixel is full of it, or a gap follows.
class RowDrawer {
 public:
  RowDrawer(Svg& svg, const Trace& trace, const WorkMap& map, std::int64_t first, double scale, double y) : svg_(svg), trace_(trace), map_(map), first_(first), scale_(scale), y_(y) {}
  ~RowDrawer() { flush(); }
  void add(std::size_t event) {
    const double from = xOf(trace_.events.start[event]), to = xOf(trace_.events.end[event]);
    if (to - from >= 1) {
      flush();
      return box(from, to, kindOf(trace_, map_, event), tipOf(event));
    }
    if (count_ > 0 && (from > to_ + 0.5 || from - from_ >= 1.5)) flush();
    if (count_ == 0) from_ = from, to_ = from;
    to_ = std::max(to_, to);
    times_[kindOf(trace_, map_, event)] += trace_.events.end[event] - trace_.events.start[event] + 1;
    if (count_++ == 0 || lengthOf(event) > lengthOf(longest_)) longest_ = event;
  }

 private:
  double xOf(std::int64_t time) const { return kLeft + static_cast<double>(time - first_) * scale_; }
  std::int64_t lengthOf(std::size_t e) const { return trace_.events.end[e] - trace_.events.start[e]; }
  std::string tipOf(std::size_t e) const {
    std::string out = std::string(trace_.strings.text(trace_.events.name[e])) + "\n" + formatNs(lengthOf(e)) + " at " + formatNs(trace_.events.start[e] - first_);
    if (trace_.events.node[e] != kNoIndex) {
      const GraphNode& n = trace_.nodes[static_cast<std::size_t>(trace_.events.node[e])];
      for (const StringId part : {n.name, n.module, n.source})
        if (part != 0) out += "\n" + std::string(trace_.strings.text(part));
    }
    return out;
  }
  void box(double from, double to, std::string_view kind, const std::string& tip) { svg_.box(from, y_, std::max(0.6, to - from), kRow - 1.5, kind, tip); }
  void flush() {
    if (count_ == 0) return;
    std::string_view kind;
    std::int64_t most = -1;
    for (const auto& [k, ns] : times_)
      if (ns > most) kind = k, most = ns;
    box(from_, to_, kind, count_ == 1 ? tipOf(longest_) : strf("%lld events, the longest:\n", static_cast<long long>(count_)) + tipOf(longest_));
    count_ = 0;
    times_.clear();
  }

  Svg& svg_;
  const Trace& trace_;
  const WorkMap& map_;
  const std::int64_t first_;
  const double scale_, y_;
  double from_ = 0, to_ = 0;
  std::int64_t count_ = 0;
  std::size_t longest_ = 0;
  std::map<std::string_view, std::int64_t> times_;
};

std::string trackName(const Trace& trace, const Track& t) {
  std::string name(trace.strings.text(t.name));
  if (t.kind == TrackKind::kStream) {
    name = t.device == kUnknown ? "GPU" : strf("GPU %lld", static_cast<long long>(t.device));
    if (t.stream != kUnknown) name += strf(" stream %lld", static_cast<long long>(t.stream));
  } else if (name.empty()) {
    name = t.tid == kUnknown ? "track" : strf("thread %lld", static_cast<long long>(t.tid));
  }
  constexpr std::size_t kMost = 20;
  return name.size() <= kMost || static_cast<unsigned char>(name[kMost - 1]) > 127 ? name : name.substr(0, kMost - 1) + "…";
}

}  // namespace

Picture timelinePicture(const Trace& trace) {
  Picture out{.title = "Timeline", .svg = {}, .note = {}};
  std::vector<EventIndex> order = eventsByStart(trace);
  // Ranges like a capture's own would only stretch the axis.
  std::erase_if(order, [&](EventIndex e) {
    const Category c = trace.events.category[static_cast<std::size_t>(e)];
    return c == Category::kInstant || c == Category::kOther;
  });
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = std::numeric_limits<std::int64_t>::min();
  for (const EventIndex e : order) first = std::min(first, trace.events.start[static_cast<std::size_t>(e)]), last = std::max(last, trace.events.end[static_cast<std::size_t>(e)]);
  if (order.empty() || last <= first) return out;
  const WorkMap map = classifyWork(trace);
  const std::vector<LanePlace> places = lanesOf(trace, order);

  // Rows of each track: the lanes one below the other, each as deep as it nests.
  std::vector<std::vector<std::int32_t>> depth(trace.tracks.size());  // rows of each lane
  std::vector<std::int64_t> busy(trace.tracks.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto e = static_cast<std::size_t>(order[i]);
    auto& lanes = depth[static_cast<std::size_t>(trace.events.track[e])];
    if (static_cast<std::size_t>(places[i].lane) >= lanes.size()) lanes.resize(static_cast<std::size_t>(places[i].lane) + 1);
    std::int32_t& rows = lanes[static_cast<std::size_t>(places[i].lane)];
    rows = std::max(rows, places[i].depth + 1);
    if (places[i].depth == 0) busy[static_cast<std::size_t>(trace.events.track[e])] += trace.events.end[e] - trace.events.start[e];
  }
  std::int64_t left_out = 0;
  std::vector<std::int32_t> first_row(trace.tracks.size(), -1);
  Svg svg(kWidth, out.title);
  double y = svg.legend(kLeft, 14, {{"compute", "compute"}, {"communication", "communication"}, {"wait", "waiting"}, {"memory", "copies"}, {"range", "ranges"}, {"call", "CUDA calls"}, {"python", "Python"}, {"other", "other"}}) + 6;
  const double scale = kPixels / static_cast<double>(last - first), top = y;
  std::vector<double> row_y;
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    std::vector<std::size_t> tracks;
    for (std::size_t t = 0; t < trace.tracks.size(); ++t)
      if (static_cast<std::size_t>(trace.tracks[t].rank) == r && !depth[t].empty()) tracks.push_back(t);
    std::stable_sort(tracks.begin(), tracks.end(), [&](std::size_t a, std::size_t b) {
      const bool device_a = trace.tracks[a].kind == TrackKind::kStream, device_b = trace.tracks[b].kind == TrackKind::kStream;
      return device_a != device_b ? device_a : busy[a] > busy[b];
    });
    const std::size_t shown = r < kRanks ? std::min(tracks.size(), kTracksOfRank) : 0;
    left_out += static_cast<std::int64_t>(tracks.size() - shown);
    if (shown == 0) continue;
    const Rank& rank = trace.ranks[r];
    svg.text(8, y + 10, "start", "strong", rank.number == kUnknown ? strf("#%zu", r) : "rank " + std::to_string(rank.number));
    for (std::size_t i = 0; i < shown; ++i) {
      const std::size_t t = tracks[i];
      svg.text(kLeft - 8, y + (i == 0 ? 22 : 10), "end", "faint", trackName(trace, trace.tracks[t]));
      if (i == 0) y += 12;
      std::int32_t rows = 0;
      for (const std::int32_t d : depth[t]) rows += d;
      first_row[t] = static_cast<std::int32_t>(row_y.size());
      for (std::int32_t d = 0; d < std::min(rows, kRowsOfTrack); ++d, y += kRow) row_y.push_back(y);
      svg.line(kLeft, y, kWidth - kRight, y, "grid");
      y += 4;
    }
    y += 8;
  }
  for (const std::int64_t t : axisTicks(last - first)) {
    const double x = kLeft + static_cast<double>(t) * scale;
    svg.line(x, top, x, y, "grid");
    if (x < kWidth - 40) svg.text(x, y + 12, "middle", "faint", t == 0 ? "0" : formatNs(t));
  }
  std::vector<std::unique_ptr<RowDrawer>> drawers;
  for (const double at : row_y) drawers.push_back(std::make_unique<RowDrawer>(svg, trace, map, first, scale, at));
  std::int64_t deep = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto e = static_cast<std::size_t>(order[i]);
    const auto track = static_cast<std::size_t>(trace.events.track[e]);
    if (first_row[track] < 0) continue;
    std::int32_t row = places[i].depth;
    for (std::int32_t lane = 0; lane < places[i].lane; ++lane) row += depth[track][static_cast<std::size_t>(lane)];
    if (row >= kRowsOfTrack) ++deep;
    else drawers[static_cast<std::size_t>(first_row[track] + row)]->add(e);
  }
  drawers.clear();  // they draw what they have gathered
  out.svg = svg.finish(y + 22);
  out.note = "Events shorter than a pixel are put together, in the colour of what takes most of their time; point at a box for its name.";
  if (left_out > 0) out.note += left_out == 1 ? std::string(" A track with little on it is left out.") : strf(" %lld tracks with little on them are left out.", static_cast<long long>(left_out));
  if (deep > 0) out.note += strf(" %lld events nest deeper than %d levels and are not drawn.", static_cast<long long>(deep), kRowsOfTrack);
  return out;
}

}  // namespace spscope::trace
