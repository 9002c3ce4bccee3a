// SPDX-License-Identifier: Apache-2.0
#include "passes/rewrite_count.h"

#include <utility>

namespace spscope::passes {
namespace {

thread_local RewriteCount* t_count = nullptr;

}  // namespace

RewriteCount::RewriteCount(std::int64_t limit) : limit_(limit), outer_(std::exchange(t_count, this)) {}
RewriteCount::~RewriteCount() { t_count = outer_; }

bool mayRewrite(const ir::Graph& graph, ir::NodeId node) {
  if (t_count == nullptr) return true;
  t_count->nodes_.push_back(graph.node(node).name);
  return std::ssize(t_count->nodes_) <= t_count->limit_;
}

bool someRewriteWasLeftOut() { return t_count != nullptr && std::ssize(t_count->nodes_) > t_count->limit_; }

}  // namespace spscope::passes
