// SPDX-License-Identifier: Apache-2.0
#include "ui/model/workspace.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/session/stage.h"
#include "ui/model/attempt.h"
#include "ui/model/debug/debug_session.h"
#include "ui/model/settings_model.h"

namespace spscope::ui {
namespace {

constexpr std::size_t kLogKept = 5000;

}  // namespace

Workspace::Workspace(Post post) : jobs_(std::move(post)) {
  settings_.run.steps = 3;
  jobs_.on_progress = [this](const JobProgress& p) {
    progress_ = p;
    tell(Topic::kBusy);
  };
  jobs_.on_busy = [this] {
    if (!jobs_.busy()) progress_ = {};
    tell(Topic::kBusy);
  };
  debug_ = std::make_unique<DebugSession>(*this, [this](Topic topic) { tell(topic); });
}

Workspace::~Workspace() = default;

int Workspace::listen(std::function<void(Topic)> listener) {
  listeners_.emplace_back(next_listener_, std::move(listener));
  return next_listener_++;
}

void Workspace::unlisten(int listener) {
  std::erase_if(listeners_, [&](const auto& l) { return l.first == listener; });
}

void Workspace::tell(Topic topic) {
  // By number: a listener may add or remove listeners.
  std::vector<int> numbers;
  for (const auto& [number, listener] : listeners_) numbers.push_back(number);
  for (const int number : numbers) {
    const auto it = std::find_if(listeners_.begin(), listeners_.end(), [&](const auto& l) { return l.first == number; });
    if (it == listeners_.end()) continue;
    const std::function<void(Topic)> call = it->second;
    call(topic);
  }
}

void Workspace::log(LogEntry entry) {
  log_.push_back(std::move(entry));
  if (log_.size() > kLogKept) log_.erase(log_.begin(), log_.begin() + 1000);
  tell(Topic::kLog);
}

void Workspace::logError(const std::string& source, const Error& error) {
  if (error.code == "cancelled") return log({Severity::kRemark, source, error.code, "stopped", {}, {}, {}});
  std::string remedy = error.remedy;
  if (!error.legal.empty()) remedy += (remedy.empty() ? "" : " ") + std::string("Legal: ") + error.legal;
  log({Severity::kError, source, error.code, error.message, error.node, error.source, remedy});
}

void Workspace::logAll(const std::string& source, const DiagnosticSink& sink) {
  for (const Diagnostic& d : sink.all()) log({d.severity, source, d.code, d.message, d.node, d.source, d.remedy});
}

// --- opening ----------------------------------------------------------------------------------------------------------

void Workspace::open(const std::string& path) {
  session::OpenRequest what;
  what.path = path;
  what.sequence_marks = settings_.open.sequence_marks;
  const bool same = path == settings_.open.path;
  if (same) what = settings_.open;
  jobs_.submit("open", [this, what, same](const JobContext& context) -> std::function<void()> {
    // A trace is told by its content; what is neither says what a model should be.
    using Opened = std::pair<session::OpenRequest, std::shared_ptr<const session::Model>>;
    auto out = attempt<Opened>([&](DiagnosticSink& sink) -> Result<Opened> {
      SP_ASSIGN(const session::OpenRequest resolved, session::resolveStage(what));
      SP_ASSIGN(auto model, session::open(resolved, requestOf(context, sink)));
      return Opened{resolved, std::move(model)};
    });
    std::shared_ptr<const TraceDocument> trace;
    if (!out->value && out->error->code != "cancelled")
      if (auto document = openTraceDocument({what.path}, context.progress, context.cancel); document) trace = std::move(*document);
    return [this, out, trace, same, path = what.path] {
      if (trace) {
        trace_ = trace;
        trace_error_.reset();
        tell(Topic::kTrace);
        return;
      }
      logAll("open", out->diagnostics);
      open_error_ = out->error;
      if (out->error) {
        logError("open", *out->error);
        tell(Topic::kModel);
        return;
      }
      settings_.open = out->value->first;
      opened(out->value->second, same);
    };
  });
}

void Workspace::reopen() {
  if (!settings_.open.path.empty()) open(settings_.open.path);
}

void Workspace::opened(std::shared_ptr<const session::Model> model, bool same_file) {
  // A compilation that is under way is of the model as it was.
  const bool again = same_file && (compiled_ || compile_error_ || jobs_.busy("compile"));
  model_ = std::move(model);
  settings_.compile.sequence_marks = settings_.open.sequence_marks;
  compiled_.reset();
  failed_ = {};
  compile_error_.reset();
  verified_.reset();
  verify_error_.reset();
  dropValues();
  if (!same_file) {
    jobs_.cancel("compile");
    jobs_.cancel("verify");
    history_.clear();
    compared_ = -1;
    stage_ = 0;
  }
  rebuildStages();
  tell(Topic::kModel);
  tell(Topic::kStage);
  tell(Topic::kSelection);
  if (again) compile();
}

void Workspace::openTraces(const std::vector<std::string>& paths) {
  jobs_.submit("trace", [this, paths](const JobContext& context) -> std::function<void()> {
    using Document = std::shared_ptr<const TraceDocument>;
    auto out = attempt<Document>([&](DiagnosticSink&) { return openTraceDocument(paths, context.progress, context.cancel); });
    return [this, out] {
      trace_error_ = out->error;
      if (out->value) {
        trace_ = *out->value;
        // Its number means another event now.
        if (Selection s = selection(); s.event >= 0) s.event = -1, select(s);
      }
      if (out->error) logError("trace", *out->error);
      tell(Topic::kTrace);
    };
  });
}
void Workspace::openTracesBeside(const std::vector<std::string>& paths) {
  jobs_.submit("beside", [this, paths](const JobContext& context) -> std::function<void()> {
    using Document = std::shared_ptr<const TraceDocument>;
    auto out = attempt<Document>([&](DiagnosticSink&) { return openTraceDocument(paths, context.progress, context.cancel); });
    return [this, out] {
      if (out->value) beside_ = *out->value;
      if (out->error) logError("trace", *out->error);
      tell(Topic::kTrace);
    };
  });
}
void Workspace::closeTraceBeside() {
  jobs_.cancel("beside");
  beside_.reset();
  tell(Topic::kTrace);
}

void Workspace::closeTrace() {
  jobs_.cancel("trace");
  trace_.reset();
  trace_error_.reset();
  Selection s = selection();
  s.event = -1;
  select(s);
  tell(Topic::kTrace);
}

// --- settings and compiling ---------------------------------------------------------------------------------------------

Status Workspace::set(const std::string& name, const std::string& value) {
  WorkspaceSettings changed = settings_;
  SP_TRY(changeSetting(changed, name, value));
  if (settingText(changed, name) == settingText(settings_, name)) return {};
  settings_ = std::move(changed);
  tell(Topic::kSettings);
  const SettingInfo& info = *findSetting(name);
  if (info.reopens)
    reopen();
  else if (info.recompiles && (compiled_ || compile_error_ || jobs_.busy("compile")))
    compile();
  return {};
}

void Workspace::compile() {
  if (!model_) return;
  jobs_.submit("compile", [this, model = model_, settings = settings_.compile](const JobContext& context) -> std::function<void()> {
    auto partial = std::make_shared<passes::Compiled>();
    auto out = attempt<session::CompileOutcome>([&](DiagnosticSink& sink) {
      session::CompileRequest what;
      what.settings = settings;
      what.partial = partial.get();
      return session::compile(*model, what, requestOf(context, sink));
    });
    return [this, out, partial] {
      logAll("compile", out->diagnostics);
      failed_ = std::move(*partial);
      compile_error_ = out->error;
      verified_.reset();
      verify_error_.reset();
      dropValues();
      if (out->value) compiled_ = std::make_shared<const session::CompileOutcome>(std::move(*out->value));
      else compiled_.reset();
      if (out->error) logError("compile", *out->error);
      rebuildStages();
      tell(Topic::kCompiled);
      tell(Topic::kVerified);
      tell(Topic::kStage);
    };
  });
}

void Workspace::rebuildStages() {
  const std::string shown = stage_ < static_cast<int>(stages_.size()) ? stages_[static_cast<std::size_t>(stage_)].name : "";
  const std::string compared = compared_ >= 0 && compared_ < static_cast<int>(stages_.size()) ? stages_[static_cast<std::size_t>(compared_)].name : "";
  stages_.clear();
  const auto add = [&](const passes::StageRecord& record) {
    if (record.name == "import" && !stages_.empty()) stages_.front().record = &record;
    else stages_.push_back({record.name, record.graph, &record});
  };
  if (model_) stages_.push_back({"import", model_->graph, nullptr});
  if (compiled_)
    for (const passes::StageRecord& record : compiled_->compiled.stages) add(record);
  for (const passes::StageRecord& record : failed_.stages) add(record);
  stage_ = 0;
  compared_ = -1;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    if (stages_[i].name == shown) stage_ = static_cast<int>(i);
    if (stages_[i].name == compared) compared_ = static_cast<int>(i);
  }
}

