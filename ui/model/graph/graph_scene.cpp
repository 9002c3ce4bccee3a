// SPDX-License-Identifier: Apache-2.0
#include "ui/model/graph/graph_scene.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "core/base/strings.h"

namespace spscope::ui {
namespace {

using M = SceneMetrics;

/// Characters, not bytes.
float columns(const std::string& text) {
  return static_cast<float>(std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }));
}

Size textBox(const std::string& title, const std::string& subtitle, float height) {
  const float width = std::max(columns(title) * M::kCharWidth, columns(subtitle) * M::kSmallCharWidth) + 2 * M::kPadding;
  return {std::clamp(width, 72.0f, 420.0f), height};
}

std::string moduleSubtitle(const ModuleTree& tree, const Module& m) {
  std::string text = strf("%lld nodes", static_cast<long long>(m.all_nodes));
  if (m.parameter_bytes > 0) text += ", " + formatBytes(m.parameter_bytes);
  if (m.same_as >= 0) text = strf("%zu like %s", m.children.size(), tree.at(m.same_as).label.c_str());
  return text;
}

std::uint64_t combine(std::uint64_t h, std::uint64_t v) { return (h ^ v) * 0x100000001b3ull + (h >> 29); }

}  // namespace

GraphScene::GraphScene(std::shared_ptr<const GraphSource> source, int depth) : source_(std::move(source)), own_nodes_(source_->tree->modules().size()) {
  for (std::size_t i = 0; i < source_->nodes.size(); ++i) own_nodes_[static_cast<std::size_t>(source_->nodes[i].module)].push_back(static_cast<std::int32_t>(i));
  open_.insert(0);
  const bool joint = source_->graph->form == ir::Form::kJoint;
  openAll(0, joint ? depth + 1 : depth);
}

void GraphScene::setOpen(ModuleIndex module, bool open) {
  if (module <= 0 || isOpen(module) == open) return;
  if (open)
    open_.insert(module);
  else
    open_.erase(module);
  dirty_ = true;
}

void GraphScene::openAll(ModuleIndex below, int depth) {
  if (depth <= 0) return;
  for (const ModuleIndex c : source_->tree->at(below).children) {
    // A fold opened would undo what it is for.
    if (source_->tree->at(c).same_as >= 0) continue;
    setOpen(c, true);
    openAll(c, depth - 1);
  }
}

void GraphScene::closeAll() {
  open_ = {0};
  dirty_ = true;
}

void GraphScene::reveal(ir::NodeId node) {
  const std::int32_t index = source_->indexOf(node);
  if (index < 0) return;
  for (const ModuleIndex m : source_->tree->chain(source_->nodes[static_cast<std::size_t>(index)].module)) setOpen(m, true);
}

std::vector<std::string> GraphScene::openPaths() const {
  std::vector<std::string> paths;
  for (const ModuleIndex m : open_)
    if (m > 0) paths.push_back(source_->tree->at(m).path);
  std::sort(paths.begin(), paths.end());
  return paths;
}

void GraphScene::setOpenPaths(const std::vector<std::string>& paths) {
  closeAll();
  for (const std::string& path : paths) {
    ModuleIndex m = source_->tree->find(path);
    // "layers.0" of a forward stage is "forward/layers.0" of a joint one, and the other way round.
    if (m < 0) m = source_->tree->find("forward/" + path);
    if (m < 0 && path.starts_with("forward/")) m = source_->tree->find(path.substr(8));
    if (m > 0) setOpen(m, true);
  }
  if (source_->graph->form == ir::Form::kJoint)
    for (const char* branch : {"forward", "backward"})
      if (const ModuleIndex m = source_->tree->find(branch); m > 0) setOpen(m, true);
}

void GraphScene::openLike(const GraphScene& other) { setOpenPaths(other.openPaths()); }

ModuleIndex GraphScene::visibleModule(ModuleIndex module) const {
  ModuleIndex closed = -1;
  for (ModuleIndex m = module; m > 0; m = source_->tree->at(m).parent)
    if (!isOpen(m)) closed = m;
  return closed;
}

