// SPDX-License-Identifier: Apache-2.0
#include "core/io/weights.h"

#include "core/base/strings.h"
#include "core/io/int128.h"

namespace spscope::io {
namespace {

/// One past the last element that the window touches, counted from its offset; 0 for an empty tensor. nullopt where
/// strides are negative or the count does not fit.
std::optional<std::int64_t> extent(const ir::Dims& shape, const ir::Dims& strides) {
  Int128 last = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return 0;
    if (strides[d] < 0) return std::nullopt;
    last += static_cast<Int128>(shape[d] - 1) * strides[d];
    if (last > (static_cast<Int128>(1) << 60)) return std::nullopt;
  }
  return static_cast<std::int64_t>(last) + 1;
}

}  // namespace

Result<std::span<const std::byte>> WeightSource::storage(const ir::Graph& graph, const ir::Input& input) const {
  if (!input.storage) return makeError("weightless", "the file holds no values for " + input.name);
  SP_ASSIGN(const auto bytes, archive_->read(input.storage->record));
  const ir::Value& value = graph.value(input.value);
  const ir::DType dtype = input.storage->dtype == ir::DType::kUnknown ? value.dtype : input.storage->dtype;
  const std::int64_t size = ir::sizeOf(dtype);
  const auto span = input.storage->strides.size() == value.shape.size() ? extent(value.shape, input.storage->strides)
                                                                        : std::nullopt;
  const std::int64_t offset = input.storage->offset;
  const auto held = size > 0 ? static_cast<std::int64_t>(bytes.size()) / size : 0;
  if (!span || size == 0 || offset < 0 || offset > held || *span > held - offset)
    return makeError("weight-size-mismatch",
                     strf("tensor %s of shape [%s] does not fit into its record %s of %zu bytes", input.name.c_str(),
                          join(value.shape, ", ").c_str(), input.storage->record.c_str(), bytes.size()));
  return bytes;
}

Result<std::span<const std::byte>> WeightSource::window(const ir::Graph& graph, const ir::Input& input) const {
  SP_ASSIGN(const auto bytes, storage(graph, input));
  const ir::Value& value = graph.value(input.value);
  const ir::DType dtype = input.storage->dtype == ir::DType::kUnknown ? value.dtype : input.storage->dtype;
  const auto size = static_cast<std::size_t>(ir::sizeOf(dtype));
  const std::int64_t span = extent(value.shape, input.storage->strides).value_or(0);
  return bytes.subspan(static_cast<std::size_t>(input.storage->offset) * size, static_cast<std::size_t>(span) * size);
}

}  // namespace spscope::io
