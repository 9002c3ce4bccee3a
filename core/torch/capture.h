// SPDX-License-Identifier: Apache-2.0
// The joint graph of forward and backward, by asking libtorch: the forward program runs once on meta tensors (shapes
// without memory) under autograd, and every ATen call below autograd is written down. No libtorch in this header.
#pragma once

#include <memory>

#include "core/base/cancel.h"
#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/ir/op_rule.h"
#include "core/ir/op_services.h"

namespace spscope::exec {

class Equivalents;

/// See ir::OpServices::captureJoint. `forward` is a kLocal graph (or a kGlobal one on a mesh of one rank), functional:
/// a node that changes a view of another value in place is refused. What the result keeps of it:
///  - inputs, in order and with their ids; all names and ids that it uses stay what they were;
///  - a node that autograd runs as itself keeps id, name and arguments; one that decomposes is replaced by nodes named
///    after it (linear_3.addmm), whose last outputs keep the value ids of the original;
///  - every value says whose storage it is a view of, or how many bytes its own storage has.
/// Errors: capture-failed (op, node, source), op-unknown, op-argument, cancelled.
/// Ops of `equivalents` (may be null) are recorded as the ATen ops that they stand for.
Result<ir::Graph> captureJoint(const ir::Graph& forward, const CancelToken& cancel = {}, const Equivalents* equivalents = nullptr);

/// The ops of `rules` (may be null) that say by which ATen ops they can be computed. Errors: rule-equivalent, with the rule's place.
Result<std::shared_ptr<const Equivalents>> compileEquivalents(const ir::OpRulesRef& rules);

/// What passes need of libtorch. Stateless; any thread.
std::unique_ptr<ir::OpServices> makeOpServices(std::shared_ptr<const Equivalents> equivalents = nullptr);

}  // namespace spscope::exec
