// SPDX-License-Identifier: Apache-2.0
#include "core/session/rank_loop.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/base/strings.h"
#include "core/dist/agreement.h"
#include "core/dist/async_collectives.h"
#include "core/dist/membership.h"
#include "core/dist/nccl_loader.h"
#include "core/session/stage.h"
#include "core/session/train_state.h"
#include "core/torch/capture.h"
#include "core/torch/observer.h"
#include "core/torch/tensor_store.h"
#include "core/torch/threads.h"

namespace spscope::session {
namespace {

/// Weights may come from, and go to, a slow disk.
constexpr int kSlowPhase = 10;

std::int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Tells the reporter of every node, and adds up the time in collectives.
class RankObserver final : public exec::ExecutionObserver {
 public:
  explicit RankObserver(dist::RankReporter& reporter) : reporter_(reporter) {}
  std::int64_t comm_ns = 0, exposed_comm_ns = 0;

  bool nodeBegin(int, const ir::Node& node, std::int64_t) override {
    std::array<char, 192> text;  // no allocation: this runs before every node
    const std::size_t n = std::min(node.name.size(), text.size() - 1);
    text[0] = '%';
    std::memcpy(text.data() + 1, node.name.data(), n);
    reporter_.note({text.data(), n + 1});
    return true;
  }
  void onCollectiveWait(const exec::CollectiveEvent&, const exec::CollectiveSpan& times) override {
    comm_ns += times.end_ns - times.begin_ns;
    // Blocked while it was under way; that this thread was woken late is no communication.
    exposed_comm_ns += std::max<std::int64_t>(0, std::min(times.end_ns, times.wait_end_ns) - times.wait_begin_ns);
  }

