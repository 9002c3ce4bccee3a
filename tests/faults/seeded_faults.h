// SPDX-License-Identifier: Apache-2.0
// Mutation testing of the search for the first difference. Faults are drawn by a seed and planted; what the answer must be is
// computed from the plant and from the right program of the same ranks, never from the unsharded one that the search goes by.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/session/plant.h"
#include "core/session/verify.h"

namespace spscope::zoo {

enum class Ending : std::uint8_t {
  kExact,       ///< the planted node itself is named, with its ranks and its pass
  kListed,      ///< the planted node has no counterpart: its first reader that has one is named, the planted node is in the list beside it (or a later pass changed it, too), and --bisect names its pass
  kEquivalent,  ///< proved: no value of any rank is another than without it, to the last bit
  kTooSmall,    ///< its own value (its sum over the ranks, where only that is read) is off by less than the comparison counts, and so are loss and gradients, from those of the right program, too
  kRefused,     ///< a check of the pipeline refused the program before anything ran
  kMissed,
};
std::string_view endingWord(Ending ending);

struct Trial {
  passes::Fault fault;
  Ending ending = Ending::kMissed;
  std::string node, pass;  ///< that were named
  std::vector<int> ranks, wanted_ranks;
  std::string why;         ///< of kMissed and kRefused
};

/// One model on so many ranks, ready for any number of trials.
class FaultBench {
 public:
  /// Errors: those of opening and compiling it.
  static Result<std::unique_ptr<FaultBench>> open(const std::string& model, int ranks);
  /// Without any fault: nothing may be found.
  Result<bool> findsNothing();
  /// `fault`: as for --plant.
  Result<Trial> run(const passes::Fault& fault);
  /// Draws by `seed` until a fault makes a difference that the comparison can see; those that do not are added to `others`.
  Result<Trial> next(std::uint64_t seed, std::vector<Trial>& others);

 private:
  /// Every value of every rank by name.
  using Values = std::vector<std::map<std::string, exec::TensorBag>>;
  Result<Values> valuesOf(const std::vector<std::shared_ptr<const ir::Graph>>& programs, std::vector<exec::StepResult>& results) const;
  /// Whether loss and gradients of every rank are those of the right program, to what the comparison allows.
  Result<bool> sameResults(const std::vector<exec::StepResult>& now) const;
  session::Request request() { return {{}, {}, &diagnostics_}; }

  std::shared_ptr<const session::Model> model_;
  passes::Settings settings_;
  session::CompileOutcome right_;
  std::vector<session::FaultSite> sites_;
  session::Sides sides_;
  Values values_;
  std::vector<exec::StepResult> results_;  ///< of the right program, by rank
  double norm_ = 0.0;  ///< of the largest of them
  DiagnosticSink diagnostics_;
};

}  // namespace spscope::zoo
