// SPDX-License-Identifier: Apache-2.0
#include "ui/model/graph_document.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/strings.h"
#include "ui/model/node_times.h"

namespace spscope::ui {
namespace {

constexpr std::size_t kFewBoxes = 20;

}  // namespace

GraphDocument::GraphDocument(Workspace& workspace, Shows shows)
    : workspace_(workspace), shows_(shows), lane_(shows == Shows::kStage ? "graph" : "graph-previous") {
  listener_ = workspace_.listen([this](Topic topic) {
    if (topic == Topic::kModel || topic == Topic::kStage) follow();
    if (topic == Topic::kTrace && colour_by_ == ColourBy::kTime && scene_) recolour();
  });
  follow();
}

GraphDocument::~GraphDocument() {
  *alive_ = false;
  workspace_.unlisten(listener_);
}

bool GraphDocument::busy() const { return workspace_.jobs().busy(lane_); }

void GraphDocument::changed(Event event) {
  if (on_change) on_change(event);
}

void GraphDocument::follow() {
  const int compared = workspace_.comparedWith();
  const auto other = compared >= 0 ? workspace_.stages()[static_cast<std::size_t>(compared)].graph : nullptr;
  std::shared_ptr<const ir::Graph> graph = shows_ == Shows::kStage ? workspace_.graph() : other;
  std::shared_ptr<const ir::Graph> previous = shows_ == Shows::kStage && other != graph ? other : nullptr;
  if (graph == wanted_ && previous == wanted_previous_) return;
  wanted_ = graph;
  wanted_previous_ = previous;
  if (!graph) {
    workspace_.lanes().cancel(lane_);
    scene_.reset();
    colouring_.reset();
    search_.reset();
    return changed(Event::kReplaced);
  }
  std::optional<std::vector<std::string>> open = open_paths_;
  if (!open && scene_) open = scene_->openPaths();
  workspace_.lanes().submit(lane_, [this, alive = alive_, graph, previous, open, by = colour_by_](const JobContext&) -> std::function<void()> {
    auto scene = std::make_shared<std::unique_ptr<GraphScene>>(std::make_unique<GraphScene>(makeGraphSource(graph, previous)));
    if (open) (*scene)->setOpenPaths(*open);
    // One box inside another says nothing: opened until there is something to see.
    for (int depth = 2; !open && depth < 6 && (*scene)->scene().boxes.size() < kFewBoxes; ++depth) (*scene)->openAll(0, depth);
    (*scene)->scene();
    auto colouring = std::make_shared<std::unique_ptr<Colouring>>(std::make_unique<Colouring>((*scene)->sourceRef(), by));
    return [this, alive, scene, colouring, by] {
      if (!*alive) return;
      scene_ = std::move(*scene);
      colouring_ = std::move(*colouring);
      search_.reset();
      if (open_paths_) scene_->setOpenPaths(*open_paths_);
      open_paths_.reset();
      if (by != colour_by_ || colour_by_ == ColourBy::kTime) recolour();
      changed(Event::kReplaced);
    };
  });
}

void GraphDocument::recolour() {
  colouring_ = std::make_unique<Colouring>(source(), colour_by_);
  changed(Event::kColours);
  const std::shared_ptr<const TraceDocument> trace = workspace_.trace();
  if (colour_by_ != ColourBy::kTime || !trace) return;
  workspace_.lanes().submit(lane_ + "-times", [this, alive = alive_, trace, graph = source()](const JobContext& context) -> std::function<void()> {
    const NodeTimes times = nodeTimes(*trace, context.cancel);
    std::unordered_map<ir::NodeId, std::int64_t> slowest;
    for (const auto& [node, ranks] : times.of)
      for (const RankNodeTime& t : ranks) slowest[node] = std::max(slowest[node], t.count > 0 ? t.total_ns / t.count : 0);
    auto colouring = std::make_shared<std::unique_ptr<Colouring>>(std::make_unique<Colouring>(graph, ColourBy::kTime, slowest));
    return [this, alive, colouring, graph] {
      if (!*alive || graph != source() || colour_by_ != ColourBy::kTime) return;
      colouring_ = std::move(*colouring);
      changed(Event::kColours);
    };
  });
}

const SearchIndex* GraphDocument::search() {
  if (!search_ && scene_) search_ = std::make_unique<SearchIndex>(source());
  return search_.get();
}

void GraphDocument::setColourBy(ColourBy by) {
  if (by == colour_by_) return;
  colour_by_ = by;
  if (scene_) recolour();
}

void GraphDocument::toggle(ModuleIndex module) {
  if (scene_) setOpen(module, !scene_->isOpen(module));
}

void GraphDocument::setOpen(ModuleIndex module, bool open) {
  if (!scene_ || scene_->isOpen(module) == open) return;
  // A module inside closed ones is shown with them.
  if (open)
    for (const ModuleIndex m : source()->tree->chain(module)) scene_->setOpen(m, true);
  scene_->setOpen(module, open);
  changed(Event::kLaidOut);
}

void GraphDocument::openAll(ModuleIndex below, int depth) {
  if (!scene_) return;
  if (below > 0) setOpen(below, true);
  scene_->openAll(below, depth);
  changed(Event::kLaidOut);
}

void GraphDocument::closeAll() {
  if (!scene_) return;
  scene_->closeAll();
  changed(Event::kLaidOut);
}

bool GraphDocument::revealSelection() {
  if (!scene_) return false;
  const Selection& s = workspace_.selection();
  const auto before = scene_->openPaths();
  if (s.node != ir::kNone) {
    scene_->reveal(s.node);
  } else if (!s.module.empty()) {
    const ModuleIndex m = source()->tree->find(s.module);
    if (m < 0) return false;
    for (const ModuleIndex c : source()->tree->chain(m))
      if (c != m) scene_->setOpen(c, true);
  } else {
    return selectedBox() >= 0;
  }
  if (scene_->openPaths() != before) changed(Event::kLaidOut);
  return selectedBox() >= 0;
}

std::vector<std::string> GraphDocument::openPaths() const {
  if (open_paths_) return *open_paths_;
  return scene_ ? scene_->openPaths() : std::vector<std::string>{};
}

void GraphDocument::setOpenPaths(std::vector<std::string> paths) {
  if (!scene_ || busy()) {
    open_paths_ = std::move(paths);
    return;
  }
  scene_->setOpenPaths(paths);
  changed(Event::kLaidOut);
}

Selection GraphDocument::selectionOf(std::int32_t box) const {
  Selection s;
  s.rank = workspace_.selection().rank;
  if (!scene_ || box < 0) return s;
  const SceneBox& b = scene_->scene().boxes[static_cast<std::size_t>(box)];
  if (b.node >= 0) {
    const SourceNode& n = scene_->source().nodes[static_cast<std::size_t>(b.node)];
    s.node = n.node;
    s.value = n.input;
  } else {
    s.module = scene_->source().tree->at(b.module).path;
  }
  return s;
}

std::int32_t GraphDocument::selectedBox() const {
  if (!scene_) return -1;
  const Selection& s = workspace_.selection();
  if (s.node != ir::kNone) return scene_->boxOf(s.node);
  const GraphDrawing& scene = scene_->scene();
  for (std::size_t i = 0; i < scene.boxes.size(); ++i) {
    const SceneBox& b = scene.boxes[i];
    if (b.node >= 0 && s.value != ir::kNone && scene_->source().nodes[static_cast<std::size_t>(b.node)].input == s.value) return static_cast<std::int32_t>(i);
    if (b.module >= 0 && !s.module.empty() && scene_->source().tree->at(b.module).path == s.module) return static_cast<std::int32_t>(i);
  }
  return -1;
}

GraphDocument::Users GraphDocument::usersOfSelection() const {
  Users users;
  const std::int32_t box = selectedBox();
  if (box < 0) return users;
  const GraphDrawing& scene = scene_->scene();
  const std::int32_t node = scene.boxes[static_cast<std::size_t>(box)].node;
  const GraphSource& source = scene_->source();
  for (std::size_t e = 0; e < scene.edges.size(); ++e) {
    const SceneEdge& edge = scene.edges[e];
    if (edge.from != box) continue;
    // A closed module's edges carry several values: only those of the selected node count where one is selected.
    const bool carries = node < 0 || std::any_of(edge.links.begin(), edge.links.end(), [&](std::int32_t l) { return source.links[static_cast<std::size_t>(l)].from == node; });
    if (!carries) continue;
    users.edges.push_back(static_cast<std::int32_t>(e));
    users.boxes.push_back(edge.to);
  }
  return users;
}

std::int32_t GraphDocument::neighbour(std::int32_t box, int dx, int dy) const {
  if (!scene_) return -1;
  const GraphDrawing& scene = scene_->scene();
  if (scene.boxes.empty()) return -1;
  if (box < 0 || box >= static_cast<std::int32_t>(scene.boxes.size())) {
    for (std::size_t i = 0; i < scene.boxes.size(); ++i)
      if (scene.boxes[i].kind != SceneBox::Kind::kFrame) return static_cast<std::int32_t>(i);
    return 0;
  }
  const Rect& from = scene.boxes[static_cast<std::size_t>(box)].rect;
  const auto centre = [](const Rect& r) { return Point{r.x + r.width / 2, r.y + r.height / 2}; };
  const Point a = centre(from);
  std::int32_t best = -1;
  float best_cost = std::numeric_limits<float>::max();
  const auto consider = [&](std::int32_t i, float bonus) {
    const SceneBox& b = scene.boxes[static_cast<std::size_t>(i)];
    if (i == box || b.kind == SceneBox::Kind::kFrame) return;
    const Point c = centre(b.rect);
    const float along = dx != 0 ? (c.x - a.x) * static_cast<float>(dx) : (c.y - a.y) * static_cast<float>(dy);
    const float across = std::abs(dx != 0 ? c.y - a.y : c.x - a.x);
    if (along <= 1) return;
    const float cost = (along + 3 * across) * bonus;
    if (cost < best_cost) best_cost = cost, best = i;
  };
  for (std::size_t i = 0; i < scene.boxes.size(); ++i) consider(static_cast<std::int32_t>(i), 1.0f);
  // Up and down follow edges where there are some.
  if (dy != 0)
    for (const SceneEdge& e : scene.edges) {
      if (dy > 0 && e.from == box) consider(e.to, 0.2f);
      if (dy < 0 && e.to == box) consider(e.from, 0.2f);
    }
  return best;
}

std::optional<GraphDocument::Counts> GraphDocument::counts() const {
  if (!scene_ || !scene_->source().previous) return {};
  const ir::GraphDiff& d = scene_->source().diff;
  return Counts{static_cast<std::int64_t>(d.added.size()), static_cast<std::int64_t>(d.removed.size()), static_cast<std::int64_t>(d.changed.size()), static_cast<std::int64_t>(d.moved.size())};
}

std::string GraphDocument::title() const {
  if (workspace_.stages().empty()) return {};
  const auto name = [&](int stage) { return workspace_.stages()[static_cast<std::size_t>(stage)].name; };
  if (shows_ == Shows::kPrevious) return workspace_.comparedWith() >= 0 ? name(workspace_.comparedWith()) : std::string();
  std::string text = name(workspace_.stage());
  if (workspace_.comparedWith() >= 0) text += " compared with " + name(workspace_.comparedWith());
  return text;
}

std::string GraphDocument::subject() const {
  const Selection& s = workspace_.selection();
  if (!s.module.empty()) return s.module;
  if (scene_ && s.node != ir::kNone)
    if (const std::int32_t i = scene_->source().indexOf(s.node); i >= 0) {
      const ModuleIndex m = scene_->source().nodes[static_cast<std::size_t>(i)].module;
      if (m > 0) return scene_->source().tree->at(m).path;
    }
  return workspace_.model() ? workspace_.model()->display_name : std::string();
}

}  // namespace spscope::ui
