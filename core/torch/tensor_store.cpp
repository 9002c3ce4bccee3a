// SPDX-License-Identifier: Apache-2.0
#include "core/torch/tensor_store.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/sum.h>
#include <c10/core/InferenceMode.h>

#include <cmath>
#include <cstring>

#include "core/base/strings.h"
#include "core/io/safetensors.h"
#include "core/torch/dtype_convert.h"
#include "core/torch/seeded.h"
#include "core/torch/tensor_bag_impl.h"

namespace spscope::exec {
namespace {

/// A copy of the strided window that starts at `bytes`, contiguous and of type `wanted`.
at::Tensor copyWindow(std::span<const std::byte> bytes, const ir::Dims& shape, const ir::Dims& strides, ir::DType stored,
                      ir::DType wanted) {
  at::Tensor result = at::empty(shape, at::TensorOptions().dtype(toScalarType(wanted)));
  if (result.numel() == 0) return result;
  const auto options = at::TensorOptions().dtype(toScalarType(stored));
  const std::size_t element = static_cast<std::size_t>(ir::sizeOf(stored));
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % element != 0) {
    // Kernels want elements at their alignment; a file does not promise it.
    at::Tensor aligned = at::empty({static_cast<std::int64_t>(bytes.size() / element)}, options);
    std::memcpy(aligned.mutable_data_ptr(), bytes.data(), bytes.size() / element * element);
    return result.copy_(aligned.as_strided(shape, strides));
  }
  // from_blob takes a mutable pointer; copy_ only reads.
  const at::Tensor view = at::from_blob(const_cast<std::byte*>(bytes.data()), shape, strides, options);
  return result.copy_(view);
}

void warnIfNotFinite(const std::string& name, const at::Tensor& tensor, DiagnosticSink& diagnostics) {
  if (!tensor.is_floating_point() || tensor.numel() == 0) return;
  // One pass without temporaries: a NaN anywhere makes the sum NaN. Only then count.
  if (!std::isnan(tensor.sum(at::kDouble).item<double>())) return;
  const std::int64_t count = at::isnan(tensor).sum().item<std::int64_t>();
  if (count > 0)
    diagnostics.warn("weight-not-finite", strf("%s holds %lld values that are not numbers", name.c_str(),
                                               static_cast<long long>(count)));
}

bool hasValues(const ir::Graph& graph, const ir::Input& input, const io::WeightSource* source) {
  if (source == nullptr || !input.storage) return false;
  if (ir::numel(graph.value(input.value).shape) == 0) return true;
  const auto bytes = source->archive().read(input.storage->record);
  return !bytes || !bytes->empty();  // an unreadable record is an error of its own, not an absent one
}

std::string_view kindName(ir::InputKind kind) {
  switch (kind) {
    case ir::InputKind::kParameter: return "parameter";
    case ir::InputKind::kBuffer: return "buffer";
    case ir::InputKind::kConstant: return "constant";
    case ir::InputKind::kUser: return "input";
  }
  return "input";
}

bool isInteger(ir::DType type) { return type >= ir::DType::kU8 && type <= ir::DType::kI64; }

/// Whether a tensor of type `given` may stand for one of type `wanted`.
bool converts(ir::DType given, ir::DType wanted) {
  if (given == wanted) return true;
  if (ir::isFloating(given) && ir::isFloating(wanted)) return true;
  return isInteger(given) && isInteger(wanted) && ir::sizeOf(given) < ir::sizeOf(wanted);
}

Status checkRange(const ir::Graph& graph, const ir::Input& input, const at::Tensor& tensor) {
  if (!isInteger(toDType(tensor.scalar_type())) || tensor.numel() == 0) return {};
  const auto limit = indexLimit(graph, input.value);
  if (!limit) return {};
  const at::Tensor flat = tensor.to(at::kLong).contiguous().view({-1});
  const std::int64_t* values = flat.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    const std::int64_t v = values[i];
    if ((v >= 0 && v < limit->limit) || (limit->ignored && v == *limit->ignored)) continue;
    Error error = makeError("input-out-of-range",
                            strf("%s holds %lld at element %lld; %s takes 0 to %lld", input.name.c_str(),
                                 static_cast<long long>(v), static_cast<long long>(i), limit->node.c_str(),
                                 static_cast<long long>(limit->limit - 1)));
    error.node = limit->node;
    return error;
  }
  return {};
}

}  // namespace

