// SPDX-License-Identifier: Apache-2.0
// The graph view's model: follows the workspace's stage and comparison, makes source and scene off the window's thread, keeps
// the same modules open from stage to stage, and translates places in the drawing into selections.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ui/model/graph/colouring.h"
#include "ui/model/graph/graph_scene.h"
#include "ui/model/graph/search.h"
#include "ui/model/workspace.h"

namespace spscope::ui {

class GraphDocument {
 public:
  enum class Shows : std::uint8_t {
    kStage,     ///< the shown stage, merged with the one that it is compared with
    kPrevious,  ///< the stage that is compared with, alone: the left side of two
  };
  enum class Event : std::uint8_t { kReplaced, kLaidOut, kColours };

  explicit GraphDocument(Workspace& workspace, Shows shows = Shows::kStage);
  ~GraphDocument();
  GraphDocument(const GraphDocument&) = delete;
  GraphDocument& operator=(const GraphDocument&) = delete;

  std::function<void(Event)> on_change;  ///< one view; on the window's thread

  /// Null before a model is open. Valid until the next kReplaced.
  GraphScene* scene() const { return scene_.get(); }
  std::shared_ptr<const GraphSource> source() const { return scene_ ? scene_->sourceRef() : nullptr; }
  const Colouring* colouring() const { return colouring_.get(); }
  const SearchIndex* search();           ///< made when first asked for
  bool busy() const;

  ColourBy colourBy() const { return colour_by_; }
  void setColourBy(ColourBy by);
  void toggle(ModuleIndex module);
  void setOpen(ModuleIndex module, bool open);
  void openAll(ModuleIndex below, int depth);
  void closeAll();
  /// Opens what lies around the selection. False where this graph does not have it.
  bool revealSelection();
  std::vector<std::string> openPaths() const;
  /// Also for a graph that is still being made.
  void setOpenPaths(std::vector<std::string> paths);

  /// What a click on a box selects (empty: -1).
  Selection selectionOf(std::int32_t box) const;
  /// The box of the workspace's selection; -1 where it is not drawn.
  std::int32_t selectedBox() const;
  /// Boxes that use what the selected node computes, and edges that carry it.
  struct Users {
    std::vector<std::int32_t> boxes, edges;
  };
  Users usersOfSelection() const;
  /// The nearest box in a direction (dx, dy of -1, 0, 1), for the arrow keys; -1: none.
  std::int32_t neighbour(std::int32_t box, int dx, int dy) const;
  /// "+4 added  0 removed  3 changed", empty without a comparison.
  struct Counts {
    std::int64_t added = 0, removed = 0, changed = 0, moved = 0;
  };
  std::optional<Counts> counts() const;
  /// "insert-all-to-all compared with shard-sequence".
  std::string title() const;
  std::string subject() const;  ///< the selected module or node, or the model

 private:
  void follow();
  void changed(Event event);
  void recolour();

  Workspace& workspace_;
  Shows shows_;
  std::string lane_;
  int listener_ = 0;
  std::shared_ptr<const ir::Graph> wanted_, wanted_previous_;
  std::unique_ptr<GraphScene> scene_;
  std::unique_ptr<Colouring> colouring_;
  std::unique_ptr<SearchIndex> search_;
  ColourBy colour_by_ = ColourBy::kPlacement;
  std::optional<std::vector<std::string>> open_paths_;  ///< to be opened in the next scene
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace spscope::ui