 private:
  dist::RankReporter& reporter_;
};

Result<std::unique_ptr<dist::Collectives>> meet(const RunRequest& what, RankPlace& place) {
  const auto timeout = std::chrono::milliseconds(static_cast<std::int64_t>(what.timeout_seconds * 1e3));
  place.meet.timeout = place.meet.connect_timeout = timeout;
  dist::RankReporter* reporter = &place.reporter;
  place.meet.on_collective = [reporter](std::string_view op, std::int64_t sequence, bool inside) {
    reporter->collective(op, sequence, inside);
  };
  SP_ASSIGN(auto group, dist::connectGloo(place.meet));
  if (place.transport != "nccl") return dist::makeAsync(std::move(group));
  dist::NcclOptions options;
  options.timeout = timeout;
  options.on_collective = place.meet.on_collective;
  SP_ASSIGN(auto gpus, dist::connectNccl(std::move(group), options));
  return dist::makeAsync(std::move(gpus));
}

/// Everything in which a difference would make the ranks hang or compute something else.
Status agreeOn(dist::Collectives& group, const RunRequest& what, const CompileOutcome& compiled, const ir::Graph& program) {
  SP_ASSIGN(const std::string file, fileHash(what.open.path));
  return dist::agree(group, {
      {"spscope version", SPSCOPE_VERSION, ""},
      {"libtorch version", dist::libtorchVersion(), ""},
      {"model file", file, ""},
      {"plan hash", compiled.compiled.plan_hash, ""},
      {"training", strf("%s lr %s clip %s, %lld steps, seed %llu, weights %s, %zu batch files%s", what.settings.optimizer.c_str(),
                        formatDouble(what.lr).c_str(), formatDouble(what.clip).c_str(), static_cast<long long>(what.steps),
                        static_cast<unsigned long long>(what.data.seed),
                        what.data.seed_weights ? std::to_string(*what.data.seed_weights).c_str() : "of the file",
                        what.data.inputs.size(), what.resume.empty() ? "" : ", resumed"), ""},
      {"collectives", "in order", dist::collectiveList(program)},
  });
}

/// Whether a step that failed did so because the run is being stopped. A peer that heard of it first breaks the collective
/// that this rank is in: the word is then on its way here, too.
bool stoppedOnRequest(const Error& error, const RunRequest& what, const Request& request) {
  if (error.code == "cancelled" || what.save_to.empty()) return error.code == "cancelled";
  for (int i = 0; i < 40 && !request.cancel.cancelled(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return request.cancel.cancelled();
}

}  // namespace

Status checkSharded(const CompileOutcome& compiled, const RunRequest& what) {
  if (compiled.sharded || what.settings.sp == 1 || what.allow_replicated) return {};
  Error error = makeError("nothing-sharded", strf("none of the values could be sharded: %d ranks would all compute everything", what.settings.sp));
  error.legal = "--sp 1, or --allow-replicated";
  return error;
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

  RankTraining out;
  reporter.phase("open");
  SP_ASSIGN(const auto model, open(what.open, request));
  reporter.phase("compile");
  CompileRequest compile_request;
  compile_request.settings = what.settings;
  compile_request.only_rank = rank;
  compile_request.keep_graphs = false;
  SP_ASSIGN(out.compiled, compile(*model, compile_request, request));
  SP_TRY(checkSharded(out.compiled, what));
  const passes::Compiled& compiled = out.compiled.compiled;
  const auto graph = compiled.programs[static_cast<std::size_t>(compiled.class_of_rank[static_cast<std::size_t>(rank)])];
  exec::ProgramOptions program_options;
  program_options.rank = rank;
  program_options.ranks = size;
  SP_ASSIGN(auto program, exec::Program::prepare(graph, program_options));

  reporter.phase("meet");
  SP_ASSIGN(auto met, meet(what, place));
  dist::Membership group(std::move(met));
  reporter.phase("agree");
  SP_TRY(agreeOn(*group, what, out.compiled, *graph));

  if (rank == 0 && !what.save_to.empty()) SP_TRY(prepareFolder(what.save_to));
  reporter.phase("load", kSlowPhase);
  SP_ASSIGN(TrainState state, TrainState::create(*model, what, request));
  exec::Executor executor(std::move(program), group.get());
  exec::countOtherThreads(&executor.meter());
  SP_TRY(executor.bind(state.weights()));

  const auto saveHere = [&]() -> Status {
    if (rank != 0 || what.save_to.empty()) return {};
    reporter.phase("save", kSlowPhase);
    SP_ASSIGN(out.figures.saved_to, state.save(what.save_to));
    reporter.send({"saved", {{"saved_to", out.figures.saved_to}}});  // an interrupted rank sends no figures
    return {};
  };
  const std::int64_t first = state.stepsMade();
  for (std::int64_t i = 0; i < what.steps; ++i) {
    reporter.phase("batch");
    SP_ASSIGN(const exec::TensorBag inputs, loadInputs(*model, what.data, first + i, request));
    reporter.phase("step");
    reporter.step(first + i);
    RankObserver observer(reporter);
    exec::StepOptions options;
    options.cancel = request.cancel;
    options.observer = &observer;
    options.step = first + i;
    options.seed = what.data.seed;
    const std::int64_t begin = nowNs();
    Result<exec::StepResult> step = executor.step(inputs, options);
    if (!step) {
      // Weights are those of the last whole step: the optimizer runs only after one.
      if (i > 0 && stoppedOnRequest(step.error(), what, request)) SP_TRY(saveHere());
      return std::move(step).error();
    }
    const std::int64_t stepped = nowNs();
    if (i == 0 && !what.grads_to.empty())  // before the optimizer uses them up
      SP_TRY(exec::saveBag(step->gradients, gradsFile(what.grads_to, rank)));
    const std::int64_t update_begin = nowNs();
    SP_ASSIGN(const exec::OptimizerReport update, state.apply(step->gradients));
    StepLine line;
    line.step = first + i;
    line.loss = step->loss;
    line.ns = (stepped - begin) + (nowNs() - update_begin);
    line.comm_ns = observer.comm_ns;
    line.exposed_comm_ns = observer.exposed_comm_ns;
    line.gradient_norm = update.gradient_norm;
    out.figures.comm_ns += observer.comm_ns;
    out.figures.exposed_comm_ns += observer.exposed_comm_ns;
    out.figures.last_loss = step->loss;
    out.figures.step_peak_bytes = std::max(out.figures.step_peak_bytes, step->peak_bytes);
    out.figures.peak_bytes = std::max(out.figures.peak_bytes, step->peak_bytes + state.residentBytes());
    if (on_step) on_step(line);
  }
  exec::countOtherThreads(nullptr);
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
