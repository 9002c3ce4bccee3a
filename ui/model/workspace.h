// SPDX-License-Identifier: Apache-2.0
// The only door from the window to core, passes and profiler: commands in, immutable snapshots out. Used on the window's
// thread; the work is done on lanes of the JobQueue, and a newer request supersedes the one that runs. Whatever the window
// does it does through here, so a script can (actions.h).
//
// Views hold a Workspace&, read its snapshots and listen for topics. Nothing here knows Qt or ImGui.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/session/compile.h"
#include "core/session/model.h"
#include "core/session/node_values.h"
#include "core/session/run.h"
#include "core/session/shrink.h"
#include "core/session/verify.h"
#include "ui/model/state/job_queue.h"
#include "ui/model/state/selection.h"
#include "ui/model/trace_document.h"

namespace spscope::ui {

/// What changed; views re-read what they show of it.
enum class Topic { kModel, kSettings, kCompiled, kStage, kSelection, kVerified, kValues, kRun, kTrace, kDebug, kLog, kBusy };

/// A message for the log panel; errors also stay where they arose (compileError() ...).
struct LogEntry {
  Severity severity = Severity::kRemark;
  std::string source;   ///< "open", "compile", "verify", "run", "trace", "debug"
  std::string code, message, node, place, remedy;
};

struct WorkspaceSettings {
  passes::Settings compile;
  session::OpenRequest open;       ///< path, lengths, precision, marks
  session::DataRequest data;
  bool shrink = false;             ///< verify proves a reduced twin
  session::RunRequest run;         ///< only what concerns the run: ranks, steps, lr, clip, timeout, profile
  std::int64_t memory_limit_bytes = 0;  ///< 0: none; drawn as a line, and chips above it are marked
};

/// How a run goes, while it goes.
struct RunProgress {
  bool running = false, cancelled = false;
  std::vector<session::StepLine> steps;
  std::vector<session::RankStatus> ranks;              ///< of processes: where each is; empty before they start, and for virtual ranks
  std::shared_ptr<const session::RunOutcome> outcome;  ///< at its end
  std::optional<Error> error;                          ///< refused, or failed (outcome then holds what is known)
  std::string trace_path;                              ///< the profile that it wrote
};

class DebugSession;

class Workspace {
 public:
  explicit Workspace(Post post);
  ~Workspace();

  // --- listening ------------------------------------------------------------------------------------------------
  /// Called on the window's thread after the change. Returns a number for unlisten().
  int listen(std::function<void(Topic)> listener);
  void unlisten(int listener);

  // --- commands -------------------------------------------------------------------------------------------------
  /// A model, a stage saved by compile --stages, or a trace: told by its content.
  void open(const std::string& path);
  void openTraces(const std::vector<std::string>& paths);
  /// A second one to compare the first with; one lane of work, "beside". Topic::kTrace.
  void openTracesBeside(const std::vector<std::string>& paths);
  void closeTraceBeside();
  void closeTrace();
  /// Names and values of the command's flags without dashes ("sp", "4"); see settings_model.h for the list and what is legal.
  /// Recompiles when something was compiled before. Error usage: no such setting, no such value (with the legal ones).
  Status set(const std::string& name, const std::string& value);
  void compile();
  void verify();
  /// A step of virtual ranks as far as that node of the compiled program; lane "values". Topic::kValues.
  void readValues(ir::NodeId node, int output = 0);
  void run();
  /// Ends what runs in a lane: "open", "compile", "verify", "run", "trace"; "debug": its ranks stop where they are.
  void stop(const std::string& lane);
  /// The stage that is shown, and the one that it is compared with (-1: none). Indices into stages().
  void showStage(int stage);
  void compareWith(int stage);
  /// Both at once: the views look once.
  void showStages(int stage, int compared);
  void select(const Selection& selection);
  /// A node that the program has; where the shown stage has no such node, the last one is shown, which is what runs.
  void showNode(const Selection& selection);
  /// An event of the open trace with its node and rank, as showNode() does. No-op for a number that is none.
  void selectEvent(std::int32_t event);
  void back();
  void forward();
  void log(LogEntry entry);

