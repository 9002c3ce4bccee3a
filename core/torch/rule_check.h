// SPDX-License-Identifier: Apache-2.0
// Whether the placement rules of a rule file are true of the ops themselves: each op is computed on random tensors, once
// whole and once in blocks along every dimension that its rule lets be cut, and the blocks must give the whole.
// No libtorch in this header.
#pragma once

#include <memory>

#include "core/base/cancel.h"
#include "core/base/diagnostics.h"
#include "core/ir/op_rule.h"

namespace spscope::exec {

class Equivalents;

struct RuleChecks {
  int checked = 0;    ///< op, shapes and arguments that were computed
  int unchecked = 0;  ///< that could not be: no kernel and no equivalent, or too large
};

/// Every op of `graph` that has a rule, once per shapes and arguments, in float64 on few elements (on the op's own sizes where
/// it takes no others). Warning rule-unchecked where it could not be computed. Errors: rule-mismatch; rule-contradicted with
/// a counter-example: operand shapes, the rank's block, the element and both values.
Result<RuleChecks> checkRules(const ir::Graph& graph, const ir::OpRules& rules, const Equivalents& equivalents, const CancelToken& cancel,
                              DiagnosticSink& diagnostics);

}  // namespace spscope::exec
