// SPDX-License-Identifier: Apache-2.0
// Why a node of the program is there, is placed so, exchanges, is kept or made again, takes so much: what the passes left on record,
// in sentences with their source.
#pragma once

#include <vector>

#include "core/session/compile.h"
#include "core/session/debug/answers.h"

namespace spscope::session::debug {

/// `graph` is a rank's program; `compiled` may be null (then nothing is known of stages, decisions and the peak), `program` the index of
/// the graph in Compiled::programs, -1 where it is none of them.
std::vector<WhyRow> whyOf(const ir::Graph& graph, const ir::Node& node, const CompileOutcome* compiled, int program);

}  // namespace spscope::session::debug
