// SPDX-License-Identifier: Apache-2.0
// Where new lengths enter a size system (the tagged inputs, the user's marks), and how it is solved.
#pragma once

#include "passes/sequence/respecialize.h"
#include "passes/sequence/size_rules.h"

namespace spscope::passes {

/// Gives the lengths to the tagged dims. Keeps references to system and rules.
class LengthSeeds {
 public:
  LengthSeeds(SizeSystem& system, SizeRules& rules, const LengthChange& change)
      : system_(system), rules_(rules), more_seq_(change.seq_to - change.seq_from), more_batch_(change.batch_to - change.batch_from) {}

  /// Those of the inputs: before SizeRules::run().
  void inputs(const ir::Graph& graph, const Settings& settings);
  /// Those of other values: after it.
  void marks(const ir::Graph& graph, const Settings& settings);
  bool foundSequence() const { return sequence_; }
  bool foundBatch() const { return batch_; }

 private:
  void sequence(const AtomList& list);

  SizeSystem& system_;
  SizeRules& rules_;
  std::int64_t more_seq_, more_batch_;
  bool sequence_ = false, batch_ = false;
};

/// Solves: what is forced, then one open choice after the other, then the checks. The system says whether it went well. `length`
/// as SizeRules::check takes it.
void settle(SizeSystem& system, SizeRules& rules, std::int64_t length, DiagnosticSink& diagnostics);

}  // namespace spscope::passes