Size GraphScene::sizeOf(const Item& item) {
  if (item.node >= 0) {
    const SourceNode& n = source_->nodes[static_cast<std::size_t>(item.node)];
    return textBox(n.title, n.subtitle, M::kBoxHeight);
  }
  if (isOpen(item.module)) return inside_.at(item.module).size;
  const Module& m = source_->tree->at(item.module);
  return textBox(m.label, moduleSubtitle(*source_->tree, m), M::kModuleHeight);
}

/// Children first. What is inside keeps its layout while the sizes and edges of its items stay the same.
void GraphScene::layOut(ModuleIndex module) {
  const ModuleTree& tree = *source_->tree;
  Inside& in = inside_[module];
  for (const ModuleIndex c : tree.at(module).children)
    if (isOpen(c)) layOut(c);
  std::vector<Size> sizes;
  std::uint64_t key = 1469598103934665603ull;
  for (const Item& item : in.items) {
    sizes.push_back(sizeOf(item));
    key = combine(combine(combine(key, std::bit_cast<std::uint32_t>(sizes.back().width)), std::bit_cast<std::uint32_t>(sizes.back().height)),
                  static_cast<std::uint64_t>(item.node >= 0 ? item.node : -2 - item.module));
  }
  for (const LayoutEdge& e : in.edges) key = combine(combine(key, static_cast<std::uint64_t>(e.from)), static_cast<std::uint64_t>(e.to));
  for (const LayoutPort& p : in.ports) key = combine(combine(key, static_cast<std::uint64_t>(p.box)), p.leaves ? 2 : 1);
  if (key == in.key) return;
  in.key = key;
  ++laid_out_;
  in.layout = layered(sizes, in.edges, {}, in.ports);
  const bool root = module == 0;
  in.size = {in.layout.size.width + 2 * M::kMargin, in.layout.size.height + (root ? 2 * M::kMargin : M::kFrameTop + M::kMargin)};
  const float title = columns(tree.at(module).label) * M::kCharWidth + 2 * M::kPadding;
  in.size.width = std::max(in.size.width, title);
}

void GraphScene::place(ModuleIndex module, Point origin, int depth) {
  const ModuleTree& tree = *source_->tree;
  const Inside& in = inside_.at(module);
  const float top = module == 0 ? M::kMargin : M::kFrameTop;
  for (std::size_t i = 0; i < in.items.size(); ++i) {
    const Item& item = in.items[i];
    const Size size = sizeOf(item);
    SceneBox box;
    box.rect = {origin.x + M::kMargin + in.layout.boxes[i].x, origin.y + top + in.layout.boxes[i].y, size.width, size.height};
    const auto index = static_cast<std::int32_t>(scene_.boxes.size());
    if (item.node >= 0) {
      const SourceNode& n = source_->nodes[static_cast<std::size_t>(item.node)];
      box.kind = n.node == ir::kNone ? SceneBox::Kind::kInput : SceneBox::Kind::kNode;
      box.node = item.node;
      box.title = n.title;
      box.subtitle = n.subtitle;
      box.change = n.change;
      box.collectives = n.collective ? 1 : 0;
      box_of_node_[static_cast<std::size_t>(item.node)] = index;
      scene_.boxes.push_back(std::move(box));
      continue;
    }
    const Module& m = tree.at(item.module);
    box.module = item.module;
    box.title = m.label;
    box.depth = depth;
    box_of_module_[static_cast<std::size_t>(item.module)] = index;
    if (isOpen(item.module)) {
      box.kind = SceneBox::Kind::kFrame;
      const Point inner{box.rect.x, box.rect.y};
      scene_.boxes.push_back(std::move(box));
      place(item.module, inner, depth + 1);
    } else {
      box.kind = SceneBox::Kind::kModule;
      box.subtitle = moduleSubtitle(tree, m);
      scene_.boxes.push_back(std::move(box));
    }
  }
}

