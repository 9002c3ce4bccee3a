// SPDX-License-Identifier: Apache-2.0
#include "core/session/rank_loop.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "core/base/clock.h"
#include "core/base/strings.h"
#include "core/dist/agreement.h"
#include "core/dist/async_collectives.h"
#include "core/dist/c10d/mesh.h"
#include "core/dist/membership.h"
#include "core/dist/nccl_loader.h"
#include "core/session/accumulation.h"
#include "core/session/nvtx_observer.h"
#include "core/session/rank_observer.h"
#include "core/session/stage.h"
#include "core/session/train_state.h"
#include "core/torch/block_cache.h"
#include "core/torch/capture.h"
#include "core/torch/observer.h"
#include "core/torch/shards.h"
#include "core/torch/tensor_store.h"
#include "core/torch/threads.h"

namespace spscope::session {
namespace {

/// Weights may come from, and go to, a slow disk.
constexpr int kSlowPhase = 10;

/// Everything in which a difference would make the ranks hang or compute something else.
Status agreeOn(dist::Collectives& group, const RunRequest& what, const CompileOutcome& compiled, const ir::Graph& program) {
  SP_ASSIGN(const std::string file, fileHash(what.open.path));
  return dist::agree(group, {
      {"spscope version", SPSCOPE_VERSION, ""},
      {"libtorch version", dist::libtorchVersion(), ""},
      {"model file", file, ""},
      {"plan hash", compiled.compiled.plan_hash, ""},
      {"training", strf("%s%s lr %s clip %s zero %d, %lld steps of %d batches, seed %llu, weights %s, %zu batch files%s", what.settings.optimizer.c_str(), what.settings.master_weights ? "" : " without masters",
                        formatDouble(what.lr).c_str(), formatDouble(what.clip).c_str(), what.settings.zero, static_cast<long long>(what.steps), what.settings.accumulate,
                        static_cast<unsigned long long>(what.data.seed),
                        what.data.seed_weights ? std::to_string(*what.data.seed_weights).c_str() : "of the file",
                        what.data.inputs.size(), what.resume.empty() ? "" : ", resumed"), ""},
      {"collectives", "in order", dist::collectiveList(program)},
  });
}

/// Rank 0 makes the places where a run leaves its results. What it cannot make ends all ranks at once, with its reason: else the
/// others would wait for it until their deadline.
Status readyToStart(dist::Collectives& group, const RunRequest& what) {
  const bool first = group.rank() == 0;
  Status ready;
  if (first && !what.save_to.empty()) ready = prepareFolder(what.save_to);
  if (ready && first && what.profile.refused) ready = *what.profile.refused;
  dist::Message said{ready ? "ready" : "refused", {}};
  if (!ready) said.fields = {{"code", ready.error().code}, {"message", ready.error().message}, {"outcome", std::to_string(static_cast<int>(ready.error().outcome))}};
  SP_ASSIGN(const auto all, group.allGatherText(said.encode()));
  if (!ready) return ready;
  const auto word = dist::Message::decode(all.front());
  if (!word || word->kind == "ready") return {};
  return makeError(word->at("code"), "rank 0: " + word->at("message"), static_cast<Outcome>(std::atoi(word->at("outcome").c_str())));
}

/// Whether a step that failed did so because the run is being stopped. A peer that heard of it first breaks the collective
/// that this rank is in: the word is then on its way here, too.
bool stoppedOnRequest(const Error& error, const RunRequest& what, const Request& request) {
  if (error.code == "cancelled" || what.save_to.empty()) return error.code == "cancelled";
  for (int i = 0; i < 40 && !request.cancel.cancelled(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return request.cancel.cancelled();
}

}  // namespace

Result<std::unique_ptr<dist::Collectives>> joinGroup(const RunRequest& what, RankPlace& place) {
  const auto timeout = std::chrono::milliseconds(static_cast<std::int64_t>(what.timeout_seconds * 1e3));
  place.meet.timeout = timeout;
  place.meet.connect_timeout = std::max(timeout, place.meeting);
  dist::RankReporter* reporter = &place.reporter;
  place.meet.on_collective = [reporter](std::string_view op, std::int64_t sequence, bool inside) {
    reporter->collective(op, sequence, inside);
  };
  place.meet.on_call = [reporter](const dist::CallNotice& call) { reporter->call(call); };
  const ir::Mesh mesh{{{"dp", what.settings.dp}, {"sp", what.settings.sp}}};
  if (place.transport != "nccl") {
    SP_ASSIGN(auto groups, dist::connectMesh(place.meet, mesh));
    return dist::makeAsync(std::move(groups));
  }
  SP_ASSIGN(auto group, dist::connectGloo(place.meet));
  dist::NcclOptions options;
  options.timeout = timeout;
  options.on_collective = place.meet.on_collective;
  return dist::connectNccl(std::move(group), options);
}

std::int64_t predictedPeak(const ir::Graph& program, const passes::Settings& settings) {
  const auto services = exec::makeOpServices();
  return passes::predictMemory(program, passes::livenessOptions(settings, services.get())).peak;
}

std::string gradsFile(const std::string& prefix, int rank) { return prefix + ".rank" + std::to_string(rank); }

Result<RankTraining> trainRank(const RunRequest& what, RankPlace place, const Request& request, const OnStep& on_step, bool gather) {
  dist::RankReporter& reporter = place.reporter;
  const int rank = place.meet.rank, size = place.meet.size;
  exec::setThreads(what.settings.threads);
  exec::installCountingAllocator();
  exec::keepFreedBlocks();

  RankTraining out;
  reporter.phase("open");
  SP_ASSIGN(const auto model, open(what.open, request));
  reporter.phase("compile");
  CompileRequest compile_request;
  compile_request.settings = what.settings;
  compile_request.only_rank = rank;
  compile_request.keep_graphs = false;
  SP_ASSIGN(out.compiled, compile(*model, compile_request, request));
  SP_TRY(checkSharded(out.compiled, what.settings.sp, what.allow_replicated));
  const passes::Compiled& compiled = out.compiled.compiled;
  const auto graph = compiled.programs[static_cast<std::size_t>(compiled.class_of_rank[static_cast<std::size_t>(rank)])];
  exec::ProgramOptions program_options;
  program_options.rank = rank;
  program_options.ranks = size;
  SP_ASSIGN(auto program, exec::Program::prepare(graph, program_options));

  reporter.phase("meet");
  SP_ASSIGN(auto met, joinGroup(what, place));
  dist::Membership group(std::move(met));
  reporter.phase("agree");
  SP_TRY(agreeOn(*group, what, out.compiled, *graph));

  SP_TRY(readyToStart(*group, what));
  reporter.phase("load", kSlowPhase);
  SP_ASSIGN(TrainState state, TrainState::create(*model, what, request, rank));
  exec::Executor executor(std::move(program), group.get());
  exec::countOtherThreads(&executor.meter());
  SP_TRY(executor.bind(state.weights()));

  // With ZeRO the states are spread over the ranks: all must save together, after the same step. So a rank that is asked to
  // stop finishes its step, and the ranks agree on whether one was asked.
  const bool stop_together = state.sharded() && !what.save_to.empty();
  const auto saveHere = [&]() -> Status {
    if (what.save_to.empty() || (rank != 0 && !state.sharded())) return {};
    reporter.phase("save", kSlowPhase);
    SP_ASSIGN(const exec::TensorBag states, state.wholeStates(group.get()));
    if (rank != 0) return {};
    SP_ASSIGN(out.figures.saved_to, state.save(what.save_to, states));
    reporter.send({"saved", {{"saved_to", out.figures.saved_to}}});  // an interrupted rank sends no figures
    return {};
  };
  const std::unique_ptr<exec::ExecutionObserver> nvtx = nvtxObserver();
  ProfileRequest recorded = what.profile;
  if (!recorded.file.empty()) {  // in an existing launch only rank 0 knows the folder that it made
    SP_ASSIGN(const auto folders, group->allGatherText(recorded.spools));
    recorded.spools = folders.front();
  }
  std::unique_ptr<RankProfile> profile;
  if (recorded.of(rank)) {
    SP_ASSIGN(profile, RankProfile::start(recorded, rank, size, place.transport, *graph, what.settings, request.diagnostics));
  }
  if (!what.profile.file.empty()) {  // an instant that all ranks share: for ranks that are on different clocks
    SP_TRY(group->barrier());
    if (profile) profile->barrier(monotonicNs());
    if (profile) profile->resident(state.weights().bytes(), passes::optimizerBytes(*graph, passes::livenessOptions(what.settings, nullptr)));
  }
  const std::int64_t first = state.stepsMade();
  const BatchWeights weights = BatchWeights::of(*model->graph);
  for (std::int64_t i = 0; i < what.steps; ++i) {
    if (stop_together) {
      SP_ASSIGN(const double asked, exec::sumOver(*group, request.cancel.cancelled() ? 1.0 : 0.0));
      if (asked > 0.0) {
        if (i > 0) SP_TRY(saveHere());
        return makeError("cancelled", "cancelled on request", Outcome::kNo);
      }
    }
    RankObserver observer(reporter, {place.watcher, nvtx.get(), profile ? profile->observer(i) : nullptr});
    exec::StepOptions options;
    if (!stop_together) options.cancel = request.cancel;
    options.observer = &observer;
    options.step = first + i;
    options.seed = what.data.seed;
    std::int64_t busy_ns = 0;
    const auto runBatch = [&](std::int64_t index) -> Result<BatchResult> {
      reporter.phase("batch");
      const std::int64_t load_begin = monotonicNs();
      SP_ASSIGN(const exec::TensorBag inputs, loadInputs(*model, what.data, index, request));
      BatchResult result;
      if (what.settings.accumulate > 1) {
        SP_ASSIGN(result.weight, weights.weight(inputs));
      }
      if (profile) profile->hostCall(i, "load batch", load_begin, monotonicNs());
      reporter.phase("step");
      reporter.step(first + i);
      options.step = index;  // batches of one step draw other random numbers
      const std::int64_t begin = monotonicNs();
      auto step = executor.step(inputs, options);
      busy_ns += monotonicNs() - begin;
      if (!step) return std::move(step).error();
      result.ranks.push_back(std::move(*step));
      return result;
    };
    auto made = accumulate(what.settings.accumulate, (first + i) * what.settings.accumulate, weights, runBatch);
    if (!made) {
      // Weights are those of the last whole step: the optimizer runs only after one.
      if (i > 0 && !stop_together && stoppedOnRequest(made.error(), what, request)) SP_TRY(saveHere());
      return std::move(made).error();
    }
    exec::StepResult* const step = &made->front();
    if (i == 0 && !what.grads_to.empty())  // before the optimizer uses them up
      SP_TRY(exec::saveBag(step->gradients, gradsFile(what.grads_to, rank)));
    const std::int64_t update_begin = monotonicNs(), comm_before = state.commNs();
    SP_ASSIGN(const exec::OptimizerReport update, state.apply({step->gradients}, group.get()));
    const std::int64_t update_comm = state.commNs() - comm_before;  // nothing runs beside it
    observer.comm_ns += update_comm;
    observer.exposed_comm_ns += update_comm;
    if (profile) profile->hostCall(i, kOptimizerCall, update_begin, monotonicNs());
    StepLine line;
    line.step = first + i;
    line.loss = step->loss;
    line.ns = busy_ns + (monotonicNs() - update_begin);
    line.comm_ns = observer.comm_ns;
    // While this rank waits for one collective, those before it in the queue may be under way, and between them there are gaps of
    // some microseconds in which nothing is: never more than the communication itself.
    line.exposed_comm_ns = std::min(observer.exposed_comm_ns, observer.comm_ns);
    line.gradient_norm = update.gradient_norm;
    out.figures.comm_ns += observer.comm_ns;
    out.figures.exposed_comm_ns += line.exposed_comm_ns;
    out.figures.last_loss = step->loss;
    out.figures.step_peak_bytes = std::max(out.figures.step_peak_bytes, step->peak_bytes);
    out.figures.peak_bytes = std::max(out.figures.peak_bytes, step->peak_bytes + state.residentBytes());
    if (on_step) on_step(line);
  }
  exec::countOtherThreads(nullptr);
  if (profile) {
    if (const Status written = profile->finish(); !written && request.diagnostics != nullptr)
      request.diagnostics->warn(written.error().code, written.error().message);
  }
  reporter.phase("end");
  SP_TRY(group->barrier());
  if (gather) {
    out.figures.predicted_peak_bytes = predictedPeak(*graph, what.settings);
    SP_ASSIGN(const auto texts, group->allGatherText(toMessage(out.figures).encode()));
    for (const std::string& text : texts) out.of_all.push_back(figuresFrom(dist::Message::decode(text).value_or(dist::Message{})));
  }
  SP_TRY(saveHere());
  group.leave();
  return out;
}

}  // namespace spscope::session
