// SPDX-License-Identifier: Apache-2.0
// GraphBuilder, part two: arguments of the exporter's nodes as attributes of ours.
#include "core/io/graph_builder.h"

namespace spscope::io {

using ir::Attribute;
using ir::DType;
using ir::kNone;
using ir::Use;
using ir::UseList;
using ir::ValueId;

Result<Scalar> GraphBuilder::scalarOf(const Json& sym, const Scope& scope, const std::string& what) {
  std::string_view kind;
  Json value;
  if (const auto n = asInt(sym)) return Scalar(*n);
  if (const auto b = asBool(sym)) return Scalar(*b);
  if (const auto d = asDouble(sym)) return Scalar(*d);
  if (readUnion(sym, &kind, &value)) {
    if (kind == "as_name") {
      const auto name = asText(value);
      const auto it = name ? scope.find(*name) : scope.end();
      if (it != scope.end())
        if (const auto* s = std::get_if<Scalar>(&it->second)) return *s;
      return makeError("program-corrupt", what + " uses the number " + std::string(name.value_or("?")) +
                                              " before anything defines it");
    }
    if (kind == "as_int")
      if (const auto n = asInt(value)) return Scalar(*n);
    if (kind == "as_float")
      if (const auto d = asDouble(value)) return Scalar(*d);
    if (kind == "as_bool")
      if (const auto b = asBool(value)) return Scalar(*b);
  }
  return makeError("program-corrupt", what + " has a number that cannot be read");
}

Result<Binding> GraphBuilder::resolve(const Json& argument, const Scope& scope, const std::string& what) {
  std::string_view kind;
  Json value;
  if (!readUnion(argument, &kind, &value)) return makeError("program-corrupt", what + " cannot be read");
  if (kind == "as_none") return Binding();
  if (kind == "as_optional_tensor") return resolve(value, scope, what);
  if (kind == "as_tensor") {
    const auto name = field(value, "name");
    const auto text = name ? asText(*name) : std::nullopt;
    const auto it = text ? scope.find(*text) : scope.end();
    if (it == scope.end())
      return makeError("program-corrupt", what + " uses " + std::string(text.value_or("?")) +
                                              " before anything defines it");
    return it->second;
  }
  if (kind == "as_tensors" || kind == "as_optional_tensors") {
    SP_ASSIGN(const UseList uses, useList(value, scope, what));
    std::vector<ValueId> ids;
    for (const Use& u : uses) ids.push_back(u.value);
    return Binding(std::move(ids));
  }
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool" || kind == "as_int" ||
      kind == "as_float" || kind == "as_bool") {
    SP_ASSIGN(const Scalar s, scalarOf(value, scope, what));
    return Binding(s);
  }
  return makeError("argument-unsupported", what + " is given as " + std::string(kind));
}

Result<UseList> GraphBuilder::useList(const Json& list, const Scope& scope, const std::string& what) {
  const auto items = asArray(list);
  if (!items) return makeError("program-corrupt", what + " is no list");
  UseList uses;
  for (const Json& item : *items) {
    std::string_view kind;
    Json value;
    if (!readUnion(item, &kind, &value)) return makeError("program-corrupt", what + " has an entry that cannot be read");
    Json tensor = item;  // {"name":…} in as_tensors, {"as_tensor":{…}} or {"as_none":…} in as_optional_tensors
    if (kind == "as_none") {
      uses.push_back({kNone});
      continue;
    }
    if (kind == "as_tensor") tensor = value;
    const auto name = field(tensor, "name");
    const auto text = name ? asText(*name) : std::nullopt;
    const auto it = text ? scope.find(*text) : scope.end();
    const auto* id = it != scope.end() ? std::get_if<ValueId>(&it->second) : nullptr;
    if (it != scope.end() && std::holds_alternative<std::monostate>(it->second)) {
      uses.push_back({kNone});
      continue;
    }
    if (!id)
      return makeError("program-corrupt", what + " uses " + std::string(text.value_or("?")) +
                                              " before anything defines it");
    uses.push_back({*id});
  }
  return uses;
}

