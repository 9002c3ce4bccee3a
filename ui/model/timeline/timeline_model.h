// SPDX-License-Identifier: Apache-2.0
// The timeline as it is looked at: what is seen of one trace, or of two one above the other, and what is chosen, measured,
// searched, followed. Pointer and keys go in, a Scene of rectangles and texts comes out. Knows no window and no ImGui.
//
// Lengths are device pixels; `scale` is how many of them make one of the theme's. Times are ns since each trace's first.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ui/model/timeline/timeline_sums.h"

namespace spscope::ui {

struct TimelineShown {
  std::shared_ptr<const TimelineIndex> index;
  std::string label;  ///< said in front of its ranks where two are shown
};

/// What lies at a point.
struct TimelineHit {
  int source = 0;                 ///< which of the shown traces
  std::int32_t track = -1;        ///< into its tracks; -1: between tracks
  trace::EventIndex event = trace::kNoIndex;
  bool gutter = false;            ///< on the track's name
  double time_ns = 0;
};

struct Box {
  float x0 = 0, y0 = 0, x1 = 0, y1 = 0;
};
struct Quad {
  Box box;
  Paint paint = Paint::kOther;
  std::uint8_t density = 4;       ///< as RowSpan has it: drawn the paler the less
};
struct Mark {
  Box box;
  Ink ink = Ink::kGrid;
  enum Kind : std::uint8_t { kFill, kTint, kOutline, kLine } kind = kFill;  ///< kLine: from (x0, y0) to (x1, y1)
};
struct Text {
  float x = 0, y = 0;             ///< left, top
  float width = 0;                ///< room; what does not fit is cut
  std::string text;
  Ink ink = Ink::kText;
  bool small = false, right = false;  ///< right: ends at x + width
  bool on_event = false;          ///< on a rectangle of this paint: the ink is what can be read there
  Paint paint = Paint::kOther;
};
/// In the order in which it is drawn.
struct Scene {
  std::vector<Mark> below;        ///< bands, grid
  std::vector<Quad> quads;        ///< solid, or hatched where isHatched(paint)
  std::vector<Text> labels;       ///< on events
  std::vector<Mark> above;        ///< borders of what is chosen, found, followed; measure, box
  std::vector<Mark> gutter;
  std::vector<Text> axis;         ///< times
  std::vector<Text> texts;        ///< names of tracks, below the axis
  std::int64_t events = 0;        ///< that are represented
  std::array<bool, kPaints> paints{};  ///< which occur: the legend
  void clear();
};

/// Beside or below the plot: figures of the measured span, else of the chosen event.
struct PanelRow {
  std::string left, right;
  double bar = -1;                ///< 0 ... 1; < 0: none
  Paint paint = Paint::kOther;
  bool heading = false;
};
struct Panel {
  std::vector<PanelRow> rows;
  std::vector<HistogramBin> histogram;
  std::string low, high;          ///< ends of its axis
  bool empty() const { return rows.empty(); }
};

enum class TimelineKey { kLeft, kRight, kUp, kDown, kZoomIn, kZoomOut, kFit, kNext, kPrevious, kEscape, kZoomToSelection };

class TimelineModel {
 public:
  // --- what is shown ---------------------------------------------------------------------------------------------
  /// At most two; keeps what is seen where the first stays the same. The selection goes with its trace.
  void show(std::vector<TimelineShown> shown);
  const std::vector<TimelineShown>& shown() const { return shown_; }
  /// The plot's size, gutter and axis included.
  void resize(int width_px, int height_px, double scale);
  const Viewport& view() const { return view_; }
  bool empty() const { return shown_.empty(); }

  // --- moving ----------------------------------------------------------------------------------------------------
  void fit();
  void showSpan(double begin_ns, double end_ns);
  /// `x` stays on its instant; factor > 1: closer. As close as 100 px a ns.
  void zoomAt(double x, double factor);
  void pan(double dx_px, double dy_px);
  void key(TimelineKey key);

  // --- pointer ---------------------------------------------------------------------------------------------------
  enum class Drag { kNone, kPan, kMeasure, kBox };
  void press(double x, double y, bool shift, bool ctrl);
  void move(double x, double y);
  /// What was clicked, where the pointer stayed; a box zooms, a measure stays.
  std::optional<TimelineHit> release(double x, double y);
  void wheel(double x, double y, double steps, bool shift);
  TimelineHit hit(double x, double y) const;
  /// What a tooltip says of it, a line each; empty: nothing.
  std::vector<std::string> describe(const TimelineHit& hit) const;
  /// Where an event is drawn now; nothing: not in sight.
  std::optional<Box> boxOf(int source, trace::EventIndex event) const;

