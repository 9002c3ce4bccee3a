// SPDX-License-Identifier: Apache-2.0
// The tensors named by a pickle of torch.save, as torch 2.8 and older store weights. A pickle is a program that may call
// anything; this reader calls nothing: it knows the opcodes and the dozen names that a dictionary of tensors needs, gives
// them a fixed meaning, and refuses a pickle at the first one it does not know. No element is read here, only where the
// elements stand.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "core/base/result.h"
#include "core/io/tensor_meta.h"

namespace spscope::io {

struct PickledTensor {
  std::string storage;  ///< key of the storage: entry "data/<key>" of the file. Equal keys share memory. "": no values
  TensorMeta meta;      ///< offset and strides in elements
  bool is_parameter = false;
};
using PickledTensors = std::map<std::string, PickledTensor, std::less<>>;

/// The dictionary {name: tensor} that the pickle ("data.pkl" of a torch.save file) builds; `what` names it in errors.
/// Time and memory are linear in its length; nesting is no recursion.
/// Errors: weight-pickled (names something else than tensors), pickle-corrupt.
Result<PickledTensors> readTensorPickle(std::span<const std::byte> pickle, const std::string& what);

}  // namespace spscope::io
