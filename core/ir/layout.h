// SPDX-License-Identifier: Apache-2.0
// How the local tensor of a value lies in memory when the graph runs. The graph does not store strides; they follow from
// the ops, as far as kernels' choices are known. Used for what depends on them: which copies are needed before a view, which
// ones kernels make inside.
#pragma once

#include "core/ir/graph.h"

namespace spscope::ir {

struct MemoryLayout {
  Dims strides;          ///< in elements, one per local dimension
  bool certain = false;  ///< false: a guess (an op whose kernel's choice is not known came before); for estimates only
};

/// Views are followed exactly; element-wise ops put their result in memory as PyTorch's TensorIterator does; what is known
/// to allocate row by row is contiguous; everything else is guessed to be, and not certain.
MemoryLayout layoutOf(const Graph& graph, ValueId value);

/// While it lives, layouts of this graph are looked up on this thread: each is found out once. Nobody may change the graph meanwhile.
class LayoutScope {
 public:
  explicit LayoutScope(const Graph& graph);
  ~LayoutScope();
  LayoutScope(const LayoutScope&) = delete;
  LayoutScope& operator=(const LayoutScope&) = delete;
  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
  Impl* outer_;
};

/// Row by row without gaps for certain: any view of it is one, a copy of it is needless.
bool surelyContiguous(const Graph& graph, ValueId value);

/// Row-major without gaps (sizes of 1 do not matter), as at::Tensor::is_contiguous.
bool isContiguous(const Dims& sizes, const Dims& strides);
Dims contiguousStrides(const Dims& sizes);

}  // namespace spscope::ir
