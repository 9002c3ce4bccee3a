// SPDX-License-Identifier: Apache-2.0
// Collectives that are started and waited for: how sp.X_start, sp.wait and sp.unpack are read (core/ir/sp_ops.h says what
// they mean). A start carries several plain collectives; each of them is seen as the plain node that it stands for.
#pragma once

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace spscope::ir {

bool isStart(Symbol op);
/// sp.all_to_all.default <-> sp.all_to_all_start.default.
Symbol startOf(Symbol plain);
Symbol plainOf(Symbol start);

/// Operands of a start.
std::size_t partCount(const Node& start);
/// Part `i` as a plain collective: its operand, its arguments, its receive buffer as its result. The id is the start's.
/// Arguments that are too short come out short; the verifier refuses them.
Node partOf(const Node& start, std::size_t i, int ranks);
/// The same, of a start in `graph`: the ranks are those of its axis.
Node partOf(const Graph& graph, const Node& start, std::size_t i);
/// kNone for an all_reduce, which sends from where it receives.
ValueId sendOf(const Node& start, std::size_t i);

/// Adds the operand and the arguments of a plain collective behind those that the start has.
void appendPart(Node& start, const Node& plain);

/// The blocks of `dim` lie one after the other in memory: no dimension before it has more than one element.
bool isOutermost(const Dims& shape, std::int64_t dim);

/// Every start has exactly one wait, behind it; its buffers are read by nobody else; nobody reads or sends what an
/// all_reduce changes in place. Needs a graph whose ids, uses and single nodes are verified. Error: verify-wait.
Status verifyPending(const Graph& graph);

}  // namespace spscope::ir
