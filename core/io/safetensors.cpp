// SPDX-License-Identifier: Apache-2.0
#include "core/io/safetensors.h"


#include <algorithm>
#include <cstring>

#include "core/base/new_file.h"
#include "core/base/strings.h"
#include "core/io/int128.h"
#include "core/io/json.h"

namespace spscope::io {
namespace {

struct TypeName {
  ir::DType type;
  std::string_view name;
};
constexpr TypeName kTypes[] = {
    {ir::DType::kBool, "BOOL"}, {ir::DType::kU8, "U8"},     {ir::DType::kI8, "I8"},     {ir::DType::kI16, "I16"},
    {ir::DType::kU16, "U16"},   {ir::DType::kF16, "F16"},   {ir::DType::kBF16, "BF16"}, {ir::DType::kI32, "I32"},
    {ir::DType::kU32, "U32"},   {ir::DType::kF32, "F32"},   {ir::DType::kF64, "F64"},   {ir::DType::kI64, "I64"},
    {ir::DType::kU64, "U64"},   {ir::DType::kF8E4M3FN, "F8_E4M3"}, {ir::DType::kF8E5M2, "F8_E5M2"},
    {ir::DType::kC64, "C64"},
};

std::string_view nameOf(ir::DType type) {
  for (const auto& t : kTypes)
    if (t.type == type) return t.name;
  return {};
}
ir::DType typeOf(std::string_view name) {
  for (const auto& t : kTypes)
    if (t.name == name) return t.type;
  return ir::DType::kUnknown;
}

/// Bytes of a dense tensor; nullopt for negative sizes or a product beyond 2^60.
std::optional<std::uint64_t> byteCount(ir::DType type, const ir::Dims& shape) {
  Int128 n = ir::sizeOf(type);
  for (const auto d : shape) {
    if (d < 0) return std::nullopt;
    n *= d;
    if (n > (static_cast<Int128>(1) << 60)) return std::nullopt;
  }
  return static_cast<std::uint64_t>(n);
}

std::string jsonText(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += strf("\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  SP_ASSIGN(auto file, MappedFile::open(path));
  return open(std::move(file));
}

Result<SafetensorsFile> SafetensorsFile::open(std::shared_ptr<const MappedFile> file) {
  SafetensorsFile out;
  out.file_ = std::move(file);
  const std::string& path = out.file_->path();
  const auto bytes = out.file_->bytes();
  std::uint64_t header = 0;
  if (bytes.size() < 8) return makeError("safetensors-truncated", path + " has only " + std::to_string(bytes.size()) + " bytes");
  std::memcpy(&header, bytes.data(), 8);
  const auto corrupt = [&](const std::string& what) { return makeError("safetensors-corrupt", path + ": " + what); };
  if (bytes.size() > 8 && bytes[8] != std::byte{'{'}) return corrupt("this is no safetensors file");
  if (header > bytes.size() - 8)
    return makeError("safetensors-truncated", strf("%s announces a header of %llu bytes and has %zu", path.c_str(),
                                                   static_cast<unsigned long long>(header), bytes.size()));
  JsonDocument document;
  const auto text = bytes.subspan(8, header);
  SP_TRY(document.parse(text, bytes.size() - 8 - header, path + ": its header"));
  const auto object = asObject(document.root());
  if (!object) return corrupt("the header is no object");
  const auto payload = bytes.subspan(8 + header);
  struct Range { std::uint64_t begin, end; std::string name; };
  std::vector<Range> ranges;
  for (const auto& entry : *object) {
    const std::string name(entry.key);
    if (name == "__metadata__") {
      if (const auto meta = asObject(entry.value))
        for (const auto& m : *meta) out.metadata_[std::string(m.key)] = std::string(asText(m.value).value_or(""));
      continue;
    }
    TensorView tensor;
    const std::string type = textField(entry.value, "dtype");
    tensor.dtype = typeOf(type);
    if (tensor.dtype == ir::DType::kUnknown) return corrupt("tensor " + name + " has the unknown type \"" + type + "\"");
    const auto shape = field(entry.value, "shape"), offsets = field(entry.value, "data_offsets");
    const auto dims = shape ? asArray(*shape) : std::nullopt, ends = offsets ? asArray(*offsets) : std::nullopt;
    if (!dims || !ends || ends->size() != 2) return corrupt("tensor " + name + " has no shape or no data_offsets");
    for (const Json& d : *dims) tensor.shape.push_back(asInt(d).value_or(-1));
    std::int64_t at[2] = {-1, -1};
    int i = 0;
    for (const Json& e : *ends) at[i++] = asInt(e).value_or(-1);
    const auto wanted = byteCount(tensor.dtype, tensor.shape);
    if (!wanted || at[0] < 0 || at[1] < at[0] || static_cast<std::uint64_t>(at[1] - at[0]) != *wanted)
      return corrupt("tensor " + name + " has offsets that do not fit its shape");
    if (static_cast<std::uint64_t>(at[1]) > payload.size())
      return makeError("safetensors-truncated", path + " ends before tensor " + name + " does");
    tensor.bytes = payload.subspan(static_cast<std::size_t>(at[0]), static_cast<std::size_t>(*wanted));
    if (*wanted > 0) ranges.push_back({static_cast<std::uint64_t>(at[0]), static_cast<std::uint64_t>(at[1]), name});
    if (!out.tensors_.emplace(name, std::move(tensor)).second) return corrupt("tensor " + name + " is there twice");
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (std::size_t k = 1; k < ranges.size(); ++k)
    if (ranges[k].begin < ranges[k - 1].end)
      return corrupt("tensors " + ranges[k - 1].name + " and " + ranges[k].name + " overlap");
  return out;
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

Result<TensorView> SafetensorsFile::get(std::string_view name) const {
  if (const TensorView* t = find(name)) return *t;
  std::vector<std::string> names;
  for (const auto& [n, t] : tensors_) names.push_back(n);
  Error error = makeError("tensor-missing", path() + " holds no tensor " + std::string(name));
  const std::string near = nearest(name, names);
  if (!near.empty()) error.message += "; did you mean " + near + "?";
  if (names.size() > 12) names.resize(12);
  error.legal = join(names, ", ");
  return error;
}

void SafetensorsWriter::add(std::string name, ir::DType dtype, ir::Dims shape, std::span<const std::byte> bytes) {
  tensors_[std::move(name)] = TensorView{dtype, std::move(shape), bytes};
}

Status SafetensorsWriter::write(const std::string& path) const {
  // By falling alignment, then by name: every payload is aligned and the order does not depend on that of add().
  std::vector<std::pair<std::string, const TensorView*>> order;
  for (const auto& [name, tensor] : tensors_) order.emplace_back(name, &tensor);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return ir::sizeOf(a.second->dtype) > ir::sizeOf(b.second->dtype);
  });
  std::string header = "{";
  if (!metadata_.empty()) {
    header += "\"__metadata__\":{";
    bool first = true;
    for (const auto& [key, value] : metadata_) {
      header += (first ? "" : ",") + jsonText(key) + ":" + jsonText(value);
      first = false;
    }
    header += "}";
  }
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : order) {
    const auto wanted = byteCount(tensor->dtype, tensor->shape);
    const std::string_view type = nameOf(tensor->dtype);
    if (type.empty())
      return makeError("tensor-mismatch", "tensor " + name + " has the type " + std::string(ir::longName(tensor->dtype)) +
                                              ", which safetensors files cannot hold");
    if (!wanted || *wanted != tensor->bytes.size())
      return makeError("tensor-mismatch", strf("tensor %s of shape [%s] was given %zu bytes", name.c_str(),
                                               join(tensor->shape, ", ").c_str(), tensor->bytes.size()));
    if (header.size() > 1) header += ",";
    header += jsonText(name) + ":{\"dtype\":\"" + std::string(type) + "\",\"shape\":[" + join(tensor->shape, ",") +
              "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(offset + *wanted) + "]}";
    offset += *wanted;
  }
  header += "}";
  while (header.size() % 8 != 0) header += ' ';

  const std::uint64_t length = header.size();
  std::vector<std::string_view> parts{{reinterpret_cast<const char*>(&length), 8}, header};
  for (const auto& [name, tensor] : order)
    parts.emplace_back(reinterpret_cast<const char*>(tensor->bytes.data()), tensor->bytes.size());
  return writeWholeFile(path, parts);
}

}  // namespace spscope::io
