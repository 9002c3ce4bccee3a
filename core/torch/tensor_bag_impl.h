// SPDX-License-Identifier: Apache-2.0
// The tensors inside a TensorBag. Only for files of core/torch (and their tests): it includes ATen.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "core/torch/tensor_bag.h"

namespace spscope::exec {

struct TensorBag::Impl {
  std::vector<std::string> names;
  std::vector<at::Tensor> tensors;  ///< parallel to names; always defined

  /// -1 where there is no such tensor. The index is built on the first look-up, so that filling a bag stays cheap.
  int find(std::string_view name) const;
  /// Replaces a tensor of that name.
  void put(std::string name, at::Tensor tensor);
  /// Appends without looking whether the name is there already.
  void append(std::string name, at::Tensor tensor);
  void dropIndex() { index.clear(); }

 private:
  mutable std::unordered_map<std::string, int> index;
};

}  // namespace spscope::exec
