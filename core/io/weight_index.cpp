// SPDX-License-Identifier: Apache-2.0
#include "core/io/weight_index.h"

#include "core/io/pickle.h"

namespace spscope::io {

bool sameTensor(const WeightEntry& a, const WeightEntry& b) {
  return !a.empty && !b.empty && a.record == b.record && a.meta.dtype == b.meta.dtype &&
         a.meta.offset == b.meta.offset && a.meta.sizes == b.meta.sizes && a.meta.strides == b.meta.strides;
}

Result<WeightIndex::Table> WeightIndex::readTable(const Archive& archive, const std::string& folder,
                                                  const std::string& config) {
  Table table;
  if (!archive.find(folder + config)) return table;
  SP_ASSIGN(const auto text, archive.read(folder + config));
  JsonDocument document;
  SP_TRY(document.parse(text, archive.slackAfter(text), archive.path() + ":" + folder + config));
  const auto entries = field(document.root(), "config");
  const auto object = entries ? asObject(*entries) : std::nullopt;
  if (!object) return makeError("program-corrupt", folder + config + " holds no table");
  SymbolTable no_symbols;  // sizes of weights are always numbers
  for (const auto& row : *object) {
    const std::string name(row.key);
    const std::string path = textField(row.value, "path_name");
    const auto meta = field(row.value, "tensor_meta");
    const auto pickled = field(row.value, "use_pickle");
    if (pickled && asBool(*pickled).value_or(false))
      return makeError("weight-pickled", "tensor " + name + " is stored as a pickled object (a tensor subclass)");
    if (path.empty() || !meta) continue;  // custom objects have no metadata
    WeightEntry entry;
    SP_ASSIGN(entry.meta, readTensorMeta(*meta, no_symbols, "tensor " + name, true));
    const auto is_parameter = field(row.value, "is_param");
    entry.is_parameter = is_parameter && asBool(*is_parameter).value_or(false);
    entry.record = folder + path;
    const ArchiveEntry* record = archive.find(entry.record);
    if (!record) return makeError("weight-record-missing", "tensor " + name + " names the record " + entry.record +
                                                               ", which the archive does not hold");
    entry.empty = record->size == 0 && ir::numel(entry.meta.sizes) > 0;
    table.emplace(name, std::move(entry));
  }
  return table;
}

/// A file of torch.save: a zip archive in the archive, whose entries stand beside the outer ones.
Result<WeightIndex::Table> WeightIndex::readSaved(const Archive& archive, const std::string& file) {
  Table table;
  if (!archive.find(file)) return table;
  if (archive.find(file + "!byteorder")) {
    SP_ASSIGN(const auto order, archive.read(file + "!byteorder"));
    if (std::string_view(reinterpret_cast<const char*>(order.data()), order.size()) != "little")
      return makeError("weight-big-endian", file + " was saved on a machine with another byte order");
  }
  SP_ASSIGN(const auto pickle, archive.read(file + "!data.pkl"));
  SP_ASSIGN(PickledTensors tensors, readTensorPickle(pickle, archive.path() + ":" + file));
  for (auto& [name, tensor] : tensors) {
    WeightEntry entry;
    entry.meta = std::move(tensor.meta);
    entry.is_parameter = tensor.is_parameter;
    entry.empty = tensor.storage.empty();
    if (!entry.empty) {
      entry.record = file + "!data/" + tensor.storage;
      const ArchiveEntry* record = archive.find(entry.record);
      if (!record) return makeError("weight-record-missing", "tensor " + name + " names the record " + entry.record +
                                                                 ", which the archive does not hold");
      entry.empty = record->size == 0 && ir::numel(entry.meta.sizes) > 0;
    }
    table.emplace(name, std::move(entry));
  }
  return table;
}

Result<WeightIndex> WeightIndex::read(const Archive& archive, const std::string& program) {
  WeightIndex index;
  if (archive.kind() == ArchiveKind::kProgramOld) {
    SP_ASSIGN(index.weights_, readSaved(archive, "serialized_state_dict.pt"));
    SP_ASSIGN(index.constants_, readSaved(archive, "serialized_constants.pt"));
  } else if (archive.kind() == ArchiveKind::kProgramPickled) {
    SP_ASSIGN(index.weights_, readSaved(archive, "data/weights/" + program + ".pt"));
    SP_ASSIGN(index.constants_, readSaved(archive, "data/constants/" + program + ".pt"));
  } else {
    SP_ASSIGN(index.weights_, readTable(archive, "data/weights/", program + "_weights_config.json"));
    SP_ASSIGN(index.constants_, readTable(archive, "data/constants/", program + "_constants_config.json"));
  }
  return index;
}

}  // namespace spscope::io
