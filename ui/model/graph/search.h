// SPDX-License-Identifier: Apache-2.0
// Finding nodes of the shown graph by what an engineer remembers of them: name, op, argument, shape, placement, module, source
// line. All words of a query must match; "op:mm", "shape:128", "placement:S1", "module:layers.3", "source:llama.py:71",
// "arg:dim=1" and "name:" look in one field only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ui/model/graph/graph_source.h"

namespace spscope::ui {

struct SearchHit {
  std::int32_t index = -1;   ///< into GraphSource::nodes
  ir::NodeId node = ir::kNone;
  ir::ValueId value = ir::kNone;  ///< of an input
  std::string title;         ///< the node's name
  std::string detail;        ///< op, shape, module
  std::string why;           ///< the field that matched first, where it is not the name: "source llama.py:71"
  int rank = 0;              ///< smaller is better: name equal, begins, contains, other field
};

/// The fields of each node in lower case, made once per graph. O(graph) to make, O(graph) a query.
class SearchIndex {
 public:
  explicit SearchIndex(std::shared_ptr<const GraphSource> source);
  /// Best first, then program order; at most `limit`. An empty query finds nothing. `total` (may be null): all that match.
  std::vector<SearchHit> find(const std::string& query, std::size_t limit, std::size_t* total = nullptr) const;

 private:
  struct Fields;
  std::shared_ptr<const GraphSource> source_;
  std::shared_ptr<const std::vector<Fields>> fields_;
};

/// What a placement is called: "replicated", "sharded dim 1 (sequence)", "partial".
std::string placementText(const ir::Value& value);

}  // namespace spscope::ui
