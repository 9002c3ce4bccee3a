// SPDX-License-Identifier: Apache-2.0
#include "passes/manager.h"

#include <cstdio>
#include <filesystem>

#include "core/base/clock.h"
#include "core/base/strings.h"
#include "core/ir/diff.h"
#include "core/ir/hash.h"
#include "core/ir/text.h"
#include "core/ir/verifier.h"
#include "passes/comm/comm_bytes.h"
#include "passes/faults/plant.h"

namespace spscope::passes {
namespace {

using GraphPtr = std::shared_ptr<const ir::Graph>;

/// Pass, settings and input of a failure in one file: the graph's text with the rest in its header.
std::string writeReproducer(const ir::Graph& input, const Pass& pass, const PassContext& context, const Error& error,
                            const std::string& dir) {
  const Settings& s = context.settings;
  ir::TextHeader header;
  header.set("pass", pass.info.name);
  header.set("failure", error.code + ": " + error.message);
  header.set("rank", std::to_string(context.rank));
  header.set("sp", std::to_string(s.sp));
  header.set("dp", std::to_string(s.dp));
  if (s.zero != 0) header.set("zero", std::to_string(s.zero));
  if (!s.master_weights) header.set("master_weights", "off");
  if (!s.wide_gradients) header.set("grad_dtype", "param");
  header.set("device", s.device);
  header.set("save", s.save);
  header.set("communication", s.communication);
  header.set("bucket", std::to_string(s.bucket_bytes));
  header.set("threads", std::to_string(s.threads));
  header.set("optimizer", s.optimizer);
  header.set("seq", std::to_string(s.seq));
  header.set("batch", std::to_string(s.batch));
  std::vector<std::string> marks;
  for (const auto& [name, dim] : s.sequence_marks) marks.push_back(name + ":" + std::to_string(dim));
  header.set("sequence", join(marks, ","));
  std::error_code ignored;
  std::filesystem::create_directories(dir, ignored);
  const std::string path = (std::filesystem::path(dir) / (pass.info.name + ".reproducer.txt")).string();
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (!file) return {};
  const std::string text = ir::printGraph(input, header);
  bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  written = std::fclose(file) == 0 && written;
  return written ? path : std::string();
}

/// One pass over one graph. Leaves `current` and `hash` as they are when it fails.
class PassRun {
 public:
  PassRun(const Pass& pass, const PassContext& context, const ManagerOptions& options, StageRecord& record)
      : pass_(pass), context_(context), options_(options), record_(record) {
    context_.diagnostics = &sink_;
    context_.statistics = &record_.statistics;
  }

  Status run(GraphPtr* current, std::string* hash) {
    const ir::Graph& before = **current;
    if (before.form != pass_.info.needs) return makeError("pass-form", pass_.info.name + " does not take a graph of this form");
    if (pass_.checkLegal) SP_TRY(pass_.checkLegal(before, context_));
    started_ = true;
    // Where nobody else holds the graph and nobody will look at it again, the pass gets it rather than a copy of it.
    const bool mine = !options_.verify && !options_.keep_graphs && options_.reproducer_dir.empty() && current->use_count() == 1;
    auto after = mine ? std::const_pointer_cast<ir::Graph>(*current) : std::make_shared<ir::Graph>(before);
    SP_ASSIGN(bool changed, pass_.run(*after, context_));
    std::string hash_after = options_.verify ? ir::contentHash(*after) : std::string();
    if (options_.verify && changed != (hash_after != *hash))
      return makeError("pass-dishonest", pass_.info.name + (changed ? " said that it changed the graph and did not"
                                                                    : " said that it changed nothing and did"));
    if (!context_.settings.faults.empty()) {  // as if the pass had made them: its own honesty has been judged
      SP_ASSIGN(const bool planted, plantFaults(*after, pass_.info.name, context_));
      if (planted && options_.verify) hash_after = ir::contentHash(*after);
      changed = changed || planted;
    }
    if (after->form != pass_.info.ensures) return makeError("pass-form", pass_.info.name + " left a graph of another form");
    if (changed) {
      if (options_.verify) SP_TRY(ir::verifyGraph(*after));
      if (options_.verify) record_.changed_nodes = ir::countChangedNodes(before, *after);
      *current = std::move(after);
      *hash = std::move(hash_after);
    }
    record_.changed = changed;
    record_.nodes = static_cast<std::int64_t>((*current)->order.size());
    if (options_.verify) record_.comm_bytes = totalSentBytes(**current);
    if (const auto it = record_.statistics.find("predicted-peak-bytes"); it != record_.statistics.end()) record_.peak_bytes = it->second;
    if (options_.keep_graphs) record_.graph = *current;
    return {};
  }

  bool started() const { return started_; }
  void keepDiagnostics() { record_.diagnostics = sink_.all(); }

 private:
  const Pass& pass_;
  PassContext context_;
  const ManagerOptions& options_;
  StageRecord& record_;
  DiagnosticSink sink_;
  bool started_ = false;
};

}  // namespace

PipelineResult runPipeline(GraphPtr graph, const std::vector<Pass>& passes, const PassContext& context,
                           const ManagerOptions& options) {
  PipelineResult result;
  std::string hash = options.verify ? ir::contentHash(*graph) : std::string();
  result.graph = std::move(graph);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const Pass& pass = passes[i];
    if (options.progress)
      options.progress({pass.info.name, static_cast<std::int64_t>(i), static_cast<std::int64_t>(passes.size())});
    StageRecord record;
    record.name = pass.info.name;
    PassRun run(pass, context, options, record);
    const std::int64_t start = monotonicNs();
    Status status = context.cancel.check();
    if (status) {
      // Passes do not throw; the containers that they use may.
      try {
        status = run.run(&result.graph, &hash);
      } catch (const std::exception& e) {
        status = makeError("internal", pass.info.name + ": " + e.what());
      }
    }
    record.ns = monotonicNs() - start;
    run.keepDiagnostics();
    if (!status) {
      result.failure = std::move(status).error();
      result.failure->notes.push_back("in pass " + pass.info.name);
      result.failed_pass = pass.info.name;
      // A refusal is the user's to act upon; only what began and broke needs a file to repeat it.
      if (run.started() && result.failure->code != "cancelled" && !options.reproducer_dir.empty())
        result.reproducer = writeReproducer(*result.graph, pass, context, *result.failure, options.reproducer_dir);
      return result;
    }
    result.stages.push_back(std::move(record));
  }
  return result;
}

}  // namespace spscope::passes
