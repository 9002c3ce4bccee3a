// SPDX-License-Identifier: Apache-2.0
// Types, values and attributes of the text form.
#include <charconv>
#include <limits>

#include "core/ir/text_parser.h"
#include "core/ir/text_words.h"

namespace spscope::ir {
namespace {

constexpr std::size_t kMaxRank = 64;                          // dimensions of a value
constexpr std::int64_t kMaxElements = std::int64_t{1} << 56;  // so that byte counts cannot overflow

}  // namespace

// --- types ------------------------------------------------------------------------------------------------------------

Result<FactorList> Parser::factors() {
  FactorList out;
  const auto tagOf = [](std::string_view w) {
    for (std::size_t i = 0; i < words::kTags.size(); ++i)
      if (w.size() == 1 && w[0] == words::kTags[i]) return static_cast<int>(i);
    return -1;
  };
  bool tagged = false;
  do {
    Factor factor;
    SP_ASSIGN(factor.size, integer("a factor", 0, kMaxElements));
    if (token_.kind == Tok::kWord) {
      const int tag = tagOf(token_.text);
      if (tag < 0) return expected("a tag: s, b, x or n");
      factor.tag = static_cast<Tag>(tag);
      tagged = true;
      advance();
    }
    out.push_back(factor);
    if (out.size() > kMaxRank) return wrong(token_, "too many factors");
  } while (take('*'));
  if (out.size() == 1 && out[0].size == 1 && !tagged) out.clear();  // a dimension of size 1 has no factor
  return out;
}

Result<Placement> Parser::placement(std::string_view word) {
  // "S1" or "S2.1": dimension and factor.
  const char* at = word.data() + 1;
  const char* end = word.data() + word.size();
  Placement p;
  p.kind = PlacementKind::kSharded;
  auto r = std::from_chars(at, end, p.dim);
  bool good = r.ec == std::errc() && p.dim >= 0;
  if (good && r.ptr != end) {
    good = *r.ptr == '.';
    r = std::from_chars(r.ptr + 1, end, p.factor);
    good = good && r.ec == std::errc() && r.ptr == end && p.factor >= 0;
  }
  if (!good) return expected("a placement like S1[4, 4] or S1.1[4, 4]");
  advance();
  SP_ASSIGN(p.sizes, intList());
  return p;
}

Result<Value> Parser::type() {
  Value v;
  const Token at = token_;
  if (take('?')) {
    v.dtype = DType::kUnknown;
  } else {
    const auto dtype = token_.kind == Tok::kWord ? parseDType(token_.text) : std::nullopt;
    if (!dtype) return expected("a type like f32[2, 8]");
    v.dtype = *dtype;
    advance();
  }
  const auto checked = [&](const Dims& dims) -> Status {
    std::int64_t elements = 1;
    if (dims.size() > kMaxRank) return wrong(at, "too many dimensions");
    for (std::int64_t d : dims) {
      if (d < 0) return wrong(at, "a dimension is negative");
      if (d > 1 && __builtin_mul_overflow(elements, d, &elements)) elements = kMaxElements + 1;
      if (elements > kMaxElements) return wrong(at, "the shape has too many elements");
    }
    return {};
  };
  if (take('{')) {
    Dims flat;  // every factor: their product is what may overflow
    SP_TRY(listUntil('}', [&]() -> Status {
      SP_ASSIGN(FactorList list, factors());
      for (const Factor& f : list) flat.push_back(f.size);
      v.factors.push_back(std::move(list));
      if (v.factors.size() > kMaxRank || flat.size() > kMaxRank) return wrong(at, "too many dimensions");
      return {};
    }));
    SP_TRY(checked(flat));
    v.shape = shapeOf(v.factors);
  } else {
    SP_ASSIGN(v.shape, intList());
  }
  std::optional<Dims> local;
  while (true) {
    if (token_.kind != Tok::kWord) break;
    const std::string_view w = token_.text;
    if (takeWord("grad")) {
      v.requires_grad = true;
    } else if (takeWord("P")) {
      v.placement = Placement::partial();
    } else if (takeWord("local")) {
      SP_ASSIGN(local, intList());
    } else if (takeWord("global")) {
      SP_ASSIGN(v.shape, intList());
    } else if (takeWord("alias")) {
      SP_TRY(need('='));
      SP_ASSIGN(v.storage, valueUse());
    } else if (takeWord("bytes")) {
      SP_TRY(need('='));
      SP_ASSIGN(v.storage_bytes, integer("bytes", 0, std::numeric_limits<std::int64_t>::max()));
    } else if (takeWord("keep")) {
      SP_TRY(need('='));
      const int keep = token_.kind == Tok::kWord ? words::indexOf(words::kKeeps, token_.text) : -1;
      if (keep <= 0) return expected("saved, recompute or freed");
      v.keep = static_cast<Keep>(keep);
      advance();
    } else if (w[0] == 'S' && w.size() > 1) {
      SP_ASSIGN(v.placement, placement(w));
    } else {
      break;
    }
  }
  SP_TRY(checked(v.shape));
  v.local = local ? std::move(*local) : v.shape;
  SP_TRY(checked(v.local));
  return v;
}

// --- values -----------------------------------------------------------------------------------------------------------

Result<std::string_view> Parser::valueName() {
  if (token_.kind != Tok::kName) return expected("a value like %x");
  std::string_view name = token_.text;
  if (name[0] == '"') {
    std::string decoded;
    if (!unquote(name, &decoded)) return wrong(token_, "unknown escape in a name");
    name = unquoted_.emplace_back(std::move(decoded));
  }
  advance();
  return name;
}

Result<ValueId> Parser::valueUse() {
  const std::size_t offset = token_.offset;
  SP_ASSIGN(const std::string_view name, valueName());
  auto [it, fresh] = values_.try_emplace(name);
  if (fresh) {
    Value placeholder;
    placeholder.name = name;
    it->second = {graph_.adoptValue(std::move(placeholder)), false, offset};
  }
  return it->second.id;
}

Result<ValueId> Parser::valueDefinition(std::string_view name, const Token& at, Value value) {
  auto [it, fresh] = values_.try_emplace(name);
  Known& known = it->second;
  if (known.defined) return wrong(at, "%" + std::string(name) + " is defined twice");
  known.defined = true;
  value.name = name;
  if (fresh) {
    known.id = graph_.adoptValue(std::move(value));
  } else {
    value.id = known.id;
    graph_.value(known.id) = std::move(value);
  }
  return known.id;
}

// --- attributes -------------------------------------------------------------------------------------------------------

Result<Attribute> Parser::attributeList(std::string_view kind) {
  // The first entry decides the kind; an empty list says it in front ("floats[]"), ints when it does not.
  SP_TRY(need('['));
  if (take(']')) {
    if (kind == "tensors") return Attribute(UseList{});
    if (kind == "floats") return Attribute(std::vector<double>{});
    if (kind == "bools") return Attribute(std::vector<bool>{});
    if (kind == "strings") return Attribute(std::vector<std::string>{});
    return Attribute(Dims{});
  }
  const auto fill = [&](auto out, auto&& entry) -> Result<Attribute> {
    SP_TRY(listUntil(']', [&]() -> Status {
      SP_ASSIGN(auto value, entry());
      out.push_back(std::move(value));
      return {};
    }));
    return Attribute(std::move(out));
  };
  if (token_.kind == Tok::kName || token_.isWord("none"))
    return fill(UseList{}, [&]() -> Result<Use> {
      if (takeWord("none")) return Use{};
      SP_ASSIGN(const ValueId id, valueUse());
      return Use{id};
    });
  if (token_.kind == Tok::kInt) return fill(Dims{}, [&] { return integer(); });
  if (token_.kind == Tok::kReal || token_.isWord("inf") || token_.isWord("nan"))
    return fill(std::vector<double>{}, [&] { return real(); });
  if (token_.kind == Tok::kString) return fill(std::vector<std::string>{}, [&] { return string(); });
  return fill(std::vector<bool>{}, [&]() -> Result<bool> {
    if (takeWord("true")) return true;
    if (takeWord("false")) return false;
    return expected("an entry of a list: value, none, integer, number, text, true or false");
  });
}

Result<Attribute> Parser::attribute() {
  switch (token_.kind) {
    case Tok::kName: {
      SP_ASSIGN(const ValueId id, valueUse());
      return Attribute(Use{id});
    }
    case Tok::kInt: {
      SP_ASSIGN(const std::int64_t n, integer());
      return Attribute(n);
    }
    case Tok::kReal: {
      SP_ASSIGN(const double d, real());
      return Attribute(d);
    }
    case Tok::kString: {
      SP_ASSIGN(std::string s, string());
      return Attribute(std::move(s));
    }
    case Tok::kPunct:
      if (token_.is('[')) return attributeList("");
      if (take('?')) return Attribute(DType::kUnknown);
      break;
    case Tok::kWord: {
      const std::string_view w = token_.text;
      if (w == "inf" || w == "nan") {
        SP_ASSIGN(const double d, real());
        return Attribute(d);
      }
      if (takeWord("none")) return Attribute();
      if (takeWord("true")) return Attribute(true);
      if (takeWord("false")) return Attribute(false);
      if (takeWord("strided")) return Attribute(Layout::kStrided);
      if (w == "tensors" || w == "floats" || w == "bools" || w == "strings") {
        advance();
        return attributeList(w);
      }
      if (takeWord("tensor")) {
        SP_TRY(need('('));
        SP_TRY(needWord("none"));
        SP_TRY(need(')'));
        return Attribute(Use{});
      }
      if (takeWord("device")) {
        SP_TRY(need('('));
        SP_ASSIGN(std::string type, string());
        SP_TRY(need(')'));
        return Attribute(Device{std::move(type)});
      }
      if (const int format = words::indexOf(words::kMemoryFormats, w); format >= 0) {
        advance();
        return Attribute(static_cast<MemoryFormat>(format));
      }
      if (const auto dtype = parseDType(w)) {
        advance();
        return Attribute(*dtype);
      }
      break;
    }
    default: break;
  }
  return expected("the value of an argument");
}

}  // namespace spscope::ir
