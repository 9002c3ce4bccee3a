// SPDX-License-Identifier: Apache-2.0
#include "passes/pipelines.h"

#include <algorithm>
#include <map>

#include "core/base/strings.h"
#include "core/ir/hash.h"
#include "core/ir/verifier.h"
#include "passes/comm/fuse_collectives.h"
#include "passes/comm/overlap_collectives.h"
#include "passes/comm/simplify_joint.h"
#include "passes/faults/plant.h"
#include "passes/memory/choose_saved.h"
#include "passes/memory/schedule.h"
#include "passes/sequence/insert_all_to_all.h"
#include "passes/sequence/parallelize_loss.h"
#include "passes/sequence/plan_sequence.h"
#include "passes/sequence/recognise_masks.h"
#include "passes/sequence/shard_batch.h"
#include "passes/sequence/shard_sequence.h"
#include "passes/sequence/tile_loss.h"
#include "passes/shared_stages.h"
#include "passes/training/build_joint.h"
#include "passes/training/functionalize.h"
#include "passes/training/index_random_ops.h"
#include "passes/training/lower_attention.h"
#include "passes/training/shard_optimizer.h"
#include "passes/training/sync_gradients.h"
#include "passes/training/widen_gradients.h"

namespace spscope::passes {

std::vector<Pass> planningPasses() { return {functionalizePass(), indexRandomOpsPass(), recogniseMasksPass(), planSequencePass()}; }

std::vector<Pass> batchPasses() { return {planBatchPass(), shardBatchPass()}; }

std::vector<Pass> programPasses() {
  return {shardSequencePass(), insertAllToAllPass(), parallelizeLossPass(), tileLossPass(), lowerAttentionPass(), buildJointPass(),
          simplifyJointPass(), widenGradientsPass(), syncGradientsPass(),  shardOptimizerPass(), chooseSaved(), schedule(),
          fuseCollectivesPass(), overlapCollectivesPass()};
}

namespace {

/// Of what is the same on all ranks: with replicas, the plan of the batch and that of the first replica's sequence.
std::string planHashOf(const ir::Graph* batch, const ir::Graph& planned, const Settings& s) {
  Hasher h;
  if (batch) h.text(ir::planHash(*batch));
  h.text(ir::planHash(planned));
  for (std::int64_t n : {std::int64_t{s.sp}, std::int64_t{s.dp}, s.seq, s.batch}) h.number(n);
  if (s.zero != 0) h.number(s.zero);
  if (!s.master_weights) h.text("no masters");
  if (!s.wide_gradients) h.text("gradients in the parameters' type");
  for (const auto& [name, dim] : s.sequence_marks) h.text(name), h.number(dim);
  if (s.flops_per_ns != 0 || s.bytes_per_ns != 0) h.text(formatDouble(s.flops_per_ns)), h.text(formatDouble(s.bytes_per_ns));
  h.text(s.device), h.text(s.save), h.text(s.optimizer), h.text(s.communication), h.number(s.bucket_bytes);
  if (!s.read_masks) h.text("whole masks");
  if (s.rules) h.text(s.rules->text);
  if (s.tile_loss) h.text("tiled loss"), h.number(s.tile_bytes);
  for (const Fault& fault : s.faults) h.text(fault.text());
  return h.hex();
}

/// Of the settings that the passes up to sync-gradients read.
std::string sharedKey(const Settings& s) {
  Hasher h;
  for (std::int64_t n : {std::int64_t{s.sp}, std::int64_t{s.dp}, s.seq, s.batch, std::int64_t{s.read_masks}, std::int64_t{s.tile_loss}, s.tile_bytes, std::int64_t{s.wide_gradients}}) h.number(n);
  for (const auto& [name, dim] : s.sequence_marks) h.text(name), h.number(dim);
  h.text(s.device);
  h.text(s.rules ? s.rules->text : std::string());
  for (const Fault& fault : s.faults) h.text(fault.text());
  return h.hex();
}

/// runPipeline, or what it gave before.
PipelineResult runShared(SharedStages* shared, const std::string& key, std::shared_ptr<const ir::Graph> graph, const std::vector<Pass>& passes,
                         const PassContext& context, const ManagerOptions& options) {
  if (shared == nullptr) return runPipeline(std::move(graph), passes, context, options);
  const std::string full = sharedKey(context.settings) + "|" + key;
  if (const auto found = shared->done.find(full); found != shared->done.end()) return found->second;
  PipelineResult result = runPipeline(std::move(graph), passes, context, options);
  if (!result.failure) shared->done.emplace(full, result);
  return result;
}

/// The passes of one rank; with `shared` in two parts, the first of which other settings may have run already.
PipelineResult runProgram(SharedStages* shared, std::shared_ptr<const ir::Graph> plan, const PassContext& context, const ManagerOptions& options) {
  std::vector<Pass> passes = programPasses();
  if (shared == nullptr) return runPipeline(std::move(plan), passes, context, options);
  const auto own = std::find_if(passes.begin(), passes.end(), [](const Pass& p) { return p.info.name == "shard-optimizer"; });
  const std::vector<Pass> rest(own, passes.end());
  passes.erase(own, passes.end());
  PipelineResult result = runShared(shared, strf("program %d", context.rank), std::move(plan), passes, context, options);
  if (result.failure) return result;
  PipelineResult end = runPipeline(result.graph, rest, context, options);
  end.stages.insert(end.stages.begin(), result.stages.begin(), result.stages.end());
  return end;
}

bool take(Compiled& out, PipelineResult&& result) {
  for (StageRecord& stage : result.stages) out.stages.push_back(std::move(stage));
  out.failure = std::move(result.failure);
  out.failed_pass = result.failed_pass;
  out.reproducer = result.reproducer;
  return !out.failure;
}

}  // namespace

Compiled compile(std::shared_ptr<const ir::Graph> imported, const Settings& settings, ir::OpServices& services,
                 int only_rank, const ManagerOptions& options, const CancelToken& cancel) {
  return compileShared(std::move(imported), settings, services, only_rank, options, cancel, nullptr);
}

Compiled compileShared(std::shared_ptr<const ir::Graph> imported, const Settings& settings, ir::OpServices& services,
                       int only_rank, const ManagerOptions& options, const CancelToken& cancel, SharedStages* shared) {
  Compiled out;
  PassContext context{.settings = settings};
  context.services = &services;
  context.cancel = cancel;
  // What is the same on all ranks: up to the plan of the sequence, or with replicas up to that of the batch.
  std::vector<Pass> first = planningPasses(), rest;
  if (settings.dp > 1) {
    std::vector<Pass> batch = batchPasses();
    rest = {batch[1], first.back()};
    first.back() = batch[0];
  }
  PipelineResult planning = runShared(shared, "plan", std::move(imported), first, context, options);
  std::shared_ptr<const ir::Graph> batch = planning.graph;
  if (!take(out, std::move(planning))) return out;

  std::map<std::string, std::shared_ptr<const ir::Graph>> planned;  // by class of replica
  const auto planFor = [&](int replica) -> std::shared_ptr<const ir::Graph> {
    if (settings.dp == 1) return batch;
    const std::string replica_class = rankClass(*batch, replica);
    const auto [it, fresh] = planned.try_emplace(replica_class);
    if (!fresh) return it->second;
    context.rank = replica * settings.sp;
    PipelineResult result = runShared(shared, "replica " + replica_class, batch, rest, context, options);
    it->second = result.graph;
    if (planned.size() > 1 && !result.failure) result.stages.clear();
    return take(out, std::move(result)) ? it->second : nullptr;
  };
  out.planned = planFor(0);
  if (!out.planned) return out;
  out.plan_hash = planHashOf(settings.dp > 1 ? batch.get() : nullptr, *out.planned, settings);

  std::map<std::string, int> classes;
  std::string sequence;
  out.class_of_rank.assign(static_cast<std::size_t>(settings.ranks()), ir::kNone);
  for (int rank = 0; rank < settings.ranks(); ++rank) {
    if (only_rank >= 0 && rank != only_rank) continue;
    const int replica = rank / settings.sp;
    const std::shared_ptr<const ir::Graph> plan = planFor(replica);
    if (!plan) return out;
    // With ZeRO a rank's blocks of the parameters are its own, too.
    std::string key = rankClass(*plan, rank % settings.sp) + (settings.dp > 1 ? "|" + rankClass(*batch, replica) : "");
    key += faultClass(settings, rank);
    if (settings.zero != 0) key += "|" + shardClass(*plan, rank, settings.ranks());
    const auto [it, fresh] = classes.try_emplace(std::move(key), static_cast<int>(out.programs.size()));
    out.class_of_rank[static_cast<std::size_t>(rank)] = it->second;
    if (!fresh) continue;
    context.rank = rank;
    MemoryReport memory;
    context.memory = options.verify ? &memory : nullptr;  // without it choose-saved looks at nothing that its policy does not need
    context.brief = !options.verify;
    PipelineResult program = runProgram(shared, plan, context, options);
    const std::shared_ptr<const ir::Graph> graph = program.graph;
    const bool reported = it->second == 0;  // the stages that are shown are those of the first class
    if (!reported && !program.failure) program.stages.clear();
    if (!take(out, std::move(program))) return out;
    out.programs.push_back(graph);
    out.memory.push_back(std::move(memory));

    Result<std::string> collectives = ir::collectiveSequence(*graph);
    if (!collectives) {
      out.failure = std::move(collectives).error();
      return out;
    }
    if (out.programs.size() == 1) {
      sequence = *collectives;
    } else if (sequence != *collectives) {
      out.failure = makeError("collectives-differ", strf("rank %d would issue other collectives than rank 0", rank));
      return out;
    }
  }
  return out;
}

}  // namespace spscope::passes
