// SPDX-License-Identifier: Apache-2.0
// Where bags of tensors come from and go to: the weights of an archive, safetensors files, seeded numbers. No libtorch
// in this header.
//
// Bags are named by Input::name: parameters, buffers and constants in one ("state"), user inputs in another. A tied
// weight is one tensor under the name of its input; aliases are only written out by withAliases().
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/diagnostics.h"
#include "core/base/result.h"
#include "core/io/weights.h"
#include "core/ir/graph.h"
#include "core/torch/tensor_bag.h"

namespace spscope::exec {

// --- weights ------------------------------------------------------------------------------------------------------

/// Parameters, buffers and constants of `graph` as contiguous tensors of their values' types: the file's bytes, converted
/// where the graph was given another type (float32 to float64 or bfloat16). `source` may be null (nothing has values then).
/// What the file has no values for is seeded when `seed` is given (see seedState), else refused.
/// Errors: weightless, weightless-buffer, weight-size-mismatch, those of Archive::read. Warning: weight-not-finite.
Result<TensorBag> loadState(const ir::Graph& graph, const io::WeightSource* source, std::optional<std::uint64_t> seed,
                            DiagnosticSink& diagnostics);

/// A trained net's scale without a trained net, the same on every machine and for every order of names: matrices normal
/// with deviation 0.02, one-dimensional "...weight" ones (norms), "...bias" zeros, other vectors as matrices. Buffers
/// only where their name says what they hold: inv_freq (1 / 10000^(2i/d)), position_ids (0, 1, ...), token_type_ids (0),
/// X.embed_scale (the root of the width of X.weight).
/// Errors: weightless-buffer.
Result<TensorBag> seedState(const ir::Graph& graph, std::uint64_t seed);

/// `bag` with every tensor in the type that the graph's input of its name has; shared where it has it already.
TensorBag inTypeOf(const TensorBag& bag, const ir::Graph& graph);

// --- user inputs --------------------------------------------------------------------------------------------------

/// The graph's user inputs out of `given`: names must match, shapes and kinds too (floating types are converted to the
/// value's, smaller integers widened), indices must lie in the tables they index.
/// Errors: input-missing, input-shape, input-dtype, input-out-of-range. Warning: input-unused (a tensor that no input is
/// called like).
Result<TensorBag> inputsFrom(const ir::Graph& graph, const TensorBag& given, DiagnosticSink& diagnostics);
/// The same from a safetensors file.
Result<TensorBag> loadInputs(const ir::Graph& graph, const std::string& path, DiagnosticSink& diagnostics);

/// Random ids below the table that they index (labels: below the number of classes), positions 0, 1, ..., masks of ones,
/// numbers of items as many as there are labels, other floats normal. Deterministic in the seed.
TensorBag seedInputs(const ir::Graph& graph, std::uint64_t seed);

/// First index that is not allowed for the user input: rows of the table that it reaches through views and casts, or the
/// number of classes of the loss that it is the target of. nullopt where it indexes nothing.
struct IndexLimit {
  std::int64_t limit = 0;
  std::optional<std::int64_t> ignored;  ///< one further value that is allowed (a label of -100)
  std::string node;                     ///< "%embedding": who sets the limit
};
std::optional<IndexLimit> indexLimit(const ir::Graph& graph, ir::ValueId input);

// --- files --------------------------------------------------------------------------------------------------------

/// Writes every tensor as safetensors, whole or not at all. Errors: file-unwritable, tensor-mismatch.
Status saveBag(const TensorBag& bag, const std::string& path);
/// Reads all tensors of a safetensors file; the bytes are copied. Errors: those of SafetensorsFile::open.
Result<TensorBag> loadBag(const std::string& path);
/// The bag with every tied weight under each of its names as well (for files that others read).
TensorBag withAliases(const ir::Graph& graph, const TensorBag& bag);

}  // namespace spscope::exec