  // --- chosen, measured, searched ----------------------------------------------------------------------------------
  struct Chosen {
    int source = 0;
    trace::EventIndex event = trace::kNoIndex;
    std::int64_t node = trace::kUnknown;   ///< GraphNode::id: all its events have a border
    bool operator==(const Chosen&) const = default;
  };
  /// An event brings its node along. Not moved to; see reveal().
  void choose(Chosen chosen);
  const Chosen& chosen() const { return chosen_; }
  /// A node of the graph, as GraphNode::id has it: brings the longest of its events into sight, of the rank of this number
  /// where that has one.
  void chooseNode(std::int64_t node, std::int64_t rank);
  /// Brings an event into sight; zooms only where it would be narrower than a few pixels, or wider than the view.
  void reveal(int source, trace::EventIndex event);
  void measure(double begin_ns, double end_ns);
  void clearMeasure();
  struct Span {
    double begin_ns = 0, end_ns = 0;
  };
  const std::optional<Span>& measured() const { return measured_; }
  /// Events whose name, node, op or module contain the text, in any case. "": none.
  void search(const std::string& text);
  struct Match {
    int source = 0;
    trace::EventIndex event = trace::kNoIndex;
  };
  const std::vector<Match>& matches() const { return matches_; }  ///< by start
  /// Chooses the next one, from the chosen or the middle of what is seen, and goes round at the ends. +1, -1.
  std::optional<Match> step(int direction);
  std::string matchText() const;            ///< "3 of 120", "no match", ""
  void toggle(int source, std::int32_t track);  ///< a track with more rows than are shown opens, or closes

  // --- out -------------------------------------------------------------------------------------------------------
  /// Reuses the scene's memory.
  void scene(Scene& out) const;
  const Panel& panel() const;
  const std::string& summary() const { return summary_; }
  Drag drag() const { return drag_; }
  double axisHeight() const { return 22 * scale_; }
  double gutterWidth() const { return 168 * scale_; }
  /// Changes with everything that is seen: a view draws anew when it does.
  std::uint64_t version() const { return version_; }

 private:
  struct PlacedTrack {
    int source;
    std::int32_t track;
    double y, height;        ///< below the axis, before scrolling
    std::int32_t rows;       ///< shown
  };
  struct RowMarks {          ///< events of one row that have a border
    int source;
    std::int32_t track, row;
    EventRow events;
  };
  void layout();
  void changed() { ++version_, panel_stale_ = true; }
  void clampView();
  Viewport grid() const { return {grid_ns_, view_.ns_per_px, 0}; }
  double plotX(double x) const { return x - gutterWidth(); }
  std::vector<RowMarks> marksOf(const std::vector<Match>& events) const;
  void drawTrack(const PlacedTrack& at, Scene& out, std::vector<RowSpan>& spans) const;
  void spansOf(const EventRow& row, std::vector<RowSpan>& out) const;
  void drawMarks(const std::vector<RowMarks>& marks, Ink ink, Scene& out, std::vector<RowSpan>& spans) const;
  void drawFollowed(Scene& out) const;
  void drawAxis(Scene& out) const;
  void fillPanel() const;
  const PlacedTrack* placed(int source, std::int32_t track) const;
  double rowHeight(const TimelineTrack& track) const;
  Box rowBox(const PlacedTrack& at, std::int32_t row) const;

  std::vector<TimelineShown> shown_;
  std::vector<PlacedTrack> placed_;
  std::vector<std::vector<bool>> open_;     ///< by source and track
  Viewport view_;
  // pan() moves by whole pixels of this grid, so that what was drawn before is still right; anything else makes a new one.
  double grid_ns_ = 0, rest_px_ = 0;
  std::int64_t column_ = 0;  ///< of view_.start_ns
  int height_px_ = 0;
  double scale_ = 1, scroll_y_ = 0, content_height_ = 0;
  double span_ns_ = 1;
  Chosen chosen_;
  std::vector<RowMarks> chosen_marks_, match_marks_;
  std::optional<Span> measured_;
  std::string search_;
  std::vector<Match> matches_;
  int at_match_ = -1;
  Drag drag_ = Drag::kNone;
  double press_x_ = 0, press_y_ = 0, last_x_ = 0, last_y_ = 0;
  bool moved_ = false;
  std::string summary_;
  std::uint64_t version_ = 1;
  mutable bool panel_stale_ = true;
  mutable Panel panel_;
  // What rows showed in the last frame: a view that moved shows most of it again.
  mutable std::unordered_map<const EventRow*, ColumnCache<RowColumn>> row_columns_;
  mutable std::unordered_map<const MemoryCurve*, ColumnCache<std::int64_t>> memory_columns_;
};

}  // namespace spscope::ui
