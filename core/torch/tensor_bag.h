// SPDX-License-Identifier: Apache-2.0
// Named tensors as one value: weights, inputs, gradients, optimizer states. No libtorch in this header.
//
// A bag keeps the order in which tensors were added. Copying a bag shares the tensors; clone() copies their bytes.
// Only core/torch looks at the tensors themselves (tensor_bag_impl.h). Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/ir/dtype.h"
#include "core/ir/placement.h"

namespace spscope::exec {

class TensorBag {
 public:
  struct Entry {
    std::string name;
    ir::DType dtype = ir::DType::kUnknown;
    ir::Dims shape;
    std::int64_t bytes() const { return ir::numel(shape) * ir::sizeOf(dtype); }
  };

  TensorBag();
  ~TensorBag();
  TensorBag(const TensorBag& other);  ///< shares the tensors
  TensorBag& operator=(const TensorBag& other);
  TensorBag(TensorBag&&) noexcept;
  TensorBag& operator=(TensorBag&&) noexcept;

  std::size_t size() const;
  bool empty() const { return size() == 0; }
  bool contains(std::string_view name) const;
  /// In the order of insertion; index < size().
  Entry entry(std::size_t index) const;
  /// Error "tensor-missing" when there is no such tensor.
  Result<Entry> entry(std::string_view name) const;
  std::vector<std::string> names() const;
  /// Bytes of the tensors, a storage that several of them share counted once.
  std::int64_t bytes() const;

  /// Adds a copy of `bytes` (row-major, numel * sizeOf(dtype)) under `name`, replacing a tensor of that name.
  /// Error "tensor-bytes" when the sizes do not agree.
  Status add(std::string name, ir::DType dtype, const ir::Dims& shape, std::span<const std::byte> bytes);
  /// Adds the tensor `name` of `from` (shared) under `as`. Error "tensor-missing".
  Status share(const TensorBag& from, std::string_view name, std::string as = {});
  bool erase(std::string_view name);
  void clear();

  /// Elements in row-major order, converted to double. Errors: tensor-missing, or complex types "tensor-dtype".
  Result<std::vector<double>> values(std::string_view name) const;
  /// The single element of a tensor with one element, as double.
  Result<double> scalar(std::string_view name) const;
  /// Contiguous row-major bytes of a tensor, valid while this bag holds it unchanged; a copy is made (and kept in the
  /// bag) where the tensor is strided. Error tensor-missing.
  Result<std::span<const std::byte>> bytesOf(std::string_view name);
  /// Independent copies of all tensors; tensors that share a storage stay shared only if they are the same window.
  TensorBag clone() const;

  struct Impl;
  Impl& impl() { return *impl_; }
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace spscope::exec
