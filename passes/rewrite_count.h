// SPDX-License-Identifier: Apache-2.0
// Counts the rewrites of the passes that run on this thread and, where asked, lets only the first ones happen: which one makes the
// result wrong is then found by halving (session/bisect_rewrites.h). A pass asks before each change that it could as well leave out, or
// whose absence shows only behind it. Without a counter on the thread, as in every compilation, all may happen.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace spscope::passes {

class RewriteCount {
 public:
  explicit RewriteCount(std::int64_t limit = std::numeric_limits<std::int64_t>::max());  ///< of this thread from now on
  ~RewriteCount();
  RewriteCount(const RewriteCount&) = delete;
  RewriteCount& operator=(const RewriteCount&) = delete;
  /// Names of the nodes that were asked about, in order, also of those beyond the limit.
  const std::vector<std::string>& nodes() const { return nodes_; }

 private:
  friend bool mayRewrite(const ir::Graph& graph, ir::NodeId node);
  friend bool someRewriteWasLeftOut();
  std::int64_t limit_;
  std::vector<std::string> nodes_;
  RewriteCount* outer_;
};

/// Asked by a pass before it rewrites at `node`.
bool mayRewrite(const ir::Graph& graph, ir::NodeId node);
/// Whether the answer was ever no.
bool someRewriteWasLeftOut();

}  // namespace spscope::passes