std::shared_ptr<const ir::Graph> Workspace::graph() const {
  return stages_.empty() ? nullptr : stages_[static_cast<std::size_t>(stage_)].graph;
}

void Workspace::showStage(int stage) {
  if (stage < 0 || stage >= static_cast<int>(stages_.size()) || stage == stage_) return;
  stage_ = stage;
  tell(Topic::kStage);
}

void Workspace::compareWith(int stage) {
  if (stage < -1 || stage >= static_cast<int>(stages_.size()) || stage == compared_) return;
  compared_ = stage;
  tell(Topic::kStage);
}

void Workspace::showStages(int stage, int compared) {
  const int count = static_cast<int>(stages_.size());
  if (stage < 0 || stage >= count || compared < -1 || compared >= count || (stage == stage_ && compared == compared_)) return;
  stage_ = stage;
  compared_ = compared;
  tell(Topic::kStage);
}

// --- verify and run -----------------------------------------------------------------------------------------------------

void Workspace::verify() {
  if (!model_) return;
  session::VerifyRequest what;
  what.settings = settings_.compile;
  what.data = settings_.data;
  what.open = settings_.open;
  jobs_.submit("verify", [this, model = model_, what, shrink = settings_.shrink](const JobContext& context) -> std::function<void()> {
    auto report = std::make_shared<std::shared_ptr<const session::ShrinkReport>>();
    auto out = attempt<session::VerifyOutcome>([&](DiagnosticSink& sink) -> Result<session::VerifyOutcome> {
      if (!shrink) return session::verify(*model, what, requestOf(context, sink));
      session::ShrinkRequest twin;
      twin.verify = what;
      SP_ASSIGN(session::ShrinkOutcome outcome, session::verifyShrunk(*model, twin, requestOf(context, sink)));
      *report = std::make_shared<const session::ShrinkReport>(std::move(outcome.report));
      return std::move(outcome.proof);
    });
    return [this, out, report] {
      logAll("verify", out->diagnostics);
      verify_error_ = out->error;
      verified_.reset();
      shrunk_ = std::move(*report);
      if (out->value) verified_ = std::make_shared<const session::VerifyOutcome>(std::move(*out->value));
      if (out->error) logError("verify", *out->error);
      if (shrunk_)  // what it shows, and what it leaves open
        for (const auto* sentences : {&shrunk_->kept, &shrunk_->not_kept})
          for (const std::string& sentence : *sentences) log({Severity::kRemark, "verify", "", (sentences == &shrunk_->kept ? "reduced twin: " : "not shown by it: ") + sentence, {}, {}, {}});
      tell(Topic::kVerified);
    };
  });
}

