// SPDX-License-Identifier: Apache-2.0
#include "ui/model/run_view.h"

#include <algorithm>
#include <cmath>

#include "core/base/strings.h"

namespace spscope::ui {
namespace {

const char* const kFields[] = {"ranks", "steps", "optimizer", "lr", "clip", "inputs", "seed", "seed-weights", "profile"};

constexpr double kLeft = 62, kRight = 8, kTop = 6, kBottom = 4;

/// Where a scale has its lines: as many as can stand below each other.
std::vector<double> scaleParts(double height) {
  if (height < 18) return {0.5};
  if (height < 44) return {0.05, 0.95};
  return {0.1, 0.5, 0.9};
}

/// Points of a series in a viewport; values that are no numbers are left out.
std::vector<RunPlot::Point> lineOf(const std::vector<double>& values, double low, double high, double width, double height) {
  std::vector<RunPlot::Point> out;
  const double across = std::max(1.0, width - kLeft - kRight), up = std::max(1.0, height - kTop - kBottom);
  const double n = std::max<double>(1, static_cast<double>(values.size()) - 1);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (std::isfinite(values[i])) out.push_back({kLeft + static_cast<double>(i) / n * across, kTop + (1 - (values[i] - low) / (high - low)) * up});
  return out;
}

}  // namespace

RunView::RunView(Workspace& workspace) : workspace_(workspace) {
  listener_ = workspace_.listen([this](Topic topic) {
    if (topic == Topic::kVerified && workspace_.verified() != announced_) {
      announced_ = workspace_.verified();
      if (announced_ && announced_->first_difference) selectNode(announced_->first_difference->node);
    }
    const bool ours = topic == Topic::kModel || topic == Topic::kSettings || topic == Topic::kCompiled || topic == Topic::kVerified || topic == Topic::kRun || topic == Topic::kBusy;
    if (ours && on_changed) on_changed();
  });
}

RunView::~RunView() { workspace_.unlisten(listener_); }

std::vector<RunField> RunView::fields() const {
  std::vector<RunField> out;
  for (const char* name : kFields)
    if (const SettingInfo* info = findSetting(name))
      out.push_back({*info, settingText(workspace_.settings(), name), choicesFor(workspace_.model().get(), workspace_.settings(), name)});
  return out;
}

std::string RunView::whyNotRun() const {
  if (running()) return "It runs.";
  if (!workspace_.model()) return "Open a model first.";
  if (workspace_.compileError()) return "The model does not compile: " + workspace_.compileError()->message;
  return {};
}

std::string RunView::header() const {
  const RunProgress& run = workspace_.runProgress();
  const std::string of = std::to_string(workspace_.settings().run.steps);
  std::string out;
  if (!run.steps.empty()) {
    const session::StepLine& last = run.steps.back();
    out = strf("step %zu of ", run.steps.size()) + of + strf(" · loss %.6g · ", last.loss) + formatNs(last.ns) + " a step";
  }
  if (run.running) return out.empty() ? (workspace_.progress().lane == "run" ? workspace_.progress().what : std::string("starting")) : out;
  if (run.error) return out.empty() ? "failed" : "failed after " + out;
  if (run.cancelled) return "stopped" + (out.empty() ? "" : " after " + out);
  if (out.empty()) return workspace_.model() ? "Nothing was run yet." : "Open a model, then run it.";
  return out;
}

std::string RunView::ranksAbsent() const {
  const RunProgress& run = workspace_.runProgress();
  if (workspace_.settings().run.ranks == "virtual" && (run.running || run.outcome)) return "Virtual ranks go in step, all in this process: none is ahead of another.";
  if (run.running) return "The ranks are being started.";
  if (run.outcome || run.error) return "No rank was started.";
  return "Where each rank is will be shown here while it runs.";
}

std::vector<RankRow> RunView::ranks() const {
  const RunProgress& run = workspace_.runProgress();
  std::vector<RankRow> out;
  for (const session::RankStatus& s : run.ranks) {
    RankRow row;
    row.rank = s.rank;
    row.ended = s.ended;
    row.step = s.step < 0 ? "" : std::to_string(s.step);
    const bool done = s.ended && s.end == "done";  // where it was last says nothing any more
    if (!done) row.node = s.node;
    if (!s.collective.empty() && !done) row.collective = s.collective + strf(" #%lld", static_cast<long long>(s.sequence)) + (s.inside_collective && !s.ended ? ", in it" : "");
    if (s.ended) row.state = s.end;
    else if (s.silent_ns > 5'000'000'000) row.state = "silent for " + formatNs(s.silent_ns);
    else if (s.phase.empty()) row.state = "starting";
    else if (s.inside_collective) row.state = "waits for other ranks";
    else row.state = s.phase == "step" ? strf("in step %lld", static_cast<long long>(s.step)) : s.phase;
    out.push_back(std::move(row));
  }
  if (!run.outcome) return out;
  if (out.empty())  // virtual ranks have figures, too
    for (std::size_t r = 0; r < run.outcome->peak_bytes.size(); ++r) {
      RankRow row;
      row.rank = static_cast<int>(r);
      row.state = run.cancelled ? "stopped" : "done";
      row.ended = true;
      out.push_back(std::move(row));
    }
  for (RankRow& row : out) {
    const auto r = static_cast<std::size_t>(row.rank);
    if (run.outcome->failure) row.failed = run.outcome->failure->rank == row.rank;
    if (r < run.outcome->peak_bytes.size() && run.outcome->peak_bytes[r] > 0) row.memory = formatBytes(run.outcome->peak_bytes[r]);
    if (!row.memory.empty() && r < run.outcome->predicted_peak_bytes.size()) row.predicted = formatBytes(run.outcome->predicted_peak_bytes[r]);
  }
  return out;
}

RunPlot RunView::lossPlot(double width, double height) const {
  RunPlot out;
  out.left = kLeft;
  std::vector<double> values;
  for (const session::StepLine& s : workspace_.runProgress().steps) values.push_back(s.loss);
  out.title = "loss";
  if (values.empty()) {
    out.absent = running() ? "No step is done yet." : "No run yet.";
    return out;
  }
  out.title = strf("loss %.6g", values.back());
  double low = INFINITY, high = -INFINITY;
  for (const double v : values)
    if (std::isfinite(v)) low = std::min(low, v), high = std::max(high, v);
  if (!std::isfinite(low)) {
    out.absent = "No step's loss is a finite number.";
    return out;
  }
  const double pad = high > low ? 0.08 * (high - low) : std::max(1e-12, 0.1 * std::abs(high));
  low -= pad;
  high += pad;
  out.line = lineOf(values, low, high, width, height);
  const double up = std::max(1.0, height - kTop - kBottom);
  for (const double part : scaleParts(up)) out.scale.emplace_back(kTop + (1 - part) * up, strf("%.4g", low + part * (high - low)));
  out.first = strf("step %lld", static_cast<long long>(workspace_.runProgress().steps.front().step));
  if (values.size() > 1) out.last = strf("step %lld", static_cast<long long>(workspace_.runProgress().steps.back().step));
  return out;
}

RunPlot RunView::timePlot(double width, double height) const {
  RunPlot out;
  out.left = kLeft;
  std::vector<double> values, exposed;
  double high = 0;
  for (const session::StepLine& s : workspace_.runProgress().steps) {
    values.push_back(static_cast<double>(s.ns));
    exposed.push_back(static_cast<double>(s.exposed_comm_ns));
    high = std::max(high, values.back());
  }
  out.title = "step time";
  if (values.empty()) {
    out.absent = running() ? "No step is done yet." : "No run yet.";
    return out;
  }
  const session::StepLine& last = workspace_.runProgress().steps.back();
  out.title = "step " + formatNs(last.ns) + (last.comm_ns > 0 ? ", of it waiting " + formatNs(last.exposed_comm_ns) : ", no communication measured");
  high = std::max(1.0, 1.08 * high);
  out.line = lineOf(values, 0, high, width, height);
  if (std::any_of(exposed.begin(), exposed.end(), [](double v) { return v > 0; })) out.exposed = lineOf(exposed, 0, high, width, height);
  const double up = std::max(1.0, height - kTop - kBottom);
  for (const double part : scaleParts(up)) out.scale.emplace_back(kTop + (1 - part) * up, formatNs(static_cast<std::int64_t>(part * high)));
  out.first = strf("step %lld", static_cast<long long>(workspace_.runProgress().steps.front().step));
  if (values.size() > 1) out.last = strf("step %lld", static_cast<long long>(last.step));
  return out;
}

std::optional<RunFailureText> RunView::failure() const {
  const RunProgress& run = workspace_.runProgress();
  if (!run.error || run.error->code == "cancelled") return std::nullopt;
  RunFailureText out;
  out.message = run.error->message + " [" + run.error->code + "]";
  out.remedy = run.error->remedy;
  if (!run.error->legal.empty()) out.remedy += (out.remedy.empty() ? "" : " ") + std::string("Legal: ") + run.error->legal;
  out.details = run.error->notes;
  out.node = run.error->node;
  out.title = "refused before any step";
  if (run.outcome && run.outcome->failure) {
    const session::RankFailure& f = *run.outcome->failure;
    if (!f.node.empty()) out.node = f.node;
    out.title = strf("rank %d failed", f.rank) + (out.node.empty() ? "" : " at " + out.node);
    out.log = f.log;
  }
  return out;
}

std::string RunView::remark() const {
  const RunProgress& run = workspace_.runProgress();
  if (run.running || !run.outcome) return {};
  std::vector<std::string> out;
  if (run.cancelled) out.push_back(strf("stopped after %zu steps", run.steps.size()));
  if (run.outcome->profile) out.push_back(strf("%lld events recorded in ", static_cast<long long>(run.outcome->profile->events)) + run.trace_path);
  if (run.outcome->profile_error) out.push_back("no profile: " + run.outcome->profile_error->message);
  if (!run.outcome->saved_to.empty()) out.push_back("saved in " + run.outcome->saved_to);
  if (run.outcome->comm_bytes > 0) out.push_back(formatBytes(run.outcome->comm_bytes) + " sent by a rank in a step");
  return join(out, " · ");
}

Verdict verdictOf(const session::VerifyOutcome& v) {
  Verdict out;
  out.kind = v.equal ? Verdict::Kind::kEqual : Verdict::Kind::kDifferent;
  out.title = std::string(v.equal ? "equal" : "different") + strf(": worst gradient %.2g, allowed %.2g", v.gradients.rel_max, v.tolerance.gradient);
  out.detail = strf("loss %.10g, unsharded %.10g (relative difference %.2g, allowed %.2g); worst on rank %d", v.loss, v.reference_loss, v.loss_rel, v.tolerance.loss, v.worst_rank);
  for (const exec::ParameterDifference& p : v.gradients.parameters) out.rows.push_back({p.name, p.rel, p.norm, p.got, p.wanted, p.rel <= v.tolerance.gradient});
  // What is no number is the worst of all.
  std::stable_sort(out.rows.begin(), out.rows.end(), [](const VerdictRow& a, const VerdictRow& b) {
    if (std::isnan(a.rel) != std::isnan(b.rel)) return std::isnan(a.rel);
    return a.rel > b.rel;
  });
  if (v.first_difference) {
    const session::FirstDifference& d = *v.first_difference;
    std::vector<std::string> ranks;
    for (const int r : d.ranks) ranks.push_back(std::to_string(r));
    out.first_node = d.node;
    out.first = "first difference: %" + d.node + " (" + d.op + ", " + (d.phase == ir::Phase::kForward ? "forward" : "backward") + ")";
    if (!d.source.empty()) out.first += ", " + d.source;
    out.first += (ranks.size() == 1 ? ", rank " : ", ranks ") + join(ranks, ", ") + ", made by " + d.pass;
    if (!d.parameter.empty()) out.first += d.parameter == "loss" ? ", as the loss" : ", as the gradient of " + d.parameter;
    if (!d.remark.empty()) out.first += "; " + d.remark;
  }
  return out;
}

Verdict RunView::verdict() const {
  Verdict out;
  if (workspace_.jobs().busy("verify")) {
    out.kind = Verdict::Kind::kRunning;
    out.title = "verifying";
    out.detail = "The unsharded graph runs, then all ranks.";
    return out;
  }
  if (workspace_.verifyError()) {
    out.kind = Verdict::Kind::kFailed;
    out.title = "no verdict";
    out.detail = workspace_.verifyError()->message;
    return out;
  }
  const auto v = workspace_.verified();
  if (!v) {
    out.title = "not verified";
    out.detail = workspace_.model() ? "Verify compares loss and every gradient with the unsharded graph." : "Open a model first.";
    return out;
  }
  out = verdictOf(*v);
  if (workspace_.shrunk()) out.title += ", on a reduced twin (the log says what that leaves open)";
  return out;
}

void RunView::selectParameter(const std::string& name) {
  const auto graph = workspace_.graph();
  if (!graph) return;
  for (const ir::Input& input : graph->inputs) {
    if (input.name != name && std::find(input.aliases.begin(), input.aliases.end(), name) == input.aliases.end()) continue;
    Selection s;
    s.value = input.value;
    // What shards or varies it is not what the user wrote: its result's reader is.
    std::vector<ir::ValueId> known{input.value};
    for (const ir::NodeId id : graph->order) {
      bool reads = false;
      const ir::Node& node = graph->node(id);
      ir::forEachUse(node, [&](const ir::Use& use) { reads = reads || std::find(known.begin(), known.end(), use.value) != known.end(); });
      if (!reads) continue;
      if (s.node == ir::kNone) s.node = id;
      if (!node.op.str().starts_with("sp.")) {
        s.node = id;
        break;
      }
      for (const ir::ValueId v : node.outputs)
        if (v != ir::kNone) known.push_back(v);
    }
    return workspace_.select(s);
  }
}

void RunView::selectNode(const std::string& name) {
  const std::string bare = name.starts_with("%") ? name.substr(1) : name;
  const auto& stages = workspace_.stages();
  const auto nodeIn = [&](const ir::Graph* graph) {
    if (graph != nullptr)
      for (const ir::NodeId id : graph->order)
        if (graph->node(id).name == bare) return id;
    return ir::kNone;
  };
  if (stages.empty() || bare.empty()) return;
  Selection s;
  s.node = nodeIn(workspace_.graph().get());
  if (s.node == ir::kNone) {
    s.node = nodeIn(stages.back().graph.get());
    if (s.node == ir::kNone) return;
    workspace_.showStage(static_cast<int>(stages.size()) - 1);
  }
  workspace_.select(s);
}

}  // namespace spscope::ui
