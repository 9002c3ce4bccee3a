// SPDX-License-Identifier: Apache-2.0
// The drawing of a graph with some modules open: boxes and edges with positions. An open module is a frame in its parent's
// layout; each module's inside is laid out alone and kept, so opening one of many layers costs that layer and its parents.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ui/model/graph/graph_source.h"
#include "ui/model/graph/layered_layout.h"

namespace spscope::ui {

struct Rect {
  float x = 0, y = 0, width = 0, height = 0;
  float right() const { return x + width; }
  float bottom() const { return y + height; }
  bool contains(Point p) const { return p.x >= x && p.x < right() && p.y >= y && p.y < bottom(); }
};

struct SceneBox {
  enum class Kind : std::uint8_t { kNode, kInput, kModule, kFrame };  ///< kModule: closed; kFrame: open, drawn behind its inside
  Kind kind = Kind::kNode;
  Rect rect;
  std::int32_t node = -1;      ///< kNode, kInput: index into GraphSource::nodes
  ModuleIndex module = -1;     ///< kModule, kFrame
  std::string title, subtitle;
  Change change = Change::kNone;             ///< of a closed module: kChanged when anything inside changed
  std::int32_t added = 0, removed = 0, changed = 0;  ///< of a closed module
  std::int32_t collectives = 0;              ///< inside
  int depth = 0;               ///< frames: how deep they nest
};

struct SceneEdge {
  std::int32_t from = -1, to = -1;   ///< boxes
  std::vector<Point> points;         ///< polyline from border to border, around what stands between; of a portal: empty
  LinkKind kind = LinkKind::kData;
  Change change = Change::kNone;
  bool portal = false, upwards = false;
  std::vector<std::int32_t> links;   ///< into GraphSource::links: the values it carries
};

struct GraphDrawing {
  std::vector<SceneBox> boxes;  ///< frames before what is inside them
  std::vector<SceneEdge> edges;
  Size size;
};

class GraphScene {
 public:
  /// Everything closed down to `depth` modules below the root (or below the branches of a joint graph).
  explicit GraphScene(std::shared_ptr<const GraphSource> source, int depth = 1);

  const GraphSource& source() const { return *source_; }
  std::shared_ptr<const GraphSource> sourceRef() const { return source_; }
  /// Lays out what has changed. The reference is valid until the next change.
  const GraphDrawing& scene();
  bool isOpen(ModuleIndex module) const { return open_.count(module) != 0; }
  void setOpen(ModuleIndex module, bool open);
  void openAll(ModuleIndex below, int depth);
  void closeAll();
  /// Opens the modules around a node, so that it has a box of its own.
  void reveal(ir::NodeId node);
  /// The same modules open as in another stage's scene, as far as they exist here.
  void openLike(const GraphScene& other);

  /// The box that shows the node: its own, or the closed module that it is in; -1 where it is not in this graph.
  std::int32_t boxOf(ir::NodeId node);
  /// The innermost box at a place; -1: none.
  std::int32_t boxAt(Point place);
  /// How many open modules were laid out for the last drawing: the others kept what they had.
  std::int32_t laidOut() const { return laid_out_; }
  std::vector<std::string> openPaths() const;
  void setOpenPaths(const std::vector<std::string>& paths);

 private:
  struct Item {                   // of a container: a node or a module
    std::int32_t node = -1;
    ModuleIndex module = -1;
  };
  struct Inside {                 // the layout of an open module, relative to its own top left corner
    std::vector<Item> items;
    std::vector<LayoutEdge> edges;
    std::vector<LayoutPort> ports;                            // what comes from outside and goes there
    std::unordered_map<std::int64_t, std::int32_t> port_of;   // by 2 * item + leaves
    Layout layout;
    Size size;
    std::uint64_t key = 0;        // of the sizes and edges that it was made from
  };

  Size sizeOf(const Item& item);
  void layOut(ModuleIndex module);
  void place(ModuleIndex module, Point origin, int depth);
  Point originOf(ModuleIndex container) const;          ///< where its layout's 0, 0 is in the drawing
  /// The way from a node (or the closed module that it is in) out of the open modules below its chain's member `common`, from
  /// above to below; false: a portal.
  bool throughFrames(const std::vector<ModuleIndex>& chain, std::size_t common, std::int32_t node, bool leaves, std::vector<Point>& points);
  std::int32_t itemOf(const std::vector<ModuleIndex>& chain, std::size_t container, std::int32_t node) const;
  ModuleIndex visibleModule(ModuleIndex module) const;  ///< the outermost closed module around it, or -1

  std::shared_ptr<const GraphSource> source_;
  std::unordered_set<ModuleIndex> open_;
  std::unordered_map<ModuleIndex, Inside> inside_;
  std::vector<std::vector<std::int32_t>> own_nodes_;      ///< by module: indices into source nodes
  GraphDrawing scene_;
  std::vector<std::int32_t> box_of_node_, box_of_module_; ///< by source node, by module
  std::vector<std::int32_t> place_of_node_, place_of_module_;  ///< items of what contains them
  std::int32_t laid_out_ = 0;
  bool dirty_ = true;
};

/// How boxes are measured without a font at hand.
struct SceneMetrics {
  static constexpr float kCharWidth = 7.0f, kSmallCharWidth = 6.3f, kBoxHeight = 34, kModuleHeight = 40, kPadding = 12, kFrameTop = 26, kMargin = 14;
};

}  // namespace spscope::ui
