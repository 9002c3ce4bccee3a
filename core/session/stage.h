// SPDX-License-Identifier: Apache-2.0
// Stages saved as text: each file's header says which model it came from and with which settings, so that a stage can
// stand for its model in later commands, as long as that file is there unchanged.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/ir/text.h"
#include "core/session/compile.h"

namespace spscope::session {

/// Hash of what is in a .pt2 file: names, sizes and checksums of its entries. Reads only the archive's directory.
/// Errors: those of io::Archive::open.
Result<std::string> fileHash(const std::string& path);

/// Writes every stage as DIR/NN-name.txt (made if missing; files of other runs stay) and returns the paths.
/// Errors: file-unwritable.
Result<std::vector<std::string>> writeStages(const Model& model, const passes::Settings& settings,
                                             const passes::Compiled& compiled, const std::string& folder);

/// Reads a stage. nullopt: the file is no graph text (and may be a model). Errors: text-syntax, those of reading.
Result<std::optional<ir::GraphText>> readStage(const std::string& path);

/// Where `what.path` is a stage, the request for the model that it came from, with the stage's lengths and precision
/// where the request leaves them open; else `what` itself. Errors: stage-source (the header names no model, or the
/// model is gone or has changed).
Result<OpenRequest> resolveStage(const OpenRequest& what);

}  // namespace spscope::session