  // --- snapshots ------------------------------------------------------------------------------------------------
  const WorkspaceSettings& settings() const { return settings_; }
  std::shared_ptr<const session::Model> model() const { return model_; }
  const std::optional<Error>& openError() const { return open_error_; }
  std::shared_ptr<const session::CompileOutcome> compiled() const { return compiled_; }
  const std::optional<Error>& compileError() const { return compile_error_; }
  /// The pass that failed; "" where none did: compileError() then refused the settings before any pass.
  const std::string& failedPass() const { return failed_.failed_pass; }
  std::shared_ptr<const session::VerifyOutcome> verified() const { return verified_; }
  /// What verified() was proved on, where that is a reduced twin; null: the step itself.
  std::shared_ptr<const session::ShrinkReport> shrunk() const { return verified_ ? shrunk_ : nullptr; }
  const std::optional<Error>& verifyError() const { return verify_error_; }
  /// Of the node that was asked for last; null: none, or not of what is compiled now.
  std::shared_ptr<const session::NodeValues> nodeValues() const { return values_; }
  ir::NodeId valuesAskedFor() const { return values_of_; }
  const std::optional<Error>& valuesError() const { return values_error_; }
  const RunProgress& runProgress() const { return run_; }
  std::shared_ptr<const TraceDocument> trace() const { return trace_; }
  std::shared_ptr<const TraceDocument> traceBeside() const { return beside_; }  ///< null: none
  const std::optional<Error>& traceError() const { return trace_error_; }
  const std::vector<LogEntry>& logEntries() const { return log_; }
  const Selection& selection() const { return history_.current(); }
  const SelectionHistory& history() const { return history_; }
  const JobProgress& progress() const { return progress_; }
  const JobQueue& jobs() const { return jobs_; }
  /// For view-models with work of their own, in lanes of their own names. What a job posts must not rely on its view-model.
  JobQueue& lanes() { return jobs_; }
  /// The debugger: ui/model/debug/debug_session.h.
  DebugSession& debug() { return *debug_; }
  const DebugSession& debug() const { return *debug_; }

  /// Stages in order, "import" first (the opened graph); empty before a model is open. Of a pipeline that failed: those
  /// that succeeded.
  struct Stage {
    std::string name;
    std::shared_ptr<const ir::Graph> graph;
    const passes::StageRecord* record = nullptr;  ///< null: import before a compilation. Valid until stages() change.
  };
  const std::vector<Stage>& stages() const { return stages_; }
  int stage() const { return stage_; }
  int comparedWith() const { return compared_; }
  /// The graph of the shown stage; null before a model is open.
  std::shared_ptr<const ir::Graph> graph() const;

 private:
  void tell(Topic topic);
  void logError(const std::string& source, const Error& error);
  void logAll(const std::string& source, const DiagnosticSink& sink);
  void opened(std::shared_ptr<const session::Model> model, bool same_file);
  void reopen();
  void reportStep(const session::StepLine& line);  ///< from the run's thread
  void reportRanks(const std::vector<session::RankStatus>& ranks);  ///< from the run's thread
  void rebuildStages();
  void dropValues();

  WorkspaceSettings settings_;
  std::shared_ptr<const session::Model> model_;
  std::shared_ptr<const session::CompileOutcome> compiled_;
  passes::Compiled failed_;  ///< what a failed pipeline left
  std::shared_ptr<const session::VerifyOutcome> verified_;
  std::shared_ptr<const session::ShrinkReport> shrunk_;
  std::shared_ptr<const TraceDocument> trace_, beside_;
  std::shared_ptr<const session::NodeValues> values_;
  ir::NodeId values_of_ = ir::kNone;
  std::optional<Error> open_error_, compile_error_, verify_error_, values_error_, trace_error_;
  RunProgress run_;
  std::vector<Stage> stages_;
  int stage_ = 0, compared_ = -1;
  SelectionHistory history_;
  std::vector<LogEntry> log_;
  JobProgress progress_;
  std::vector<std::pair<int, std::function<void(Topic)>>> listeners_;
  int next_listener_ = 1;
  JobQueue jobs_;  ///< its jobs end before the rest goes
  std::unique_ptr<DebugSession> debug_;  ///< last: it tells what runs on its lane to end
};

}  // namespace spscope::ui
