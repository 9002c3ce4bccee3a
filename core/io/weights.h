// SPDX-License-Identifier: Apache-2.0
// The bytes of parameters, buffers and constants, straight from the mapped archive. Nothing is copied or converted.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/base/result.h"
#include "core/io/archive.h"
#include "core/ir/graph.h"

namespace spscope::io {

class WeightSource {
 public:
  explicit WeightSource(std::shared_ptr<const Archive> archive) : archive_(std::move(archive)) {}

  /// The whole storage that the input lives in; `input.storage` says at which element it starts and its strides. The
  /// bytes are little-endian, may stand at any alignment, and live as long as this object.
  /// Errors: weightless (no values in the file), weight-size-mismatch (the window reaches beyond the record), and
  /// those of Archive::read.
  Result<std::span<const std::byte>> storage(const ir::Graph& graph, const ir::Input& input) const;
  /// Like storage(), cut down to the bytes from the first to the last element of the window.
  Result<std::span<const std::byte>> window(const ir::Graph& graph, const ir::Input& input) const;
  const Archive& archive() const { return *archive_; }

 private:
  std::shared_ptr<const Archive> archive_;
};

}  // namespace spscope::io
