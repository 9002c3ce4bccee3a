// SPDX-License-Identifier: Apache-2.0
// The debugger of a sharded step: all ranks of it, in this process or as processes, and the unsharded step beside them. Commands in,
// plain answers out; front ends (text, JSON, later the window and editors) render them.
//
// Where the ranks stand is the node that each runs next. Names are those of the programs, with or without "%".
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
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
#include "core/session/run.h"
#include "core/session/value_map.h"

namespace spscope::session::debug {

/// Where the ranks of a debugged step are.
struct RanksWanted {
  std::string kind = "virtual";    ///< "gloo", "nccl": a process each
  OpenRequest open;                ///< processes: the model, which they open again
  double timeout_seconds = 120.0;  ///< processes: of each collective, and of whatever a rank that stands is asked
  std::string program;             ///< processes: see RunRequest::program
};

class Debugger {
 public:
  struct Setup {
    Sides sides;  ///< programs, weights, inputs, and what to compare with; budget_bytes: of snapshots, and of the twin's values
    std::shared_ptr<const CompileOutcome> compiled;  ///< for the answers to "why"; null: they say less
    std::optional<Origin> origin;                    ///< for what compiles, loads or trains again; empty: that is refused
    std::optional<RunRequest> processes;             ///< ranks as processes, which take weights and inputs from here; sides holds the same
  };
  /// The step has begun, nothing has run. Errors: those of VirtualTape::create, ProcessTape::create.
  static Result<std::unique_ptr<Debugger>> create(Setup setup, const Request& request);
  /// Compiles both sides, loads weights and inputs. `budget_bytes`: see Sides. Errors: those of compile, loadState, loadInputs.
  static Result<std::unique_ptr<Debugger>> open(const Model& model, const passes::Settings& settings, const DataRequest& data, const Request& request,
                                                std::int64_t budget_bytes = 0, const RanksWanted& ranks = {});
  /// The same of a program that is compiled already, for all ranks, with these settings.
  static Result<std::unique_ptr<Debugger>> open(const Model& model, std::shared_ptr<const CompileOutcome> compiled, const passes::Settings& settings,
                                                const DataRequest& data, const Request& request, std::int64_t budget_bytes = 0, const RanksWanted& ranks = {});
  /// What follows reports to this request, and its token stops it: ranks that move stop before their next node (StopReason::kPaused)
  /// with everything as it is. The token that the debugger was made with ends it for good.
  void use(const Request& request) { request_ = request; }

  int ranks() const { return tape_.size(); }
  /// Process ids of the ranks; empty: they are in this process.
  std::vector<int> processes() const { return tape_.processes(); }
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
  /// From any thread, while a command runs: it stops as soon as all ranks can stand (reason kPaused).
  void pause() { pause_ = true; }
  /// The same, for a signal handler: the flag that pause() sets.
  std::atomic<bool>& pauseFlag() { return pause_; }
  /// So many moves back; to the beginning where there are fewer.
  Result<Stop> back(std::int64_t count = 1);
  /// Back to where such a node was next on some rank the last time. Errors: debug-no-node; usage (it has not run).
  Result<Stop> backTo(const NodeQuery& query);
  /// Back to where a breakpoint that stops was met the last time before now, else to the beginning. Hits are neither counted nor asked for.
  Result<Stop> backToBreakpoint();

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
  enum class There : std::uint8_t { kNotYet, kLive, kGone };
  /// Whether looking at it costs nothing now, or has it computed again; of all ranks what holds for the worst off. Errors: value-unknown.
  Result<There> there(const std::string& value, int rank = -1) const;
  Result<ValueLook> look(const std::string& value, int rank = -1);
  /// Put together by its placement; where the graph does not say it, by what fits the unsharded value. Errors: also
  /// debug-no-placement.
  Result<exec::TensorBag> whole(const std::string& value, bool* again = nullptr);
  /// The unsharded program's value. Errors: debug-no-twin.
  Result<exec::TensorBag> unsharded(const std::string& value);
  /// With the twin's value; see setTwin.
  Result<Comparison> compare(const std::string& value);
  Result<Comparison> compareRanks(const std::string& value, int rank, int with);
  /// The first node, in program order, whose value differs from the unsharded one in the whole step, which runs apart from this one.
  Result<ValueComparison> firstWrong();
  /// After which pass, and with which of its rewrites, the whole step first differs. Errors: debug-no-origin, those of the passes.
  Result<Bisection> bisect();