void Workspace::dropValues() {
  jobs_.cancel("values");
  values_.reset();
  values_error_.reset();
  values_of_ = ir::kNone;
}

void Workspace::readValues(ir::NodeId node, int output) {
  if (!model_ || !compiled_) return;
  session::NodeValuesRequest what;
  what.settings = settings_.compile;
  what.data = settings_.data;
  what.programs = session::programsOf(compiled_->compiled);
  what.node = node;
  what.output = output;
  dropValues();
  values_of_ = node;
  jobs_.submit("values", [this, model = model_, what](const JobContext& context) -> std::function<void()> {
    auto out = attempt<session::NodeValues>([&](DiagnosticSink& sink) { return session::nodeValues(*model, what, requestOf(context, sink)); });
    return [this, out] {
      values_error_ = out->error;
      if (out->value) values_ = std::make_shared<const session::NodeValues>(std::move(*out->value));
      if (out->error) logError("values", *out->error);
      tell(Topic::kValues);
    };
  });
  tell(Topic::kValues);
}

void Workspace::run() {
  if (!model_) return;
  session::RunRequest what = settings_.run;
  what.open = settings_.open;
  what.settings = settings_.compile;
  what.data = settings_.data;
  what.on_ranks = [this](const std::vector<session::RankStatus>& ranks) { reportRanks(ranks); };
  run_ = {};
  run_.running = true;
  tell(Topic::kRun);
  jobs_.submit("run", [this, what](const JobContext& context) -> std::function<void()> {
    auto out = attempt<session::RunOutcome>([&](DiagnosticSink& sink) {
      return session::run(what, requestOf(context, sink), [&](const session::StepLine& line) { reportStep(line); });
    });
    return [this, out, trace_path = what.profile.file] {
      logAll("run", out->diagnostics);
      run_.running = false;
      run_.error = out->error;
      if (out->value) {
        run_.steps = out->value->steps;
        run_.cancelled = out->value->cancelled;
        if (out->value->failure) run_.error = out->value->failure->error;
        run_.outcome = std::make_shared<const session::RunOutcome>(std::move(*out->value));
      }
      if (run_.error) logError("run", *run_.error);
      run_.trace_path = trace_path;
      tell(Topic::kRun);
      if (out->value && !trace_path.empty()) openTraces({trace_path});
    };
  });
}

