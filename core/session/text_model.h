// SPDX-License-Identifier: Apache-2.0
// Models that are a graph's text with their weights and inputs beside it (what reduce writes): the header names the two files.
#pragma once

#include "core/ir/text.h"
#include "core/session/model.h"

namespace spscope::session {

/// Whether the text says that it is a model by itself, not a stage of another.
bool isTextModel(const ir::TextHeader& header);

/// Errors: text-syntax, those of verifyGraph; usage where other lengths are asked for than it has.
Result<std::shared_ptr<const Model>> openTextModel(ir::GraphText text, const OpenRequest& what);

/// Writes graph.txt, and X.weights.safetensors and X.inputs.safetensors for X.txt; returns the paths. `header`: further entries.
/// Errors: file-unwritable.
Result<std::vector<std::string>> writeTextModel(const Model& model, const exec::TensorBag& state, const exec::TensorBag& inputs, ir::TextHeader header, const std::string& path);

}  // namespace spscope::session
