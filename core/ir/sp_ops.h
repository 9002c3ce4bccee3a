// SPDX-License-Identifier: Apache-2.0
// Ops of our own in graphs, beside aten.*: redistributions, on the mesh's sequence axis or (axis=) another: mesh_axis.h.
//
//   op                                       placement   arguments                         gradient
//   sp.redistribute.default(self)            any -> any  kPlanned only: identity on the    (lowered before build-joint)
//                                                        global value, changes placement
//   sp.vary.default(self)                    R -> R      a replicated value that meets a   sp.all_reduce
//                                                        rank-varying one; identity
//   sp.slice.default(self, dim, blocks)      R -> S      this rank's block of `dim`        sp.all_gather
//   sp.all_gather.default(self, dim, blocks) S -> R                                        sp.slice
//   sp.all_reduce.default(self)              P -> R      sum over the ranks                identity
//   sp.reduce_scatter.default(self, dim, blocks)  P -> S                                   sp.all_gather
//   sp.all_to_all.default(self, gather_dim, gather_blocks, scatter_dim, scatter_blocks)    sp.all_to_all with the
//                                            S -> S'     `gather_dim` becomes whole,       two dims exchanged
//                                                        `scatter_dim` this rank's block
//
// `blocks` has one size per rank and sums to the whole dimension; sizes may differ and may be zero. Always whole
// dimensions: where a factor inside a dimension is sharded, the pass puts a reshape before and after. Results are
// contiguous. vary and slice send nothing. All ranks issue the same collectives in the same order, empty blocks too.
//
// From fuse-collectives on (joint graphs) a collective is a pair (core/ir/pending.h has the rules):
//   sp.X_start.default(self=[...], ...)   begins collective X for every operand of the list at once. Arguments as X's, one
//                                         dim and one run of `blocks` per operand, one after the other. Results: a receive
//                                         buffer per operand, then (X not all_reduce) a send buffer per operand. A send
//                                         buffer is the operand itself (alias) where its parts lie in order, else its
//                                         packed copy; an all_reduce receives in a copy of its operand or in the operand
//                                         itself (alias). Nobody but the wait may read them.
//   sp.wait.default(self=[...])           takes all results of one start, in order, and gives each receive buffer, valid now
//                                         (alias), in the shape of X's result where the parts lie in order, else flat.
//   sp.unpack.default(self, dim, blocks)  local: puts the parts of a flat buffer, one per rank, together along `dim`.
// So the lifetime of every buffer stands in the graph: from the start to its last reader, the wait.
#pragma once

#include "core/base/symbol.h"

namespace spscope::ir::sp {

inline const Symbol kRedistribute{"sp.redistribute.default"};
inline const Symbol kVary{"sp.vary.default"};
inline const Symbol kSlice{"sp.slice.default"};
inline const Symbol kAllGather{"sp.all_gather.default"};
inline const Symbol kAllReduce{"sp.all_reduce.default"};
inline const Symbol kReduceScatter{"sp.reduce_scatter.default"};
inline const Symbol kAllToAll{"sp.all_to_all.default"};
inline const Symbol kWait{"sp.wait.default"};
inline const Symbol kUnpack{"sp.unpack.default"};

}  // namespace spscope::ir::sp