Result<TensorBag> loadState(const ir::Graph& graph, const io::WeightSource* source, std::optional<std::uint64_t> seed,
                            DiagnosticSink& diagnostics) {
  const c10::InferenceMode off(false);
  TensorBag bag;
  for (const ir::Input& input : graph.inputs) {
    if (input.kind == ir::InputKind::kUser) continue;
    const ir::Value& value = graph.value(input.value);
    if (!hasValues(graph, input, source)) {
      if (!seed) {
        Error error = makeError("weightless", "the file holds no values for the " + std::string(kindName(input.kind)) + " " + input.name);
        return error;
      }
      SP_ASSIGN(at::Tensor seeded, seedTensor(graph, input, *seed));
      bag.impl().append(input.name, std::move(seeded));
      continue;
    }
    SP_ASSIGN(const auto bytes, source->window(graph, input));
    const ir::DType stored = input.storage->dtype == ir::DType::kUnknown ? value.dtype : input.storage->dtype;
    try {
      at::Tensor tensor = copyWindow(bytes, value.shape, input.storage->strides, stored, value.dtype);
      warnIfNotFinite(input.name, tensor, diagnostics);
      bag.impl().append(input.name, std::move(tensor));
    } catch (const std::exception& e) {
      return makeError("weight-size-mismatch", input.name + ": " + e.what());
    }
  }
  return bag;
}

Result<TensorBag> inputsFrom(const ir::Graph& graph, const TensorBag& given, DiagnosticSink& diagnostics) {
  const c10::InferenceMode off(false);
  TensorBag bag;
  for (const ir::Input& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser) continue;
    const ir::Value& value = graph.value(input.value);
    const int at = given.impl().find(input.name);
    if (at < 0) {
      Error error = makeError("input-missing", "no tensor for the input " + input.name);
      error.notes.push_back("the file holds " + join(given.names(), ", "));
      return error;
    }
    const at::Tensor& tensor = given.impl().tensors[static_cast<std::size_t>(at)];
    if (tensor.sizes() != at::IntArrayRef(value.shape))
      return makeError("input-shape", strf("%s is [%s], the program takes [%s]", input.name.c_str(),
                                           join(tensor.sizes().vec(), ", ").c_str(), join(value.shape, ", ").c_str()));
    const ir::DType dtype = toDType(tensor.scalar_type());
    if (!converts(dtype, value.dtype))
      return makeError("input-dtype", strf("%s is %s, the program takes %s", input.name.c_str(),
                                           std::string(ir::longName(dtype)).c_str(),
                                           std::string(ir::longName(value.dtype)).c_str()));
    SP_TRY(checkRange(graph, input, tensor));
    bag.impl().append(input.name, tensor.to(toScalarType(value.dtype)).contiguous());
  }
  for (const std::string& name : given.names())
    if (!bag.contains(name)) diagnostics.warn("input-unused", "no input of the program is called " + name);
  return bag;
}

Result<TensorBag> loadInputs(const ir::Graph& graph, const std::string& path, DiagnosticSink& diagnostics) {
  SP_ASSIGN(const TensorBag bag, loadBag(path));
  return inputsFrom(graph, bag, diagnostics);
}

Status saveBag(const TensorBag& bag, const std::string& path) {
  TensorBag contiguous = bag;
  io::SafetensorsWriter writer;
  for (std::size_t i = 0; i < contiguous.size(); ++i) {
    const TensorBag::Entry entry = contiguous.entry(i);
    SP_ASSIGN(const auto bytes, contiguous.bytesOf(entry.name));
    writer.add(entry.name, entry.dtype, entry.shape, bytes);
  }
  return writer.write(path);
}

Result<TensorBag> loadBag(const std::string& path) {
  SP_ASSIGN(const io::SafetensorsFile file, io::SafetensorsFile::open(path));
  TensorBag bag;
  for (const auto& [name, view] : file.tensors()) SP_TRY(bag.add(name, view.dtype, view.shape, view.bytes));
  return bag;
}

TensorBag withAliases(const ir::Graph& graph, const TensorBag& bag) {
  TensorBag all = bag;
  for (const ir::Input& input : graph.inputs)
    for (const std::string& alias : input.aliases)
      if (bag.contains(input.name) && !bag.contains(alias)) (void)all.share(bag, input.name, alias);
  return all;
}

TensorBag inTypeOf(const TensorBag& bag, const ir::Graph& graph) {
  TensorBag out;
  for (std::size_t i = 0; i < bag.size(); ++i) {
    at::Tensor tensor = bag.impl().tensors[i];
    for (const ir::Input& input : graph.inputs)
      if (input.name == bag.impl().names[i]) tensor = tensor.to(toScalarType(graph.value(input.value).dtype));
    out.impl().append(bag.impl().names[i], tensor);
  }
  return out;
}

}  // namespace spscope::exec
