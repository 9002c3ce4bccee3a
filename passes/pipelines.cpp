// SPDX-License-Identifier: Apache-2.0
#include "passes/pipelines.h"

#include <map>

#include "core/base/strings.h"
#include "core/ir/hash.h"
#include "core/ir/verifier.h"
#include "passes/comm/fuse_collectives.h"
#include "passes/comm/overlap_collectives.h"
#include "passes/comm/simplify_joint.h"
#include "passes/memory/choose_saved.h"
#include "passes/memory/schedule.h"
#include "passes/sequence/insert_all_to_all.h"
#include "passes/sequence/parallelize_loss.h"
#include "passes/sequence/plan_sequence.h"
#include "passes/sequence/recognise_masks.h"
#include "passes/sequence/shard_batch.h"
#include "passes/sequence/shard_sequence.h"
#include "passes/sequence/tile_loss.h"
#include "passes/training/build_joint.h"
#include "passes/training/functionalize.h"
#include "passes/training/index_random_ops.h"
#include "passes/training/lower_attention.h"
#include "passes/training/shard_optimizer.h"
#include "passes/training/sync_gradients.h"

namespace spscope::passes {

std::vector<Pass> planningPasses() { return {functionalizePass(), indexRandomOpsPass(), recogniseMasksPass(), planSequencePass()}; }

std::vector<Pass> batchPasses() { return {planBatchPass(), shardBatchPass()}; }

std::vector<Pass> programPasses() {
  return {shardSequencePass(), insertAllToAllPass(), parallelizeLossPass(), tileLossPass(), lowerAttentionPass(), buildJointPass(),
          simplifyJointPass(), syncGradientsPass(),  shardOptimizerPass(),  chooseSaved(),  schedule(),           fuseCollectivesPass(),
          overlapCollectivesPass()};
}

namespace {

/// Of what is the same on all ranks: with replicas, the plan of the batch and that of the first replica's sequence.
std::string planHashOf(const ir::Graph* batch, const ir::Graph& planned, const Settings& s) {
  Hasher h;
  if (batch) h.text(ir::planHash(*batch));
  h.text(ir::planHash(planned));
  for (std::int64_t n : {std::int64_t{s.sp}, std::int64_t{s.dp}, s.seq, s.batch}) h.number(n);
  if (s.zero != 0) h.number(s.zero);
  for (const auto& [name, dim] : s.sequence_marks) h.text(name), h.number(dim);
  if (s.flops_per_ns != 0 || s.bytes_per_ns != 0) h.text(formatDouble(s.flops_per_ns)), h.text(formatDouble(s.bytes_per_ns));
  h.text(s.device), h.text(s.save), h.text(s.optimizer), h.text(s.communication), h.number(s.bucket_bytes);
  if (!s.read_masks) h.text("whole masks");
  if (s.tile_loss) h.text("tiled loss"), h.number(s.tile_bytes);
  return h.hex();
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
  PipelineResult planning = runPipeline(std::move(imported), first, context, options);
  std::shared_ptr<const ir::Graph> batch = planning.graph;
  if (!take(out, std::move(planning))) return out;

  std::map<std::string, std::shared_ptr<const ir::Graph>> planned;  // by class of replica
  const auto planFor = [&](int replica) -> std::shared_ptr<const ir::Graph> {
    if (settings.dp == 1) return batch;
    const auto [it, fresh] = planned.try_emplace(rankClass(*batch, replica));
    if (!fresh) return it->second;
    context.rank = replica * settings.sp;
    PipelineResult result = runPipeline(batch, rest, context, options);
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
    if (settings.zero != 0) key += "|" + shardClass(*plan, rank, settings.ranks());
    const auto [it, fresh] = classes.try_emplace(std::move(key), static_cast<int>(out.programs.size()));
    out.class_of_rank[static_cast<std::size_t>(rank)] = it->second;
    if (!fresh) continue;
    context.rank = rank;
    MemoryReport memory;
    context.memory = &memory;
    PipelineResult program = runPipeline(plan, programPasses(), context, options);
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
