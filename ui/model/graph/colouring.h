// SPDX-License-Identifier: Apache-2.0
// What the boxes of the graph view are filled with: the placement of what they compute, or another property. Each fill has a
// letter, and the legend says what both mean, so that nothing depends on colour.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ui/model/graph/graph_scene.h"
#include "ui/model/theme.h"

namespace spscope::ui {

enum class ColourBy : std::uint8_t { kPlacement, kDType, kModule, kMemory, kTime, kRecompute };
/// "placement", "dtype", "module", "memory", "time", "recompute", in this order.
const std::vector<std::string>& colourings();
std::optional<ColourBy> colouringNamed(const std::string& name);

struct BoxFill {
  Tone tone = Tone::kModule;
  int fill = -1;        ///< >= 0: Theme::fill
  float heat = -1;      ///< >= 0: Theme::heat
  std::string letter;   ///< "S", "H", "R", "P", "C": drawn in the corner
  friend bool operator==(const BoxFill&, const BoxFill&) = default;
};
struct LegendEntry {
  BoxFill fill;
  std::string text;
};

class Colouring {
 public:
  /// `node_ns`: times of a trace or of a cost model by node id; may be empty. O(graph).
  Colouring(std::shared_ptr<const GraphSource> source, ColourBy by, const std::unordered_map<ir::NodeId, std::int64_t>& node_ns = {});
  ColourBy by() const { return by_; }
  BoxFill of(const SceneBox& box) const;
  /// Only what occurs in the graph.
  std::vector<LegendEntry> legend() const;

 private:
  BoxFill ofNode(std::int32_t node) const;
  std::shared_ptr<const GraphSource> source_;
  ColourBy by_;
  std::vector<double> metric_;         ///< by source node, 0..1
  std::vector<double> module_metric_;  ///< by module, 0..1
  std::string metric_high_;            ///< legend of the highest
};

/// What is said of a box when the pointer rests on it: title, shape, placement, what changed; lines.
std::string boxTip(const GraphSource& source, const SceneBox& box);

}  // namespace spscope::ui
