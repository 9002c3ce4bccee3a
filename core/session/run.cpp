// SPDX-License-Identifier: Apache-2.0
#include "core/session/run.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "core/base/log.h"
#include "core/base/strings.h"
#include "core/dist/environment.h"
#include "core/dist/interrupt.h"
#include "core/dist/launcher.h"
#include "core/dist/nccl_loader.h"
#include "core/ir/hash.h"
#include "core/session/debug_rank.h"
#include "core/session/hang_report.h"
#include "core/session/link_rates.h"
#include "core/session/meeting.h"
#include "core/session/rank_loop.h"
#include "core/session/run_virtual.h"
#include "core/session/train_state.h"

namespace spscope::session {

std::string rankProgram() {
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::filesystem::path beside = self.parent_path() / "spscope";
  return std::filesystem::exists(beside, failed) ? beside.string() : self.string();
}

Status checkTransport(const std::string& ranks) {
  if (ranks == "virtual" || ranks == "gloo") return {};
  if (ranks == "nccl") {
    SP_TRY(dist::cudaDevices());
    return makeError("nccl-unavailable", "a CUDA driver answers, but this version runs programs on the CPU only");
  }
  Error error = makeError("usage", "--ranks " + ranks + " is unknown", Outcome::kUsage);
  error.legal = "--ranks virtual, gloo or nccl";
  return error;
}

namespace {

void fillPredictions(RunOutcome& out, const passes::Settings& settings) {
  std::vector<std::int64_t> of_class;
  for (const auto& program : out.compiled.compiled.programs) of_class.push_back(predictedPeak(*program, settings));
  for (const int c : out.compiled.compiled.class_of_rank) out.predicted_peak_bytes.push_back(of_class[static_cast<std::size_t>(c)]);
}

std::int64_t bytesSent(const CompileOutcome& compiled) {
  std::int64_t bytes = 0;
  for (const passes::CollectiveTotal& t : compiled.figures.collectives) bytes += t.bytes;
  return bytes;
}

dist::Message warningMessage(const Diagnostic& d) {
  return {"warning", {{"code", d.code}, {"message", d.message}, {"node", d.node}, {"source", d.source}, {"remedy", d.remedy}}};
}

std::vector<RankStatus> statusOf(const std::vector<dist::RankRecord>& records) {
  std::vector<RankStatus> out;
  for (const dist::RankRecord& r : records) {
    RankStatus s{r.rank, r.last.phase, r.last.step, r.last.node, r.last.collective, r.last.sequence, r.last.inside_collective, r.silent_ns, r.ended, {}};
    if (r.ended) s.end = r.done && r.exit_code == 0 ? "done" : r.asked_to_stop ? "stopped" : dist::describeEnd(r);
    out.push_back(std::move(s));
  }
  return out;
}

/// Ranks as processes of our own.
Status runHere(const RunRequest& what, const Request& request, const OnStep& on_step, RunOutcome& out) {
  std::set<std::string> said;
  for (const Diagnostic& d : request.diagnostics->all()) said.insert(d.code + d.message);
  dist::LaunchSpec spec;
  spec.program = what.program.empty() ? rankProgram() : what.program;
  spec.arguments = {"rank"};
  spec.ranks = what.settings.ranks();
  spec.threads = what.settings.threads;
  spec.request = toMessage(what).encode();
  spec.stall_timeout = std::chrono::milliseconds(static_cast<std::int64_t>(2e3 * what.timeout_seconds));
  // A rank that saves on its way out needs the time to do so.
  if (!what.save_to.empty()) spec.cancel_grace = std::chrono::milliseconds(60'000);
  spec.cancel = request.cancel;
  if (what.on_ranks) spec.on_ranks = [&](const std::vector<dist::RankRecord>& records) { what.on_ranks(statusOf(records)); };
  out.peak_bytes.assign(static_cast<std::size_t>(spec.ranks), 0);
  out.comm_ns = out.exposed_comm_ns = out.step_peak_bytes = out.peak_bytes;
  out.last_loss.assign(out.peak_bytes.size(), 0.0);
  request.report("start ranks", 0, spec.ranks);
  SP_ASSIGN(const dist::RunOutcome run, dist::launch(spec, [&](int rank, const dist::Message& m) {
    const auto r = static_cast<std::size_t>(rank);
    if (m.kind == "figures") {
      const RankFigures f = figuresFrom(m);
      out.peak_bytes[r] = f.peak_bytes;
      out.step_peak_bytes[r] = f.step_peak_bytes;
      out.last_loss[r] = f.last_loss;
      out.comm_ns[r] = f.comm_ns;
      out.exposed_comm_ns[r] = f.exposed_comm_ns;
    }
    if (rank != 0) return;
    if (m.kind == "figures" || m.kind == "saved") out.saved_to = m.at("saved_to");
    if (m.kind == "warning" && said.insert(m.at("code") + m.at("message")).second)
      request.diagnostics->warn(m.at("code"), m.at("message"), m.at("node"), m.at("source"), m.at("remedy"));
    if (m.kind == "step") {
      out.steps.push_back(stepFrom(m));
      request.report("step", static_cast<std::int64_t>(out.steps.size()), what.steps);
      if (on_step) on_step(out.steps.back());
    }
  }));
  out.cancelled = run.cancelled;
  if (!run.failure) return {};
  // Before the first step a rank may have a reason to refuse (a batch of another shape): that is no failure of the run.
  if (out.steps.empty() && run.failure->error.outcome == Outcome::kRefused && run.failure->signal == 0) return run.failure->error;
  out.failure = rankFailure(run);
  return {};
}

/// The trace, from what the ranks recorded. A run is no worse for a profile that cannot be written.
void writeProfile(const RunRequest& what, const Request& request, RunOutcome& out) {
  if (what.profile.file.empty()) return;
  std::vector<std::pair<std::string, std::string>> properties{
      {"model", what.open.path}, {"plan_hash", out.compiled.compiled.plan_hash}, {"graph_hash", ir::planHash(*out.compiled.compiled.planned)}, {"save", what.settings.save},
      {"sp", std::to_string(what.settings.sp)}, {"dp", std::to_string(what.settings.dp)}, {"zero", std::to_string(what.settings.zero)}, {"device", what.settings.device}, {"optimizer", what.settings.optimizer},
      {"communication", what.settings.communication}, {"ranks", what.ranks}, {"spscope", SPSCOPE_VERSION}, {"libtorch", dist::libtorchVersion()}};
  for (std::size_t r = 0; r < out.predicted_peak_bytes.size(); ++r)
    properties.emplace_back("predicted_peak." + std::to_string(r), std::to_string(out.predicted_peak_bytes[r]));
  Request uncancelled = request;  // a run that was stopped has a profile, too
  uncancelled.cancel = CancelToken();
  auto written = mergeProfile(what.profile, what.settings.ranks(), properties, uncancelled);
  if (!written) {
    request.diagnostics->warn(written.error().code, "no profile was written: " + written.error().message);
    out.profile_error = written.error();
    return;
  }
  out.profile = std::move(*written);
  for (const int rank : out.profile->missing)
    request.diagnostics->warn("profile-rank-missing", strf("rank %d left no recording here", rank), {}, {},
                              "A rank on another host leaves it there, beside where the trace would be: copy those files and read them together.");
  if (out.profile->dropped > 0)
    request.diagnostics->warn("profile-dropped", strf("%lld records were dropped beyond the cap", static_cast<long long>(out.profile->dropped)), {}, {},
                              "Record fewer steps (--profile-steps), fewer ranks (--profile-ranks), or raise --profile-cap.");
}

/// This process is one rank of an existing launch.
Result<RunOutcome> runLaunched(RunRequest what, const Request& request, const OnStep& on_step) {
  SP_ASSIGN(const dist::LaunchedRank at, dist::launchedRank());
  SP_TRY(dist::checkWorld(what.settings.sp, what.settings.dp, at.size));
  log::setRank(at.rank);
  const auto reporter = dist::RankReporter::detached(at.rank, at.size);
  if (!what.profile.file.empty() && at.rank == 0)
    if (const Status made = prepareProfile(what.profile); !made) what.profile.refused = made.error();
  RankPlace place{*reporter, {}, what.ranks};
  place.meet.rank = at.rank;
  place.meet.size = at.size;
  place.meet.host = at.master_addr;
  place.meet.port = at.master_port;
  place.meet.store_exists = at.store_exists;
  place.meet.prefix = at.prefix;
  RunOutcome out;
  out.rank = at.rank;
  auto training = trainRank(what, place, request, [&](const StepLine& line) {
    out.steps.push_back(line);
    if (on_step && at.rank == 0) on_step(line);
  }, true);
  if (!training) {
    const Error& error = training.error();
    if (error.outcome != Outcome::kRunFailed && error.code != "cancelled") return error;
    out.cancelled = error.code == "cancelled";
    const std::string node = error.node.empty() ? reporter->snapshot().node : error.node;
    if (!out.cancelled) out.failure = RankFailure{at.rank, node, error, "", {}};
    return out;
  }
  out.compiled = std::move(training->compiled);
  out.comm_bytes = bytesSent(out.compiled);
  for (const RankFigures& f : training->of_all) {
    out.peak_bytes.push_back(f.peak_bytes);
    out.predicted_peak_bytes.push_back(f.predicted_peak_bytes);
    out.step_peak_bytes.push_back(f.step_peak_bytes);
    out.last_loss.push_back(f.last_loss);
    out.comm_ns.push_back(f.comm_ns);
    out.exposed_comm_ns.push_back(f.exposed_comm_ns);
  }
  out.saved_to = training->figures.saved_to;
  if (at.rank == 0) writeProfile(what, request, out);
  return out;
}

}  // namespace

Result<RunOutcome> run(const RunRequest& asked, const Request& request, const OnStep& on_step) {
  RunRequest what = asked;
  SP_TRY(checkTransport(what.ranks));
  if (what.launched) return runLaunched(what, request, on_step);
  RunOutcome out;
  // Compiled here, too: what is refused is refused before any process starts, and the figures are for the report.
  SP_ASSIGN(const auto model, open(what.open, request));
  CompileRequest compile_request;
  compile_request.settings = what.settings;
  compile_request.keep_graphs = false;
  SP_ASSIGN(out.compiled, compile(*model, compile_request, request));
  SP_TRY(checkSharded(out.compiled, what.settings.sp, what.allow_replicated));
  fillPredictions(out, what.settings);
  out.comm_bytes = bytesSent(out.compiled);
  if (!what.save_to.empty()) SP_TRY(prepareFolder(what.save_to));
  if (!what.profile.file.empty()) SP_TRY(prepareProfile(what.profile));
  Status ran = what.ranks == "virtual" ? runVirtual(*model, what, request, on_step, out) : runHere(what, request, on_step, out);
  if (ran) writeProfile(what, request, out);
  if (!ran) dropProfile(what.profile);
  SP_TRY(std::move(ran));
  return out;
}

std::optional<int> launchedRank() {
  const auto at = dist::launchedRank();
  return at ? std::optional<int>(at->rank) : std::nullopt;
}

int rankMain(exec::ExecutionObserver* watcher) {
  dist::takeInterrupts();  // the launcher's SIGTERM ends a rank at once
  auto attached = dist::RankReporter::attach();
  if (!attached) {
    std::fprintf(stderr, "%s\n", attached.error().format().c_str());
    return static_cast<int>(Outcome::kUsage);
  }
  dist::RankReporter& reporter = **attached;
  log::setRank(reporter.rank());
  DiagnosticSink diagnostics;
  Request request;
  request.cancel = reporter.cancel();
  request.diagnostics = &diagnostics;
  const auto work = [&]() -> Status {
    if (isMeeting(reporter.request())) return meetAsRank(reporter);
    if (isLinkMeasurement(reporter.request())) return measureAsRank(reporter);
    if (isDebugged(reporter.request())) return debugAsRank(reporter, request, watcher);
    SP_ASSIGN(const RunRequest what, runRequestFrom(reporter.request()));
    RankPlace place{reporter, {}, what.ranks, watcher};
    place.meet.rank = reporter.rank();
    place.meet.size = reporter.size();
    place.meet.file = reporter.storeFile();
    SP_ASSIGN(const RankTraining training, trainRank(what, place, request, [&](const StepLine& line) {
      if (reporter.rank() == 0) reporter.send(toMessage(line));
    }, false));
    reporter.send(toMessage(training.figures));
    return {};
  };
  Status status;
  try {
    status = work();
  } catch (const std::exception& e) {  // memory that is not there, and faults of ours
    status = makeError("internal", strf("exception: %s", split(e.what(), '\n').front().c_str()), Outcome::kRunFailed);
  }
  for (const Diagnostic& d : diagnostics.all())
    if (d.severity == Severity::kWarning) reporter.send(warningMessage(d));
  if (!status) {
    reporter.reportError(status.error());
    std::fprintf(stderr, "%s\n", status.error().format().c_str());
    std::fflush(nullptr);
    std::_Exit(1);  // no destructors: they might wait for ranks that have failed
  }
  reporter.done();
  return 0;
}

}  // namespace spscope::session
