// SPDX-License-Identifier: Apache-2.0
// Safetensors files: named dense tensors. Inputs, gradients and checkpoints are kept in them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/io/mapped_file.h"
#include "core/ir/dtype.h"
#include "core/ir/placement.h"

namespace spscope::io {

struct TensorView {
  ir::DType dtype = ir::DType::kUnknown;
  ir::Dims shape;
  std::span<const std::byte> bytes;  ///< dense, row-major, little-endian, at any alignment
};

/// A file opened for reading. The header is checked completely when it is opened; payloads are mapped, not read.
class SafetensorsFile {
 public:
  /// Errors: those of MappedFile, safetensors-truncated, safetensors-corrupt (with the tensor's name).
  static Result<SafetensorsFile> open(const std::string& path);
  static Result<SafetensorsFile> open(std::shared_ptr<const MappedFile> file);

  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }
  const TensorView* find(std::string_view name) const;
  /// As find(), but an error that lists near names: tensor-missing.
  Result<TensorView> get(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& path() const { return file_->path(); }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Writes a file as a whole or not at all (a temporary one is renamed over it). The same tensors give the same bytes.
class SafetensorsWriter {
 public:
  /// The bytes are looked at when write() runs and must live until then.
  void add(std::string name, ir::DType dtype, ir::Dims shape, std::span<const std::byte> bytes);
  void setMetadata(std::string key, std::string value) { metadata_[std::move(key)] = std::move(value); }
  /// Errors: file-unwritable, tensor-mismatch (bytes do not fit the shape, a type that the format lacks).
  Status write(const std::string& path) const;

 private:
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace spscope::io
