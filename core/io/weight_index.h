// SPDX-License-Identifier: Apache-2.0
// The archive's tables of weights and constants: which record, type and strided window each name has. No payload is
// read, only its size looked at.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/io/archive.h"
#include "core/io/tensor_meta.h"

namespace spscope::io {

struct WeightEntry {
  std::string record;  ///< "data/weights/weight_3", as Archive::read takes it
  TensorMeta meta;
  bool is_parameter = false;
  bool empty = false;  ///< the record has no bytes although the tensor has elements: exported without values
};

/// Two names with the same bytes in the same arrangement are one tensor.
bool sameTensor(const WeightEntry& a, const WeightEntry& b);

class WeightIndex {
 public:
  /// Reads `data/weights/<program>_weights_config.json` and its twin for constants, or what torch 2.8 and older have in
  /// their place, dictionaries of torch.save (see pickle.h); each may be absent.
  /// Errors: json-syntax, program-corrupt, weight-pickled (more than plain tensors), weight-record-missing,
  /// pickle-corrupt, weight-big-endian.
  static Result<WeightIndex> read(const Archive& archive, const std::string& program);
  const WeightEntry* weight(std::string_view name) const { return find(weights_, name); }
  const WeightEntry* constant(std::string_view name) const { return find(constants_, name); }
  const std::map<std::string, WeightEntry, std::less<>>& weights() const { return weights_; }

 private:
  using Table = std::map<std::string, WeightEntry, std::less<>>;
  static Result<Table> readTable(const Archive& archive, const std::string& folder, const std::string& config);
  static Result<Table> readSaved(const Archive& archive, const std::string& file);
  static const WeightEntry* find(const Table& table, std::string_view name) {
    const auto it = table.find(name);
    return it == table.end() ? nullptr : &it->second;
  }
  Table weights_, constants_;
};

}  // namespace spscope::io