Point GraphScene::originOf(ModuleIndex container) const {
  if (container == 0) return {M::kMargin, M::kMargin};
  const Rect& frame = scene_.boxes[static_cast<std::size_t>(box_of_module_[static_cast<std::size_t>(container)])].rect;
  return {frame.x + M::kMargin, frame.y + M::kFrameTop};
}

std::int32_t GraphScene::itemOf(const std::vector<ModuleIndex>& chain, std::size_t container, std::int32_t node) const {
  return container + 1 < chain.size() ? place_of_module_[static_cast<std::size_t>(chain[container + 1])] : place_of_node_[static_cast<std::size_t>(node)];
}

bool GraphScene::throughFrames(const std::vector<ModuleIndex>& chain, std::size_t common, std::int32_t node, bool leaves, std::vector<Point>& points) {
  std::size_t end = chain.size();
  if (!isOpen(chain.back())) --end;  // a closed module is a box
  // Out of the innermost first, into the outermost first.
  for (std::size_t i = common + 1; i < end; ++i) {
    const std::size_t k = leaves ? end - 1 - (i - common - 1) : i;
    const Inside& in = inside_.at(chain[k]);
    const std::int32_t item = itemOf(chain, k, node);
    const Layout::Route& route = in.layout.ports[static_cast<std::size_t>(in.port_of.at(2 * std::int64_t{item} + leaves))];
    if (route.portal) return false;
    const Point origin = originOf(chain[k]);
    const Rect& frame = scene_.boxes[static_cast<std::size_t>(box_of_module_[static_cast<std::size_t>(chain[k])])].rect;
    const Layout::Row row = in.layout.rows[static_cast<std::size_t>(item)];
    // Straight across the row of what it comes from or goes to.
    const auto beside = [&](float x) { points.push_back({x, origin.y + (leaves ? row.bottom : row.top)}); };
    if (leaves) beside(points.back().x);
    else points.push_back({origin.x + route.points.front().x, frame.y});
    for (const Point p : route.points) points.push_back({origin.x + p.x, origin.y + p.y});
    if (leaves) {
      points.push_back({origin.x + route.points.back().x, frame.bottom()});
      continue;
    }
    // Its own middle, or where the frame inside is entered.
    float x = origin.x + in.layout.boxes[static_cast<std::size_t>(item)].x + sizeOf(in.items[static_cast<std::size_t>(item)]).width / 2;
    if (k + 1 < end) {
      const Inside& next = inside_.at(chain[k + 1]);
      const Layout::Route& inner = next.layout.ports[static_cast<std::size_t>(next.port_of.at(2 * std::int64_t{itemOf(chain, k + 1, node)}))];
      if (inner.portal) return false;
      x = originOf(chain[k + 1]).x + inner.points.front().x;
    }
    beside(x);
  }
  return true;
}