  /// What `compare`, and the condition "differs" where it is one program, hold values against from now on. Errors: those of makeReference.
  Status setTwin(const ReferenceChoice& choice);
  /// In words: "the unsharded step".
  std::string twinWords() const;
  /// What this debugger runs, for questions about the whole step, which run it apart from this one.
  const Sides& sides() const { return setup_.sides; }
  const CompileOutcome* compiled() const { return setup_.compiled.get(); }
  const Origin* origin() const { return setup_.origin ? &*setup_.origin : nullptr; }
  const Request& request() const { return request_; }

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
  Debugger(Setup setup, const Request& request, std::unique_ptr<Tape> tape);
  /// What ends the debugger ends a move inside the executor; what only stops it leaves all ranks between two nodes.
  bool wantsPause() { return pause_.exchange(false) || (request_.cancel.cancelled() && !life_.cancelled()); }
  const Side& side(int rank) const { return sides_[side_of_[static_cast<std::size_t>(rank)]]; }
  Counterpart counterpart(int rank, ir::ValueId value);
  Result<Twin*> twin();
  Result<Comparison> compareByRank(const std::string& value);
  NodeName nameOf(int rank, std::size_t place) const;
  NodeName nameOf(int rank, const ir::Node& node) const;
  Result<ir::ValueId> valueNamed(int rank, const std::string& name) const;
  /// The value of that name on a rank; where its program has none, what it made last of the same value of the unsharded program.
  Result<ir::ValueId> partOn(int rank, const std::string& name, ir::ValueId reference);
  /// Whether the rank has run the node that makes the value.
  bool computed(int rank, ir::ValueId value) const;

  /// What a query for a stage means besides provenance, which knows the last one only.
  std::set<ir::NodeId> stageNodes(const Side& s, const NodeQuery& query) const;
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
    std::string node = {};  ///< only of metNow()
  };
  /// Where the condition is met by a value that a rank has just made.
  Result<std::optional<Met>> met(const Condition& condition, int rank, ir::ValueId value);
  Result<std::optional<Met>> metAcrossRanks(const Condition& condition, int rank, ir::ValueId value, const Places& before);
  /// The last breakpoint with a condition on values that what has just run meets, by its number. Counts nothing.
  Result<std::optional<std::pair<int, Met>>> metNow(const Places& before);
  Status saveValues(const Breakpoint& breakpoint, int rank, const ir::Node& node, std::vector<std::string>& log);

  Setup setup_;
  Request request_;
  CancelToken life_;  ///< of the request that it was made with
  std::unique_ptr<Tape> owned_tape_;
  Tape& tape_;
  std::atomic<bool> pause_{false};
  std::vector<Side> sides_;
  std::vector<std::size_t> side_of_;   ///< by rank
  std::vector<std::int64_t> outers_;   ///< see shardOuters
  std::optional<Reference> reference_;  ///< of twin_; empty: the unsharded step
  std::unique_ptr<Twin> twin_;          ///< made when first needed
  std::unique_ptr<Twin> rank_twin_;     ///< null: values are held against twin_
  std::vector<Breakpoint> breakpoints_;
  int last_breakpoint_ = 0;
  std::vector<std::vector<std::vector<bool>>> marks_;  ///< by breakpoint, side, place
  std::vector<std::vector<bool>> before_, after_;      ///< by side and place: some breakpoint without, with a condition on values
  /// Parts of values that are compared across ranks, where not all ranks have come to them.
  std::map<std::string, std::map<int, exec::TensorBag>> open_;
};

}  // namespace spscope::session::debug
