// SPDX-License-Identifier: Apache-2.0
#include "core/session/accumulated_proof.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "core/base/strings.h"
#include "core/session/accumulation.h"

namespace spscope::session {
namespace {

/// Both take the same weights, by name and shape.
bool sameWeights(const ir::Graph& a, const ir::Graph& b) {
  const auto shapes = [](const ir::Graph& graph) {
    std::map<std::string, ir::Dims> out;
    for (const ir::Input& input : graph.inputs)
      if (input.kind != ir::InputKind::kUser && input.value != ir::kNone) out[input.name] = graph.value(input.value).shape;
    return out;
  };
  return shapes(a) == shapes(b);
}

/// Row-major tensors laid side by side along `dim`.
std::vector<std::byte> joined(const std::vector<std::span<const std::byte>>& parts, const ir::Dims& shape, std::size_t dim) {
  const std::int64_t outer = ir::numel(ir::Dims(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(dim)));
  std::vector<std::byte> out;
  for (std::int64_t o = 0; o < outer; ++o)
    for (const auto& part : parts) {
      const std::size_t run = part.size() / static_cast<std::size_t>(outer);
      const auto from = part.subspan(static_cast<std::size_t>(o) * run, run);
      out.insert(out.end(), from.begin(), from.end());
    }
  return out;
}

/// One batch of all rows: each input lies along the dimension in which the larger model's is `batches` times as long. Nothing where an
/// input has no such dimension.
Result<std::optional<exec::TensorBag>> oneBatch(std::vector<exec::TensorBag>& batches, const ir::Graph& larger) {
  exec::TensorBag out;
  for (const ir::Input& input : larger.inputs) {
    if (input.kind != ir::InputKind::kUser || !batches.front().contains(input.name)) continue;
    SP_ASSIGN(const exec::TensorBag::Entry entry, batches.front().entry(input.name));
    const ir::Dims& whole = larger.value(input.value).shape;
    if (whole.size() != entry.shape.size() || entry.bytes() == 0) return std::optional<exec::TensorBag>();
    std::size_t dim = whole.size();
    for (std::size_t d = 0; d < whole.size(); ++d) {
      if (whole[d] == entry.shape[d]) continue;
      if (dim < whole.size() || whole[d] != entry.shape[d] * static_cast<std::int64_t>(batches.size())) return std::optional<exec::TensorBag>();
      dim = d;
    }
    if (dim == whole.size()) return std::optional<exec::TensorBag>();
    std::vector<std::span<const std::byte>> parts;
    for (exec::TensorBag& batch : batches) {
      SP_ASSIGN(const auto bytes, batch.bytesOf(input.name));
      parts.push_back(bytes);
    }
    SP_TRY(out.add(input.name, entry.dtype, whole, joined(parts, entry.shape, dim)));
  }
  return std::optional<exec::TensorBag>(std::move(out));
}

bool drawsRandomNumbers(const ir::Graph& graph) {
  return std::any_of(graph.order.begin(), graph.order.end(), [&](ir::NodeId id) { return ir::isRandom(graph.node(id).op); });
}

/// Why one batch of all rows cannot be the reference; "": it can, as far as the loss tells.
std::string unlikeOneBatch(const Model& model, const VerifyRequest& what, const BatchWeights& weights) {
  if (what.open.path.empty() || model.imported->batch <= 0) return "the model has no dimension that counts rows";
  if (drawsRandomNumbers(*model.graph)) return "random ops draw anew for every batch";
  if (weights.rule() == BatchWeights::Rule::kEqual || weights.rule() == BatchWeights::Rule::kMean) return "the loss divides by no count of the inputs";
  if (!weights.exact()) return "what is added to the loss is no mean over tokens";
  return {};
}

}  // namespace

Result<exec::StepResult> runUnshardedBatches(const Model& model, const passes::Settings& settings, const exec::TensorBag& state,
                                             const BatchOf& batch, const Request& request, std::uint64_t seed) {
  SP_ASSIGN(const std::shared_ptr<const ir::Graph> graph, compileUnsharded(model, settings, request));
  SP_ASSIGN(auto program, exec::Program::prepare(graph, {}));
  exec::Executor executor(std::move(program));
  SP_TRY(executor.bind(state));
  exec::StepOptions step;
  step.cancel = request.cancel;
  step.seed = seed;
  const BatchWeights weights = BatchWeights::of(*model.graph);
  SP_ASSIGN(std::vector<exec::StepResult> results, accumulate(settings.accumulate, 0, weights, [&](std::int64_t index) -> Result<BatchResult> {
    SP_ASSIGN(const exec::TensorBag inputs, batch(index));
    BatchResult out;
    if (settings.accumulate > 1) {
      SP_ASSIGN(out.weight, weights.weight(inputs));
    }
    step.step = index;
    SP_ASSIGN(exec::StepResult result, executor.step(inputs, step));
    out.ranks.push_back(std::move(result));
    return out;
  }));
  return std::move(results.front());
}

Result<AccumulatedReference> accumulatedReference(const Model& model, const VerifyRequest& what, const exec::TensorBag& state, const Request& request) {
  const int count = what.settings.accumulate;
  std::vector<exec::TensorBag> batches;
  for (int k = 0; k < count; ++k) {
    SP_ASSIGN(exec::TensorBag batch, loadInputs(model, what.data, k, request));
    batches.push_back(std::move(batch));
  }
  const BatchWeights weights = BatchWeights::of(*model.graph);
  AccumulatedReference out;
  std::string unlike = unlikeOneBatch(model, what, weights);
  if (unlike.empty()) {
    OpenRequest larger = what.open;
    larger.batch = model.imported->batch * count;
    DiagnosticSink quiet;  // opening said it once
    Request inner = request;
    inner.diagnostics = &quiet;
    const auto whole = open(larger, inner);
    if (whole && !sameWeights(*model.graph, *(*whole)->graph)) {
      unlike = "this is a reduced twin, and the file has the graph for more rows in its full size only";
    } else if (whole) {
      SP_ASSIGN(const auto all, oneBatch(batches, *(*whole)->graph));
      if (all) {
        passes::Settings settings = what.settings;
        settings.batch = larger.batch;
        settings.accumulate = 1;
        SP_ASSIGN(out.step, runUnshardedBatches(**whole, settings, state, [&](std::int64_t) -> Result<exec::TensorBag> { return *all; }, inner, what.data.seed));
        out.text = strf("one unsharded batch of %lld rows", static_cast<long long>(larger.batch));
        return out;
      }
      unlike = "an input has no dimension that counts rows";
    } else if (whole.error().code == "cancelled") {
      return whole.error();
    } else {
      unlike = "the graph cannot be had for more rows: " + whole.error().message;
    }
  }
  SP_ASSIGN(out.step, runUnshardedBatches(model, what.settings, state, [&](std::int64_t k) -> Result<exec::TensorBag> { return batches[static_cast<std::size_t>(k)]; },
                                          request, what.data.seed));
  out.text = strf("%d unsharded batches, %s, and not one batch of all rows: ", count, weights.text().c_str()) + unlike;
  return out;
}

}  // namespace spscope::session