const GraphDrawing& GraphScene::scene() {
  if (!dirty_) return scene_;
  dirty_ = false;
  const ModuleTree& tree = *source_->tree;

  // Items of every open module, and where each node and module stands in its container.
  place_of_node_.assign(source_->nodes.size(), -1);
  place_of_module_.assign(tree.modules().size(), -1);
  std::vector<ModuleIndex> stack{0};
  while (!stack.empty()) {
    const ModuleIndex m = stack.back();
    stack.pop_back();
    Inside& in = inside_[m];
    in.items.clear();
    in.edges.clear();
    in.ports.clear();
    in.port_of.clear();
    for (const std::int32_t n : own_nodes_[static_cast<std::size_t>(m)]) {
      place_of_node_[static_cast<std::size_t>(n)] = static_cast<std::int32_t>(in.items.size());
      in.items.push_back({n, -1});
    }
    for (const ModuleIndex c : tree.at(m).children) {
      place_of_module_[static_cast<std::size_t>(c)] = static_cast<std::int32_t>(in.items.size());
      in.items.push_back({-1, c});
      if (isOpen(c)) stack.push_back(c);
    }
  }

  // Each link becomes an edge of the innermost open module that holds both ends; equal ones are one edge.
  struct Key {
    ModuleIndex container;
    std::int32_t from, to;       // items
    std::int32_t from_box, to_box;  // what is visible of the ends: a node, or -2 - a module
    bool operator<(const Key& o) const {
      return std::tie(container, from, to, from_box, to_box) < std::tie(o.container, o.from, o.to, o.from_box, o.to_box);
    }
  };
  std::map<Key, std::vector<std::int32_t>> bundles;
  const auto chainOf = [&](std::int32_t node) {
    std::vector<ModuleIndex> chain{0};
    for (const ModuleIndex m : tree.chain(source_->nodes[static_cast<std::size_t>(node)].module)) {
      chain.push_back(m);
      if (!isOpen(m)) break;
    }
    return chain;
  };
  std::vector<std::vector<ModuleIndex>> chains(source_->nodes.size());
  for (std::size_t n = 0; n < source_->nodes.size(); ++n) chains[n] = chainOf(static_cast<std::int32_t>(n));
  for (std::size_t l = 0; l < source_->links.size(); ++l) {
    const SourceLink& link = source_->links[l];
    const auto& a = chains[static_cast<std::size_t>(link.from)];
    const auto& b = chains[static_cast<std::size_t>(link.to)];
    std::size_t common = 0;
    while (common + 1 < a.size() && common + 1 < b.size() && a[common + 1] == b[common + 1]) ++common;
    if (!isOpen(a[common])) continue;  // both inside one closed module
    const auto visible = [&](const std::vector<ModuleIndex>& chain, std::int32_t node) { return isOpen(chain.back()) ? node : -2 - chain.back(); };
    bundles[{a[common], itemOf(a, common, link.from), itemOf(b, common, link.to), visible(a, link.from), visible(b, link.to)}].push_back(static_cast<std::int32_t>(l));
    // It leaves the open modules around one end and enters those around the other.
    const auto crosses = [&](const std::vector<ModuleIndex>& chain, std::int32_t node, bool leaves) {
      for (std::size_t k = common + 1; k < chain.size() && isOpen(chain[k]); ++k) {
        Inside& in = inside_[chain[k]];
        const std::int32_t item = itemOf(chain, k, node);
        if (in.port_of.try_emplace(2 * std::int64_t{item} + leaves, static_cast<std::int32_t>(in.ports.size())).second) in.ports.push_back({item, leaves});
      }
    };
    crosses(a, link.from, true);
    crosses(b, link.to, false);
  }
  std::map<std::tuple<ModuleIndex, std::int32_t, std::int32_t>, std::int32_t> edge_of;
  for (const auto& [key, links] : bundles) {
    std::vector<LayoutEdge>& edges = inside_[key.container].edges;
    const auto [it, fresh] = edge_of.try_emplace({key.container, key.from, key.to}, static_cast<std::int32_t>(edges.size()));
    if (fresh) edges.push_back({key.from, key.to});
  }

  laid_out_ = 0;
  layOut(0);
  scene_ = {};
  box_of_node_.assign(source_->nodes.size(), -1);
  box_of_module_.assign(tree.modules().size(), -1);
  place(0, {0, 0}, 0);
  scene_.size = inside_.at(0).size;

  // Positions of containers, for the bends of their edges.
  const auto boxOfVisible = [&](std::int32_t visible) {
    return visible >= 0 ? box_of_node_[static_cast<std::size_t>(visible)] : box_of_module_[static_cast<std::size_t>(-2 - visible)];
  };
  for (const auto& [key, links] : bundles) {
    const Layout::Route& route = inside_.at(key.container).layout.routes[static_cast<std::size_t>(edge_of.at({key.container, key.from, key.to}))];
    SceneEdge edge;
    edge.from = boxOfVisible(key.from_box);
    edge.to = boxOfVisible(key.to_box);
    edge.links = links;
    edge.portal = route.portal;
    edge.upwards = route.upwards;
    edge.change = source_->links[static_cast<std::size_t>(links.front())].change;
    for (const std::int32_t l : links) {
      const SourceLink& link = source_->links[static_cast<std::size_t>(l)];
      edge.kind = std::max(edge.kind, link.kind);
      if (link.change != edge.change) edge.change = Change::kNone;
    }
    const Rect& from = scene_.boxes[static_cast<std::size_t>(edge.from)].rect;
    const Rect& to = scene_.boxes[static_cast<std::size_t>(edge.to)].rect;
    const Inside& around = inside_.at(key.container);
    const Point origin = originOf(key.container);
    const SourceLink& any = source_->links[static_cast<std::size_t>(links.front())];
    const auto& a = chains[static_cast<std::size_t>(any.from)];
    const auto& b = chains[static_cast<std::size_t>(any.to)];
    const auto common = static_cast<std::size_t>(std::find(a.begin(), a.end(), key.container) - a.begin());
    if (edge.upwards && !edge.portal) {  // closes a cycle between modules: there is no way around everything
      edge.points.push_back({from.x + from.width / 2, from.y});
      for (const Point p : route.points) edge.points.push_back({origin.x + p.x, origin.y + p.y});
      edge.points.push_back({to.x + to.width / 2, to.bottom()});
    } else if (!edge.portal) {
      std::vector<Point> entry;
      edge.points.push_back({from.x + from.width / 2, from.bottom()});
      edge.portal = !throughFrames(a, common, any.from, true, edge.points) || !throughFrames(b, common, any.to, false, entry);
      edge.points.push_back({edge.points.back().x, origin.y + around.layout.rows[static_cast<std::size_t>(key.from)].bottom});
      for (const Point p : route.points) edge.points.push_back({origin.x + p.x, origin.y + p.y});
      const Point end{to.x + to.width / 2, to.y};
      edge.points.push_back({entry.empty() ? end.x : entry.front().x, origin.y + around.layout.rows[static_cast<std::size_t>(key.to)].top});
      edge.points.insert(edge.points.end(), entry.begin(), entry.end());
      edge.points.push_back(end);
      // Rows are as high as their highest box: most boxes touch both sides of theirs.
      const auto same = [](Point p, Point q) { return std::abs(p.x - q.x) < 0.01f && std::abs(p.y - q.y) < 0.01f; };
      edge.points.erase(std::unique(edge.points.begin(), edge.points.end(), same), edge.points.end());
      if (edge.portal) edge.points.clear();
    }
    scene_.edges.push_back(std::move(edge));
  }

  // What happened inside a closed module.
  for (std::size_t n = 0; n < source_->nodes.size(); ++n) {
    const SourceNode& node = source_->nodes[n];
    const std::vector<ModuleIndex>& chain = chains[n];
    if (isOpen(chain.back())) continue;
    SceneBox& box = scene_.boxes[static_cast<std::size_t>(box_of_module_[static_cast<std::size_t>(chain.back())])];
    box.collectives += node.collective;
    box.added += node.change == Change::kAdded;
    box.removed += node.change == Change::kRemoved;
    box.changed += node.change == Change::kChanged;
    if (node.change != Change::kNone) box.change = Change::kChanged;
  }
  return scene_;
}

std::int32_t GraphScene::boxOf(ir::NodeId node) {
  scene();
  const std::int32_t index = source_->indexOf(node);
  if (index < 0) return -1;
  if (box_of_node_[static_cast<std::size_t>(index)] >= 0) return box_of_node_[static_cast<std::size_t>(index)];
  const ModuleIndex closed = visibleModule(source_->nodes[static_cast<std::size_t>(index)].module);
  return closed < 0 ? -1 : box_of_module_[static_cast<std::size_t>(closed)];
}

std::int32_t GraphScene::boxAt(Point place) {
  const GraphDrawing& s = scene();
  for (std::size_t i = s.boxes.size(); i-- > 0;)
    if (s.boxes[i].rect.contains(place)) return static_cast<std::int32_t>(i);
  return -1;
}

}  // namespace spscope::ui