namespace {
Attribute attributeOf(const Scalar& s) {
  return std::visit([](auto v) { return Attribute(v); }, s);
}

/// A homogeneous list of plain values.
template <typename T, typename F>
Result<Attribute> plainList(const Json& json, const std::string& what, F&& read) {
  std::vector<T> out;
  const auto items = asArray(json);
  if (!items) return makeError("program-corrupt", what + " is no list");
  for (const Json& item : *items) {
    const auto v = read(item);
    if (!v) return makeError("program-corrupt", what + " has an entry of another type");
    out.push_back(T(*v));
  }
  return Attribute(std::move(out));
}
}  // namespace

Result<Attribute> GraphBuilder::attribute(const Json& argument, const Scope& scope, const std::string& what) {
  std::string_view kind;
  Json value;
  if (!readUnion(argument, &kind, &value)) return makeError("program-corrupt", what + " cannot be read");
  const auto wrong = [&] { return makeError("program-corrupt", what + " is not the " + std::string(kind) + " it says"); };
  if (kind == "as_tensor" || kind == "as_none" || kind == "as_optional_tensor" || kind == "as_sym_int" ||
      kind == "as_sym_float" || kind == "as_sym_bool") {
    SP_ASSIGN(const Binding binding, resolve(argument, scope, what));
    if (const auto* id = std::get_if<ValueId>(&binding)) return Attribute(Use{*id});
    if (const auto* s = std::get_if<Scalar>(&binding)) return attributeOf(*s);
    if (const auto* list = std::get_if<std::vector<ValueId>>(&binding)) {
      UseList uses;
      for (const ValueId id : *list) uses.push_back({id});
      return Attribute(std::move(uses));
    }
    return Attribute();
  }
  if (kind == "as_int") {
    const auto n = asInt(value);
    return n ? Result<Attribute>(Attribute(*n)) : wrong();
  }
  if (kind == "as_scalar_type") {
    const DType dtype = dtypeOfCode(asInt(value).value_or(-1));
    if (dtype == DType::kUnknown) return makeError("argument-unsupported", what + " is an element type that we do not know");
    return Attribute(dtype);
  }
  if (kind == "as_device") return Attribute(ir::Device{textField(value, "type")});
  if (kind == "as_ints") return plainList<std::int64_t>(value, what, asInt);
  if (kind == "as_layout") {
    if (asInt(value) != 7) return makeError("argument-unsupported", what + " asks for a layout that is not strided");
    return Attribute(ir::Layout::kStrided);
  }
  if (kind == "as_float") {
    const auto d = asDouble(value);
    return d ? Result<Attribute>(Attribute(*d)) : wrong();
  }
  if (kind == "as_bool") {
    const auto b = asBool(value);
    return b ? Result<Attribute>(Attribute(*b)) : wrong();
  }
  if (kind == "as_tensors" || kind == "as_optional_tensors") {
    SP_ASSIGN(UseList uses, useList(value, scope, what));
    return Attribute(std::move(uses));
  }
  if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools") {
    const auto items = asArray(value);
    if (!items) return wrong();
    std::vector<std::int64_t> ints;
    std::vector<double> doubles;
    std::vector<bool> bools;
    for (const Json& item : *items) {
      SP_ASSIGN(const Scalar s, scalarOf(item, scope, what));
      std::visit([&](auto v) {
        ints.push_back(static_cast<std::int64_t>(v));
        doubles.push_back(static_cast<double>(v));
        bools.push_back(v != 0);
      }, s);
    }
    if (kind == "as_sym_floats") return Attribute(std::move(doubles));
    if (kind == "as_sym_bools") return Attribute(std::move(bools));
    return Attribute(std::move(ints));
  }
  if (kind == "as_string") {
    const auto s = asText(value);
    return s ? Result<Attribute>(Attribute(std::string(*s))) : wrong();
  }
  if (kind == "as_memory_format") {
    const auto n = asInt(value).value_or(0);
    if (n < 1 || n > 4) return makeError("argument-unsupported", what + " is a memory format that we do not know");
    return Attribute(static_cast<ir::MemoryFormat>(n - 1));
  }
  if (kind == "as_floats") return plainList<double>(value, what, asDouble);
  if (kind == "as_bools") return plainList<bool>(value, what, asBool);
  if (kind == "as_strings") return plainList<std::string>(value, what, asText);
  return makeError("argument-unsupported", what + " is given as " + std::string(kind));
}

}  // namespace spscope::io
