// SPDX-License-Identifier: Apache-2.0
// A pass is one record and two functions: may it run, and run. Everything else (timing, restoring, verifying,
// the honesty of "changed", reproducers, cancellation) is the manager's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/cancel.h"
#include "core/base/diagnostics.h"
#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/ir/op_rule.h"
#include "core/ir/op_services.h"
#include "passes/faults/fault.h"

namespace spscope::passes {

struct MemoryReport;  // passes/memory/report.h

/// What the user asked for; the same for every pass of a pipeline.
struct Settings {
  int sp = 2;                  ///< ranks on the sequence axis
  int dp = 1;                  ///< ranks on the data axis
  int zero = 0;                ///< 1: optimizer states are sharded over all ranks
  int accumulate = 1;          ///< batches per step of the optimizer
  bool master_weights = true;  ///< the optimizer keeps float32 weights and states for 16-bit parameters
  bool wide_gradients = true;  ///< their gradients are summed over the ranks in float32 (widen-gradients)
  std::string device = "cpu";  ///< "cpu" or "cuda": which attention kernel is chosen
  std::string save = "sac";    ///< memory policy, see memory/save_policy.h: all, sac, min-cut, budget=F
  std::string communication = "overlap";  ///< "plain": collectives block, one by one; "fused"; "overlap": and behind compute
  std::int64_t bucket_bytes = std::int64_t{25} << 20;  ///< gradients that are summed together, at most
  double flops_per_ns = 0;     ///< measured rates of the machine, for the price of recomputation (op_cost.h); 0: nominal
  double bytes_per_ns = 0;
  int threads = 1;             ///< intra-op threads per rank (kernel workspaces depend on it)
  std::string optimizer = "adamw"; ///< for the memory classes: adamw keeps two moments, sgd none
  /// User marks "NAME:DIM" for what is cut; empty: the default inputs.
  std::vector<std::pair<std::string, int>> sequence_marks;
  bool read_masks = true;      ///< attention masks become what they say (recognise-masks)
  bool tile_loss = false;      ///< head and cross entropy a block of rows at a time (tile-loss)
  std::int64_t tile_bytes = std::int64_t{128} << 20;  ///< of a block of logits, in the widest of its types
  std::int64_t seq = 0;        ///< 0: the file's
  std::int64_t batch = 0;      ///< 0: the file's
  ir::OpRulesRef rules;        ///< of ops that the built-in table does not know; may be null
  std::vector<Fault> faults;   ///< mistakes that are made on purpose (passes/faults); resolved ones
  int ranks() const { return sp * dp; }  ///< of the whole mesh
};

/// What a pass may use besides the graph. Statistics and notes end up in the stage's record.
struct PassContext {
  const Settings& settings;
  ir::OpServices* services = nullptr;  ///< null in tests of passes that do not need libtorch
  int rank = 0;                              ///< rank whose program is built (from shard-sequence on)
  CancelToken cancel = {};
  DiagnosticSink* diagnostics = nullptr;     ///< never null inside a pass
  std::map<std::string, std::int64_t>* statistics = nullptr;  ///< never null inside a pass
  bool on_batch = false;                     ///< the sequence passes are at work on the batch (shard-batch)
  MemoryReport* memory = nullptr;            ///< where choose-saved leaves the choices it compared; null: nowhere
  bool brief = false;                        ///< nobody reads statistics: those that take time may be left out

  void count(const std::string& name, std::int64_t n = 1) const { (*statistics)[name] += n; }
};

/// The record of a pass: everything that documentation, reports and the window need to know about it.
struct PassInfo {
  std::string name;     ///< kebab-case, verb first: "shard-sequence"
  std::string summary;  ///< one line
  std::vector<std::pair<std::string, std::string>> statistics;  ///< name, meaning
  ir::Form needs = ir::Form::kGlobal;   ///< form of the graph it takes
  ir::Form ensures = ir::Form::kGlobal; ///< form of the graph it leaves
};

struct Pass {
  PassInfo info;
  /// All reasons against running it, found before any change. Success: run() may only fail for a fault of ours.
  std::function<Status(const ir::Graph&, const PassContext&)> checkLegal;
  /// Rewrites the graph; true when it changed anything.
  std::function<Result<bool>(ir::Graph&, const PassContext&)> run;
};

}  // namespace spscope::passes
