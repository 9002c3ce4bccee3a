// SPDX-License-Identifier: Apache-2.0
// The debugger of a sharded step: all ranks of it in this process, in lockstep, and the unsharded step beside them. Commands in,
// plain answers out; front ends (text, JSON, later the window and editors) render them.
//
// Where the ranks stand is the node that each runs next. Names are those of the programs, with or without "%".
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/session/bisect.h"
#include "core/session/compile.h"
#include "core/session/debug/answers.h"
#include "core/session/debug/breakpoint.h"
#include "core/session/debug/tape.h"
#include "core/session/debug/twin.h"
#include "core/session/first_difference.h"
#include "core/session/value_map.h"

namespace spscope::session::debug {

class Debugger {
 public:
  struct Setup {
    Sides sides;  ///< programs, weights, inputs, and what to compare with; budget_bytes: of snapshots, and of the twin's values
    std::shared_ptr<const CompileOutcome> compiled;  ///< for the answers to "why"; null: they say less
    std::function<Result<Bisection>(const Sides&, const Request&)> bisect;  ///< runs the pipeline again; empty: cannot
  };
  /// The step has begun, nothing has run. Errors: those of Tape::create.
  static Result<std::unique_ptr<Debugger>> create(Setup setup, const Request& request);
  /// Compiles both sides, loads weights and inputs. `budget_bytes`: see Sides. Errors: those of compile, loadState, loadInputs.
  static Result<std::unique_ptr<Debugger>> open(const Model& model, const passes::Settings& settings, const DataRequest& data, const Request& request,
                                                std::int64_t budget_bytes = 0);

  int ranks() const { return tape_.size(); }
  const ir::Graph& graph(int rank) const { return *setup_.sides.programs[static_cast<std::size_t>(rank)]; }

  // --- control. `rank` -1: all ranks together, a node each, or the collective that all have come to ------------------------
  /// Where the ranks stand.
  Stop where() const;
  Result<Stop> step(std::int64_t count = 1, int rank = -1);
  /// Until what runs next stands outside of the module of what runs now; `levels` modules further up where asked for.
  Result<Stop> next(int levels = 0, int rank = -1);
  Result<Stop> untilCollective(int rank = -1);
  /// Until such a node is next on some rank. Errors: debug-no-node.
  Result<Stop> until(const NodeQuery& query, int rank = -1);
  /// To a breakpoint or to the end of the step.
  Result<Stop> resume(int rank = -1);
  /// So many moves back; to the beginning where there are fewer.
  Result<Stop> back(std::int64_t count = 1);
  /// Back to where such a node was next on some rank the last time. Errors: debug-no-node; usage (it has not run).
  Result<Stop> backTo(const NodeQuery& query);

  // --- breakpoints -----------------------------------------------------------------------------------------------------------
  /// Gives it its number. Errors: debug-no-node, usage (no such rank).
  Result<Breakpoint> add(Breakpoint breakpoint);
  bool remove(int id);
  void removeAll();
  const std::vector<Breakpoint>& breakpoints() const { return breakpoints_; }

  // --- values: as they are now; one that was freed is computed again, and the answer says so ------------------------------------
  struct Parts {
    std::vector<exec::TensorBag> of_rank;
    bool again = false;
  };
  /// One tensor per rank; of ranks other than `rank` (where it is not -1) empty bags. Errors: value-unknown (with the nearest names),
  /// value-not-live (not computed yet, or nobody reads it).
  Result<Parts> parts(const std::string& value, int rank = -1);
  Result<ValueLook> look(const std::string& value, int rank = -1);
  /// Put together by its placement; where the graph does not say it, by what fits the unsharded value. Errors: also
  /// debug-no-placement.
  Result<exec::TensorBag> whole(const std::string& value, bool* again = nullptr);
  /// The unsharded program's value. Errors: debug-no-twin.
  Result<exec::TensorBag> unsharded(const std::string& value);
  Result<Comparison> compare(const std::string& value);
  Result<Comparison> compareRanks(const std::string& value, int rank, int with);
  /// The first node, in program order, whose value differs from the unsharded one in the whole step, which runs apart from this one.
  Result<ValueComparison> firstWrong();
  /// After which pass, and with which of its rewrites, the whole step first differs. Errors: usage (made without a pipeline), those of the passes.
  Result<Bisection> bisect();

