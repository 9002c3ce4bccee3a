// SPDX-License-Identifier: Apache-2.0
// What passes need of libtorch, as an interface: implemented in core/torch, handed in by core/session.
#pragma once

#include "core/base/cancel.h"
#include "core/base/result.h"
#include "core/ir/graph.h"

namespace spscope::ir {

class OpServices {
 public:
  virtual ~OpServices() = default;

  /// Forward and backward of a kLocal graph as one kJoint graph, by running it once on meta tensors under autograd.
  /// The first output is the loss, then one kGradient per trainable parameter (parameters without a path to the loss
  /// have none). Nodes carry phase, location and `forward`; a forward node that was captured as itself keeps its id.
  /// Errors: capture-failed (with the node), op-unknown.
  virtual Result<Graph> captureJoint(const Graph& forward, const CancelToken& cancel) = 0;

  /// Scratch bytes that the op's kernel allocates beyond its outputs on this device ("cpu", there with `threads` threads, or "cuda");
  /// used by the predicted memory curve. 0 where the kernel needs none.
  virtual std::int64_t workspaceBytes(const Graph& graph, const Node& node, std::string_view device, int threads) const = 0;
};

}  // namespace spscope::ir
