// SPDX-License-Identifier: Apache-2.0
#include "core/session/train_state.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/strings.h"
#include "core/torch/shards.h"
#include "core/torch/tensor_store.h"

namespace spscope::session {
namespace {

namespace fs = std::filesystem;
constexpr const char* kWeights = "weights.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kLatest = "latest";

Error unwritable(const fs::path& path, const std::error_code& why) {
  return makeError("file-unwritable", path.string() + ": " + why.message(), Outcome::kRunFailed);
}

/// FOLDER itself where it is one step, else the newest of its steps.
Result<fs::path> stepFolder(const std::string& folder) {
  std::error_code ignored;
  if (fs::exists(fs::path(folder) / kWeights, ignored)) return fs::path(folder);
  std::string name;
  std::getline(std::ifstream(fs::path(folder) / kLatest) >> std::ws, name);
  const fs::path step = fs::path(folder) / name;
  if (name.empty() || name.find('/') != std::string::npos || !fs::exists(step / kWeights, ignored))
    return makeError("resume-missing", folder + " holds no saved step");
  return step;
}

}  // namespace

Status prepareFolder(const std::string& folder) {
  const auto refuse = [&](const std::string& why) { return makeError("file-unwritable", folder + ": " + why, Outcome::kNo); };
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return refuse(failed.message());
  std::string probe = (fs::path(folder) / ".writable-XXXXXX").string();
  const int fd = ::mkstemp(probe.data());
  if (fd < 0) return refuse(std::strerror(errno));
  ::close(fd);
  ::unlink(probe.c_str());
  return {};
}

Result<TrainState> TrainState::of(std::shared_ptr<const ir::Graph> graph, exec::TensorBag weights, const passes::Settings& settings, double lr, double clip, int first,
                                  int count) {
  TrainState out;
  out.graph_ = std::move(graph);
  out.weights_ = std::move(weights);
  std::vector<std::string> trainable;
  for (const ir::Input& input : out.graph_->inputs)
    if (input.kind == ir::InputKind::kParameter && input.trainable) trainable.push_back(input.name);
  exec::OptimizerOptions options;
  options.kind = exec::parseOptimizer(settings.optimizer).value_or(options.kind);
  options.lr = lr;
  options.clip = clip;
  options.master_weights = settings.master_weights;
  out.bucket_bytes_ = settings.bucket_bytes;
  out.sharded_ = settings.zero != 0 && settings.ranks() > 1;
  for (int i = 0; i < (out.sharded_ ? count : 1); ++i) {
    if (out.sharded_) options.shard = first + i, options.shards = settings.ranks();
    SP_ASSIGN(exec::Optimizer optimizer, exec::Optimizer::create(options, out.weights_, trainable));
    out.optimizers_.push_back(std::move(optimizer));
  }
  return out;
}

Result<TrainState> TrainState::create(const Model& model, const RunRequest& what, const Request& request, int first, int count) {
  SP_ASSIGN(exec::TensorBag weights, loadState(model, what.data, request));
  if (what.resume.empty()) return of(model.graph, std::move(weights), what.settings, what.lr, what.clip, first, count);
  SP_ASSIGN(const fs::path from, stepFolder(what.resume));
  SP_TRY(resume(*model.graph, from.string(), weights));
  SP_ASSIGN(const exec::TensorBag states, exec::loadBag((from / kOptimizer).string()));
  SP_ASSIGN(TrainState out, of(model.graph, std::move(weights), what.settings, what.lr, what.clip, first, count));
  for (exec::Optimizer& optimizer : out.optimizers_) SP_TRY(optimizer.restore(states));
  return out;
}

Status TrainState::resume(const ir::Graph& graph, const std::string& folder, exec::TensorBag& weights) {
  SP_ASSIGN(const exec::TensorBag saved, exec::loadBag((fs::path(folder) / kWeights).string()));
  for (const std::string& name : weights.names()) {
    SP_ASSIGN(const exec::TensorBag::Entry mine, weights.entry(name));
    const auto theirs = saved.entry(name);
    if (!theirs) {
      // Constants are the graph's own and are not saved.
      const auto input = std::find_if(graph.inputs.begin(), graph.inputs.end(), [&](const ir::Input& i) { return i.name == name; });
      if (input != graph.inputs.end() && input->kind == ir::InputKind::kConstant) continue;
      return makeError("resume-mismatch", folder + " has no tensor " + name + " of this model");
    }
    if (theirs->dtype != mine.dtype || theirs->shape != mine.shape)
      return makeError("resume-mismatch",
                       strf("%s in %s is %s [%s], this model's is %s [%s]", name.c_str(), folder.c_str(),
                            std::string(ir::longName(theirs->dtype)).c_str(),
                            join(std::vector<std::int64_t>(theirs->shape.begin(), theirs->shape.end()), ", ").c_str(),
                            std::string(ir::longName(mine.dtype)).c_str(),
                            join(std::vector<std::int64_t>(mine.shape.begin(), mine.shape.end()), ", ").c_str()));
    SP_TRY(weights.share(saved, name));
  }
  return {};
}

Result<exec::OptimizerReport> TrainState::apply(const std::vector<exec::TensorBag>& gradients, dist::Collectives* group) {
  if (!sharded_) return optimizers_.front().apply(gradients.front());
  double squares = 0.0;
  for (std::size_t i = 0; i < optimizers_.size(); ++i) {
    SP_ASSIGN(const double mine, optimizers_[i].squaredNorm(gradients[i]));
    squares += mine;
  }
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto since = [&](std::chrono::steady_clock::time_point begin) { return std::chrono::duration_cast<std::chrono::nanoseconds>(now() - begin).count(); };
  if (const auto begin = now(); group != nullptr) {
    SP_ASSIGN(squares, exec::sumOver(*group, squares));
    comm_ns_ += since(begin);
  }
  exec::OptimizerReport report;
  for (std::size_t i = 0; i < optimizers_.size(); ++i) {
    SP_ASSIGN(report, optimizers_[i].apply(gradients[i], squares));
  }
  if (const auto begin = now(); group != nullptr) {
    SP_TRY(exec::gatherParameters(weights_, optimizers_.front().trainable(), *group, bucket_bytes_));
    comm_ns_ += since(begin);
  }
  return report;
}

Result<exec::TensorBag> TrainState::wholeStates(dist::Collectives* group) const {
  if (!sharded_) return optimizers_.front().states();
  // Each state has the shape of its parameter.
  exec::TensorBag like;
  const exec::TensorBag mine = optimizers_.front().states();
  for (const std::string& parameter : optimizers_.front().trainable())
    for (const char* prefix : {"master.", "exp_avg.", "exp_avg_sq.", "momentum."})
      if (mine.contains(prefix + parameter)) SP_TRY(like.share(weights_, parameter, prefix + parameter));
  if (group != nullptr) return exec::gatherShards(mine, like, *group);
  std::vector<exec::TensorBag> blocks;
  for (const exec::Optimizer& optimizer : optimizers_) {
    blocks.push_back(optimizer.states());
    blocks.back().erase("step");
  }
  exec::TensorBag whole;
  if (!blocks.front().empty()) {
    SP_ASSIGN(whole, exec::joinShards(blocks, like));
  }
  SP_TRY(whole.share(mine, "step"));
  return whole;
}

Result<std::string> TrainState::save(const std::string& folder, const exec::TensorBag& states) const {
  const std::string name = strf("step-%06lld", static_cast<long long>(stepsMade()));
  const fs::path step = fs::path(folder) / name, partial = fs::path(folder) / (name + ".partial");
  std::error_code failed;
  fs::create_directories(partial, failed);
  if (failed) return unwritable(partial, failed);
  exec::TensorBag saved;
  for (const ir::Input& input : graph_->inputs)
    if (input.kind == ir::InputKind::kParameter || input.kind == ir::InputKind::kBuffer) SP_TRY(saved.share(weights_, input.name));
  SP_TRY(exec::saveBag(exec::withAliases(*graph_, saved), (partial / kWeights).string()));
  SP_TRY(exec::saveBag(states, (partial / kOptimizer).string()));
  fs::remove_all(step, failed);  // of an earlier run; ours to replace, by its name
  fs::rename(partial, step, failed);
  if (failed) return unwritable(step, failed);
  const fs::path latest = fs::path(folder) / kLatest, next = fs::path(folder) / (std::string(kLatest) + ".partial");
  std::ofstream out(next);
  out << name << "\n";
  out.close();
  if (!out) return unwritable(next, std::make_error_code(std::errc::io_error));
  fs::rename(next, latest, failed);
  if (failed) return unwritable(latest, failed);
  return step.string();
}

}  // namespace spscope::session