  // --- questions -------------------------------------------------------------------------------------------------------------
  /// Everything that is known of why a node, or the node of a value, is as it is. Errors: value-unknown.
  Result<std::vector<WhyRow>> why(const std::string& name);
  /// Nodes of rank 0's program. Errors: debug-no-node.
  Result<std::vector<NodeName>> find(const NodeQuery& query) const;
  std::vector<NodeName> around(int rank, std::int64_t before, std::int64_t after) const;
  /// Names of nodes and values, for completion.
  std::vector<std::string> names() const;
  Tape::Figures figures() const { return tape_.figures(); }

 private:
  /// What is known of a rank's program; ranks with one program share it.
  struct Side {
    const ir::Graph* graph = nullptr;
    std::vector<std::int32_t> position;                   ///< of a node, by its id
    std::unordered_map<std::string, ir::ValueId> values;  ///< by value's name; and by node's, of its first result
    std::vector<Counterpart> counterparts;                ///< by value; filled when first needed
  };
  Debugger(Setup setup, const Request& request, Tape tape);
  const Side& side(int rank) const { return sides_[side_of_[static_cast<std::size_t>(rank)]]; }
  Counterpart counterpart(int rank, ir::ValueId value);
  Result<Twin*> twin();
  NodeName nameOf(int rank, std::size_t place) const;
  NodeName nameOf(int rank, const ir::Node& node) const;
  Result<ir::ValueId> valueNamed(int rank, const std::string& name) const;
  /// The value of that name on a rank; where its program has none, what it made last of the same value of the unsharded program.
  Result<ir::ValueId> partOn(int rank, const std::string& name, ir::ValueId reference);
  /// Whether the rank has run the node that makes the value.
  bool computed(int rank, ir::ValueId value) const;

  /// By side, then by place. Error: debug-no-node, where no rank has such a node.
  Result<std::vector<std::vector<bool>>> placesOnSides(const NodeQuery& query) const;

  using Goal = std::function<bool(const Places& before)>;  ///< asked after every move
  Result<Stop> advance(int rank, const Goal& reached, StopReason reason);
  Result<Goal> goalOf(const NodeQuery& query, int rank) const;
  Stop stopAt(StopReason reason, std::int64_t moves, std::string message = {}) const;

  // Breakpoints: debugger_break.cpp.
  void mark();
  std::optional<Stop> breakBefore(const Places& before, std::vector<std::string>& log);
  Result<std::optional<Stop>> breakAfter(const Places& before, std::vector<std::string>& log);
  struct Met {
    std::string why;
    int rank = 0;
  };
  /// Where the condition is met by a value that a rank has just made.
  Result<std::optional<Met>> met(const Condition& condition, int rank, ir::ValueId value);
  Result<std::optional<Met>> metAcrossRanks(const Condition& condition, int rank, ir::ValueId value, const Places& before);
  Status saveValues(const Breakpoint& breakpoint, int rank, const ir::Node& node, std::vector<std::string>& log);

  Setup setup_;
  Request request_;
  Tape tape_;
  std::vector<Side> sides_;
  std::vector<std::size_t> side_of_;   ///< by rank
  std::vector<std::int64_t> outers_;   ///< see shardOuters
  std::unique_ptr<Twin> twin_;
  std::vector<Breakpoint> breakpoints_;
  int last_breakpoint_ = 0;
  std::vector<std::vector<std::vector<bool>>> marks_;  ///< by breakpoint, side, place
  std::vector<std::vector<bool>> before_, after_;      ///< by side and place: some breakpoint without, with a condition on values
  /// Parts of values that are compared across ranks, where not all ranks have come to them.
  std::map<std::string, std::map<int, exec::TensorBag>> open_;
};

}  // namespace spscope::session::debug
