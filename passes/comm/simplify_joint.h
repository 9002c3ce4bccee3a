// SPDX-License-Identifier: Apache-2.0
// simplify-joint: what moves nothing and changes nothing goes, before it is decided what is kept for the backward.
//
//   sp.vary(x)                                            x (it was there for autograd)
//   sp.all_to_all(sp.all_to_all(x)), the second the inverse      x
//   sp.slice(sp.all_gather(x)), same dim and blocks       x
//   sp.all_gather(sp.slice(x)), x equal on all ranks      x
//     (of the last three: a contiguous copy of x where x may not be contiguous; what they give always is)
//   clone, _to_copy to the same type, of a contiguous x   x (nothing in a joint graph writes into a value)
//   view, expand to the same shape; alias, detach         x
//   t(t(x)), transpose twice, permute back                x
//   view(view(x)), x contiguous                           view(x)
//
// Contiguous: for certain (core/ir/layout.h), through whatever follows. A copy goes only then: a later view relies on it.
// What the user marked to be saved stays, and so do the graph's outputs: each keeps a name and memory of its own.
#pragma once

#include "passes/pass.h"

namespace spscope::passes {

Pass simplifyJointPass();

}  // namespace spscope::passes
