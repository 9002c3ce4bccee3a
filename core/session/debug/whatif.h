// SPDX-License-Identifier: Apache-2.0
// What would change if one thing were marked otherwise: the model is compiled again with that mark, or that setting, and the difference is
// told. What the pipeline refuses is an answer, too.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/session/compile.h"
#include "core/session/debug/reference.h"

namespace spscope::session::debug {

struct WhatIfQuestion {
  enum class Kind : std::uint8_t {
    kSave,       ///< the value is kept for the backward
    kRecompute,  ///< it is made again there, if that can be
    kWhole,      ///< it is whole on every rank
    kShard,      ///< it is cut along `dim`
    kPolicy,     ///< --save `policy`
    kRanks,      ///< --sp `ranks`
  };
  Kind kind = Kind::kSave;
  std::string name;    ///< of a node or value of the rank's program, or an input; none for kPolicy, kRanks
  int dim = 0;
  std::string policy;
  int ranks = 0;
  std::string text() const;  ///< as it is typed
};

/// Of the rank with the highest predicted peak.
struct WhatIfFigures {
  std::int64_t peak_bytes = 0, saved_bytes = 0, comm_bytes = 0, recompute_flops = 0;
  std::int64_t collectives = 0, gathers = 0, recompute_nodes = 0, nodes = 0;
  std::vector<passes::CollectiveTotal> by_kind;
  std::string placement;  ///< of the value that was asked about, in words; empty: not known
  std::string kept;       ///< what becomes of it after the forward, and why; empty: not known
};

struct WhatIf {
  std::string question;
  std::string marked, source;     ///< the model's own node or input that bears the mark; empty: a setting was changed
  std::optional<Error> refused;   ///< why it cannot be compiled so; `then` means nothing
  WhatIfFigures now, then;
  std::vector<std::string> added, removed;  ///< nodes of rank 0's program, by name
};

/// `program`: rank 0's, `compiled`: what it is of. Errors: debug-no-origin; value-unknown; whatif-no-node (no node of the model stands behind
/// it); cancelled.
Result<WhatIf> whatIf(const WhatIfQuestion& question, const ir::Graph& program, const CompileOutcome& compiled, const Origin* origin, const Request& request);

}  // namespace spscope::session::debug
