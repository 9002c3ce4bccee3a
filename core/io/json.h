// SPDX-License-Identifier: Apache-2.0
// The little that we need of simdjson, without exceptions: a document that owns its memory and look-ups that answer
// "not there" instead of failing. Included by .cpp files of core/io only.
#pragma once

#define SIMDJSON_EXCEPTIONS 0
#include <simdjson.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace spscope::io {

using Json = simdjson::dom::element;
using JsonObject = simdjson::dom::object;
using JsonArray = simdjson::dom::array;

/// A parsed text. Elements and string views of it live as long as it does.
class JsonDocument {
 public:
  /// `slack`: readable bytes behind the text (mapped file); with enough of them the text is parsed in place.
  /// Errors: json-syntax, with `what` naming the text.
  Status parse(std::span<const std::byte> text, std::size_t slack, const std::string& what) {
    // Our trees are shallow; the limit keeps hostile ones from deep recursion.
    if (parser_.allocate(text.size(), 128) != simdjson::SUCCESS) return makeError("internal", "no memory for " + what);
    const auto* data = reinterpret_cast<const std::uint8_t*>(text.data());
    const auto error = parser_.parse(data, text.size(), slack < simdjson::SIMDJSON_PADDING).get(root_);
    if (error != simdjson::SUCCESS) {
      return makeError("json-syntax", what + " is not valid JSON: " + simdjson::error_message(error));
    }
    return {};
  }
  Json root() const { return root_; }

 private:
  simdjson::dom::parser parser_;
  Json root_;
};

inline std::optional<std::string_view> asText(const Json& e) {
  std::string_view s;
  return e.get(s) == simdjson::SUCCESS ? std::optional(s) : std::nullopt;
}
inline std::optional<std::int64_t> asInt(const Json& e) {
  std::int64_t i = 0;
  return e.get(i) == simdjson::SUCCESS ? std::optional(i) : std::nullopt;
}
inline std::optional<bool> asBool(const Json& e) {
  bool b = false;
  return e.get(b) == simdjson::SUCCESS ? std::optional(b) : std::nullopt;
}
/// Numbers, and the strings "Infinity", "-Infinity", "NaN" that Python's exporter writes for what JSON lacks.
inline std::optional<double> asDouble(const Json& e) {
  double d = 0;
  if (e.get(d) == simdjson::SUCCESS) return d;
  if (const auto s = asText(e)) {
    if (*s == "Infinity") return std::numeric_limits<double>::infinity();
    if (*s == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (*s == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  return std::nullopt;
}
inline std::optional<JsonObject> asObject(const Json& e) {
  JsonObject o;
  return e.get(o) == simdjson::SUCCESS ? std::optional(o) : std::nullopt;
}
inline std::optional<JsonArray> asArray(const Json& e) {
  JsonArray a;
  return e.get(a) == simdjson::SUCCESS ? std::optional(a) : std::nullopt;
}
inline std::optional<Json> field(const JsonObject& o, std::string_view key) {
  Json e;
  return o.at_key(key).get(e) == simdjson::SUCCESS ? std::optional(e) : std::nullopt;
}
inline std::optional<Json> field(const Json& e, std::string_view key) {
  const auto o = asObject(e);
  return o ? field(*o, key) : std::nullopt;
}
/// field(field(e, a), b)
inline std::optional<Json> field(const Json& e, std::string_view a, std::string_view b) {
  const auto inner = field(e, a);
  return inner ? field(*inner, b) : std::nullopt;
}
inline std::string textField(const Json& e, std::string_view key) {
  const auto f = field(e, key);
  const auto s = f ? asText(*f) : std::nullopt;
  return s ? std::string(*s) : std::string();
}

/// An argument is an object with one key that says what it is.
inline bool readUnion(const Json& json, std::string_view* kind, Json* value) {
  const auto object = asObject(json);
  if (!object) return false;
  for (const auto& entry : *object) {
    *kind = entry.key;
    *value = entry.value;
    return true;
  }
  return false;
}

}  // namespace spscope::io