void Workspace::reportStep(const session::StepLine& line) {
  jobs_.post([this, line] {
    if (!run_.running) return;
    run_.steps.push_back(line);
    tell(Topic::kRun);
  });
}

void Workspace::reportRanks(const std::vector<session::RankStatus>& ranks) {
  jobs_.post([this, ranks] {
    if (!run_.running) return;
    run_.ranks = ranks;
    tell(Topic::kRun);
  });
}

void Workspace::stop(const std::string& lane) {
  if (lane == DebugSession::kLane) return debug_->pause();
  if (!jobs_.busy(lane)) return;
  // A run that is stopped still tells what it did; the other lanes' results are of no use.
  if (lane == "run") return jobs_.interrupt(lane);
  jobs_.cancel(lane);
  log({Severity::kRemark, lane, "cancelled", "stopped", {}, {}, {}});
}

// --- selection ------------------------------------------------------------------------------------------------------------

void Workspace::select(const Selection& selection) {
  if (history_.set(selection)) tell(Topic::kSelection);
}
void Workspace::selectEvent(std::int32_t event) {
  if (!trace_ || event < 0 || static_cast<std::size_t>(event) >= trace_->trace.events.size()) return;
  showNode(selectionOfEvent(trace_->trace, event));
}
void Workspace::showNode(const Selection& s) {
  const auto has = [&](const ir::Graph& g) { return std::find(g.order.begin(), g.order.end(), s.node) != g.order.end(); };
  if (s.node != ir::kNone && graph() && !has(*graph()) && has(*stages_.back().graph)) showStages(static_cast<int>(stages_.size()) - 1, -1);
  select(s);
}
void Workspace::back() {
  if (history_.back()) tell(Topic::kSelection);
}
void Workspace::forward() {
  if (history_.forward()) tell(Topic::kSelection);
}

}  // namespace spscope::ui
