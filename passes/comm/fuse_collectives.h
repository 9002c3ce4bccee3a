// SPDX-License-Identifier: Apache-2.0
// fuse-collectives: fewer, larger collectives, each as a start and a wait (core/ir/sp_ops.h).
//
//   before   %q2 = sp.all_to_all.default(self=%q, gather_dim=2, ...)
//            %k  = aten.add.Tensor(...)
//            %k2 = sp.all_to_all.default(self=%k, gather_dim=2, ...)
//   after    %k  = aten.add.Tensor(...)
//            %qr, %kr, %qs, %ks = sp.all_to_all_start.default(self=[%q, %k], gather_dim=[2, 2], ...)
//            %q2, %k2 = sp.wait.default(self=[%qr, %kr, %qs, %ks])
//
// Two kinds of groups, both found by dependence alone, so that ranks with other local shapes find the same ones:
//   gradients    sums of the backward that no other collective waits for: buckets of one type in the order in which they
//                become ready, at most Settings::bucket_bytes each; the bucket starts when its last member is ready
//   exchanges    neighbours in the remaining order of collectives that do not depend on each other, of one kind, type and
//                phase: q, k, v before attention and their gradients after it; they start where the first one stood
// A sum whose operand nobody reads afterwards is made in the operand itself.
#pragma once

#include "passes/pass.h"

namespace spscope::passes {

Pass fuseCollectivesPass();

}  // namespace spscope::passes
