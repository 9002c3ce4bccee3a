// SPDX-License-Identifier: Apache-2.0
// The JSON half of plain data; the pickled half shares core/io/pickle.cpp's machine.
#include "core/io/plain_data.h"

#include "core/io/json.h"

namespace spscope::io {
namespace {

/// As deep as JsonDocument's limit allows at most.
std::uint32_t add(const Json& json, PlainData* out) {
  using Kind = PlainItem::Kind;
  const auto index = static_cast<std::uint32_t>(out->items.size());
  out->items.emplace_back();
  std::vector<std::uint32_t> parts;
  if (const auto object = asObject(json)) {
    out->items[index].kind = Kind::kDict;
    for (const auto& [key, value] : *object) {
      parts.push_back(static_cast<std::uint32_t>(out->items.size()));
      PlainItem& name = out->items.emplace_back();
      name.kind = Kind::kText;
      name.text = key;
      parts.push_back(add(value, out));
    }
  } else if (const auto array = asArray(json)) {
    out->items[index].kind = Kind::kList;
    for (const Json value : *array) parts.push_back(add(value, out));
  } else if (const auto text = asText(json)) {
    out->items[index].kind = Kind::kText;
    out->items[index].text = *text;
  } else if (const auto number = asInt(json)) {
    out->items[index].kind = Kind::kInt;
    out->items[index].number = *number;
  } else if (const auto truth = asBool(json)) {
    out->items[index].kind = Kind::kBool;
    out->items[index].number = *truth;
  } else if (asDouble(json)) {
    out->items[index].kind = Kind::kReal;
  }
  out->items[index].items = std::move(parts);
  return index;
}

}  // namespace

Result<PlainData> readPlainJson(std::span<const std::byte> text, const std::string& what) {
  JsonDocument document;
  SP_TRY(document.parse(text, 0, what));
  PlainData out;
  out.root = add(document.root(), &out);
  return out;
}

}  // namespace spscope::io
