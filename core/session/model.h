// SPDX-License-Identifier: Apache-2.0
// A session's document: an opened training graph, in the precision that was asked for. Commands and the window stand
// on the requests of this folder (open, compile, verify, run); each can be cancelled and tells its progress.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/cancel.h"
#include "core/base/diagnostics.h"
#include "core/base/result.h"
#include "core/io/program.h"
#include "core/torch/tensor_bag.h"
#include "passes/pass.h"

namespace spscope::session {

/// What every request takes besides its own arguments. Warnings are added to `diagnostics`.
struct Request {
  CancelToken cancel;
  ProgressFn progress;
  DiagnosticSink* diagnostics = nullptr;  ///< not null
  void report(std::string_view what, std::int64_t done = 0, std::int64_t total = 0) const {
    if (progress) progress({what, done, total});
  }
};

struct OpenRequest {
  std::string path;
  std::string graph_name;
  std::int64_t seq = 0;    ///< 0: the file's
  std::int64_t batch = 0;  ///< 0: the file's
  std::optional<ir::DType> dtype;  ///< float64, float32, bfloat16; empty: the file's
  std::vector<std::pair<std::string, int>> sequence_marks;
};

/// Immutable once opened; shared by requests.
class Model {
 public:
  std::string path;
  std::string display_name;  ///< file name without folder
  std::shared_ptr<const io::ImportedModel> imported;
  /// The graph as every pipeline starts: re-specialised to the lengths and precision that were asked for.
  std::shared_ptr<const ir::Graph> graph;
  std::int64_t opened_ns = 0;  ///< what opening took
  ir::DType working_dtype = ir::DType::kF32;    ///< precision of the parameters
  /// The lowest precision that the graph computes in: bfloat16 under autocast though the parameters are float32. What
  /// two right answers may differ by follows from it.
  ir::DType computing_dtype = ir::DType::kF32;
  std::string weights_file, inputs_file;  ///< safetensors beside a model that is a text (text_model.h); empty for archives
  std::optional<ir::DType> converted_to;        ///< what --dtype asked for; empty: as the file is
};

/// Errors: those of io::openModel; seq-literal, batch-static for static files asked for another length.
Result<std::shared_ptr<const Model>> open(const OpenRequest& what, const Request& request);

/// Where the numbers of a run come from.
struct DataRequest {
  std::vector<std::string> inputs;             ///< safetensors files; empty: seeded ids and labels
  std::uint64_t seed = 0;
  std::optional<std::uint64_t> seed_weights;   ///< for weightless files, or instead of the file's weights
};

/// Parameters, buffers and constants of the graph. Errors: weightless (with the remedy --seed-weights), weight-*.
Result<exec::TensorBag> loadState(const Model& model, const DataRequest& data, const Request& request);
/// One batch; `index` counts batches (files in order, then again from the start; seeded ones draw anew).
Result<exec::TensorBag> loadInputs(const Model& model, const DataRequest& data, std::int64_t index, const Request& request);

}  // namespace spscope::session
