// SPDX-License-Identifier: Apache-2.0
// spscope run: trains on real ranks.
#include "core/session/run.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>

#include "app/commands/command.h"
#include "app/commands/compile_charts.h"
#include "app/commands/compile_report.h"
#include "app/commands/run_nsys.h"
#include "app/options.h"
#include "core/base/log.h"
#include "core/base/strings.h"
#include "core/session/stage.h"

namespace spscope::app {
namespace {

class Run : public Command {
 public:
  std::string name() const override { return "run"; }
  std::string summary() const override { return "train N steps on real ranks (processes with Gloo; or virtual ones)"; }
  std::string description() const override {
    return "Starts one process for each rank, which compile for themselves, agree that they run the same program, and train N steps. The first rank that fails is named, "
           "with the node it was at and the end of its output, and the others are ended.\n"
           "--ranks virtual keeps all ranks in this process. --launched makes this process one rank of a launch by torchrun, Slurm or Open MPI.";
  }
  std::string examples() const override {
    return "  spscope run resources/samples/llama_gqa.pt2 --sp 2 --steps 3 --lr 1e-3\n"
           "  spscope run model.pt2 --sp 2 --steps 100 --inputs batches/ --clip 1 --save-to checkpoints\n"
           "  torchrun --nproc-per-node 4 --no-python spscope run model.pt2 --sp 4 --launched";
  }
  std::string meaningOfNo() const override { return "cancelled, or an output could not be written"; }
  void declare(CLI::App& command) override {
    model_.declare(command);
    flags_.declare(command);
    data_.declare(command);
    command.option_defaults()->group("Run");
    command.add_option("--steps", run_.steps, "training steps")->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))->capture_default_str()->type_name("N");
    command.add_option("--lr", run_.lr, "learning rate")->check(numberFrom(0.0))->capture_default_str()->type_name("X");
    command.add_option("--clip", run_.clip, "largest global norm of the gradients (0: no clipping)")->check(numberFrom(0.0))->capture_default_str()->type_name("X");
    command.add_option("--ranks", run_.ranks, "gloo and nccl: a process each; virtual: all in this process")->capture_default_str()->type_name("virtual|gloo|nccl");
    command.add_option("--save-to", run_.save_to, "keep weights and optimizer of the last step here")->type_name("DIR");
    command.add_option("--resume", run_.resume, "go on from what --save-to kept")->type_name("DIR");
    command.add_option("--timeout", run_.timeout_seconds, "deadline of every collective, in seconds")->check(numberFrom(0.1, 1e6))->capture_default_str()->type_name("SECONDS");
    command.add_flag("--allow-replicated", run_.allow_replicated, "run even where nothing can be sharded");
    command.option_defaults()->group("Profile");
    profile_given_ = command.add_option("--profile", run_.profile.file, "record some steps into this trace (Nsight's schema; read it with spscope trace)")->type_name("TRACE");
    command.add_option("--profile-steps", profile_steps_, "which steps, from A to before B, counted from 0 (default: three after one warm-up)")->type_name("A:B");
    command.add_option("--profile-ranks", profile_ranks_, "which ranks (default: all)")->type_name("0,2-3");
    command.add_option("--profile-cap", profile_cap_mib_, "most that a rank records, in MiB; what comes later is counted")->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))->capture_default_str()->type_name("MIB");
    command.add_flag("--nsys", nsys_, "run under nsys profile (Nsight Systems) and read back what it saw: NVTX ranges of steps, modules and nodes");
    command.option_defaults()->group("Run");
    command.add_flag("--launched", run_.launched, "this process is one rank of torchrun, Slurm or Open MPI");
  }

  Result<int> run(Report& report, const session::Request& request) override {
    report.setModel(model_.path);
    SP_ASSIGN(run_.open, model_.request());
    SP_ASSIGN(run_.open, session::resolveStage(run_.open));
    SP_ASSIGN(run_.settings, flags_.settings(model_));
    SP_ASSIGN(run_.data, data_.request());
    SP_TRY(settleProfile());
    if (nsys_) return underNsys(report, request);
    const bool terminal = ::isatty(STDERR_FILENO) == 1;  // a line of progress may stand there
    SP_ASSIGN(const session::RunOutcome outcome, session::run(run_, request, [&](const session::StepLine& line) {
      const std::string text = strf("step %lld  loss %.6g  %s", static_cast<long long>(line.step), line.loss, formatNs(line.ns).c_str());
      if (log::format() == log::Format::kJson) log::info("run", text);
      else std::fprintf(stderr, "%s%s\n", terminal ? "\r\033[K" : "", text.c_str());
    }));
    report.stopClock();
    fill(report.json, outcome);
    if (outcome.rank == 0) {  // of a launch: said once
      describe(report.page, outcome);
      addLossChart(report.appendix, outcome);
      addCompilePage(report.appendix, outcome.compiled, run_.settings);
      addCompileCharts(report.appendix, outcome.compiled);
      logStages(outcome.compiled);
    }
    if (outcome.failure) return failure(report, *outcome.failure);
    DiagnosticSink& sink = report.diagnostics;
    for (const session::StepLine& line : outcome.steps)
      if (outcome.rank == 0 && !std::isfinite(line.loss)) {
        sink.warn("loss-not-finite", strf("the loss of step %lld is %g", static_cast<long long>(line.step), line.loss));
        break;
      }
    if (outcome.profile_error && !outcome.cancelled) {  // what was asked for is not there
      Error lost = *outcome.profile_error;
      lost.outcome = Outcome::kNo;
      return lost;
    }
    if (!outcome.cancelled) return 0;
    Error error = makeError("cancelled", strf("stopped after %zu of %lld steps", outcome.steps.size(), static_cast<long long>(run_.steps)), Outcome::kNo);
    if (!outcome.saved_to.empty()) error.remedy = "What was done is saved: go on with --resume " + outcome.saved_to + ".";
    return error;
  }

 private:
  Result<int> underNsys(Report& report, const session::Request& request) const {
    if (run_.launched) return makeError("usage", "--nsys starts ranks of its own: with --launched, put nsys profile before the launcher", Outcome::kUsage);
    const std::string& named = run_.profile.file.empty() ? model_.path : run_.profile.file;
    const std::filesystem::path stem = std::filesystem::path(named).replace_extension();
    // Beside the profile; without one in the current folder, as nsys itself does it.
    return runUnderNsys({.base = run_.profile.file.empty() ? stem.filename().string() + "-nsys" : stem.string(), .cuda = run_.settings.device == "cuda"}, report, request);
  }

  /// Which steps are recorded: what was asked for must lie within the run.
  Status settleProfile() {
    session::ProfileRequest& profile = run_.profile;
    if (profile.file.empty()) {
      if (profile_steps_.empty() && profile_ranks_.empty() && !profile_given_->count()) return {};
      return makeError("usage", "a profile needs the name of its file: --profile TRACE", Outcome::kUsage);
    }
    profile.cap_bytes = profile_cap_mib_ << 20;
    if (!profile_steps_.empty()) SP_TRY(session::parseProfileSteps(profile_steps_, profile));
    if (!profile_ranks_.empty()) SP_TRY(session::parseProfileRanks(profile_ranks_, run_.settings.ranks(), profile));
    if (profile_steps_.empty() && run_.steps <= profile.first) profile.first = run_.steps - 1;  // a short run has no warm-up
    if (profile.first < run_.steps) return {};
    Error error = makeError("usage", strf("--profile-steps %s: the run has steps 0 to %lld", profile_steps_.c_str(), static_cast<long long>(run_.steps - 1)), Outcome::kUsage);
    error.legal = strf("A below %lld", static_cast<long long>(run_.steps));
    return error;
  }

  static std::int64_t most(const std::vector<std::int64_t>& v) { return v.empty() ? 0 : *std::max_element(v.begin(), v.end()); }

  static void fill(Json& json, const session::RunOutcome& o) {
    json["losses"] = Json::array();
    json["step_seconds"] = Json::array();
    json["gradient_norms"] = Json::array();
    for (const session::StepLine& s : o.steps) {
      json["losses"].push_back(s.loss);
      json["step_seconds"].push_back(static_cast<double>(s.ns) / 1e9);
      json["gradient_norms"].push_back(s.gradient_norm);
    }
    json["first_step"] = o.steps.empty() ? 0 : o.steps.front().step;
    json["peak_bytes"] = o.peak_bytes;
    json["predicted_peak_bytes"] = o.predicted_peak_bytes;
    // All of the rank that spent most.
    const auto slowest = std::max_element(o.comm_ns.begin(), o.comm_ns.end()) - o.comm_ns.begin();
    const std::int64_t comm = most(o.comm_ns);
    const std::int64_t exposed = comm == 0 ? 0 : o.exposed_comm_ns[static_cast<std::size_t>(slowest)];
    const bool measured = !o.comm_ns.empty();  // virtual ranks exchange within one process: nothing to time
    json["comm_ns"] = measured ? Json(comm) : Json();
    json["exposed_comm_ns"] = measured ? Json(exposed) : Json();
    json["overlap"] = comm == 0 ? Json(nullptr) : Json(1.0 - static_cast<double>(std::min(exposed, comm)) / static_cast<double>(comm));
    json["comm_bytes"] = o.comm_bytes;
    json["cancelled"] = o.cancelled;
    json["saved_to"] = o.saved_to;
    if (o.profile) json["profile"] = {{"events", o.profile->events}, {"ranks", o.profile->ranks}, {"dropped", o.profile->dropped}};
    addCompileJson(json["plan"], o.compiled);
    json["plan_hash"] = o.compiled.compiled.plan_hash;
  }

  void describe(Page& page, const session::RunOutcome& o) const {
    page.heading(strf("%zu of %lld steps on %d %s rank%s", o.steps.size(), static_cast<long long>(run_.steps), run_.settings.ranks(),
                      run_.ranks.c_str(), run_.settings.ranks() == 1 ? "" : "s"));
    std::vector<std::vector<std::string>> rows{{"step", "loss", "time", "communication", "waited for"}};
    for (std::size_t i = 0; i < o.steps.size(); ++i) {
      if (o.steps.size() > 20 && i >= 10 && i + 10 < o.steps.size()) {  // the ends tell how it went
        if (i == 10) rows.push_back({"...", "", "", "", ""});
        continue;
      }
      const session::StepLine& s = o.steps[i];
      rows.push_back({std::to_string(s.step), formatDouble(s.loss), formatNs(s.ns), o.comm_ns.empty() ? "-" : formatNs(s.comm_ns), o.comm_ns.empty() ? "-" : formatNs(s.exposed_comm_ns)});
    }
    page.table(std::move(rows));
    std::vector<std::vector<std::string>> memory{{"rank", "peak measured", "peak predicted"}};
    for (std::size_t r = 0; r < o.peak_bytes.size(); ++r)
      memory.push_back({std::to_string(r), o.peak_bytes[r] == 0 ? "-" : formatBytes(o.peak_bytes[r]),
                        r < o.predicted_peak_bytes.size() && o.predicted_peak_bytes[r] > 0 ? formatBytes(o.predicted_peak_bytes[r]) : "-"});
    page.table(std::move(memory));
    page.line(strf("%s sent per rank and step", formatBytes(o.comm_bytes).c_str()));
    if (!o.saved_to.empty()) page.line("saved to " + o.saved_to);
    if (o.profile) page.line(strf("%lld events of %lld rank%s recorded in %s", static_cast<long long>(o.profile->events), static_cast<long long>(o.profile->ranks), o.profile->ranks == 1 ? "" : "s", run_.profile.file.c_str()));
  }

  static void addLossChart(Page& page, const session::RunOutcome& o) {
    Chart loss{"Loss of each step", "step", "loss", {}, false, o.steps.size() <= 100};
    for (const session::StepLine& s : o.steps) loss.points.push_back({static_cast<double>(s.step), s.loss, strf("step %lld: %.6g", static_cast<long long>(s.step), s.loss)});
    loss.points = peaksOf(loss.points, 1000);
    page.chart(std::move(loss));
  }

  /// A failed run still reports its steps; the failure names the rank.
  static Result<int> failure(Report& report, const session::RankFailure& f) {
    report.say(f.error);
    report.json["failure"] = {{"rank", f.rank}, {"node", plainNode(f.node)}, {"code", f.error.code},
                              {"message", f.error.message}, {"log", f.log}, {"notes", f.error.notes}, {"hang", Json()}};
    if (f.hang)
      report.json["failure"]["hang"] = {{"code", f.hang->code}, {"culprits", f.hang->culprits}, {"certainty", f.hang->certainty}, {"why", f.hang->why}, {"group", f.hang->group},
                                        {"op", f.hang->op}, {"seq", f.hang->sequence ? Json(*f.hang->sequence) : Json()}, {"waiting", f.hang->waiting}, {"missing", f.hang->missing}};
    return 4;
  }

  ModelFlags model_;
  CompileFlags flags_;
  DataFlags data_;
  session::RunRequest run_;
  std::string profile_steps_, profile_ranks_;
  CLI::Option* profile_given_ = nullptr;
  bool nsys_ = false;
  std::int64_t profile_cap_mib_ = 256;
};

}  // namespace

std::unique_ptr<Command> makeRun() { return std::make_unique<Run>(); }

}  // namespace spscope::app
