// SPDX-License-Identifier: Apache-2.0
// Parser of the text form: one pass, one token of look-ahead, no recursion. Values may be used before the line that
// defines them (the verifier is what refuses that), so that a broken graph can be written down in a test.
#include <charconv>
#include <deque>
#include <limits>
#include <unordered_map>

#include "core/ir/text.h"
#include "core/ir/text_reader.h"
#include "core/ir/text_words.h"

namespace spscope::ir {
namespace {

constexpr std::size_t kMaxRank = 64;                       // dimensions of a value
constexpr std::int64_t kMaxElements = std::int64_t{1} << 56;  // so that byte counts cannot overflow
constexpr std::int64_t kMaxRanks = 1 << 20;                // of the mesh

class Parser : private TokenReader {
 public:
  using TokenReader::TokenReader;

  Result<GraphText> parse();

 private:
  // --- parts of the graph -----------------------------------------------------------------------------------------
  Status header(TextHeader* out);
  Status graphLine();
  Status input();
  Status output();
  Status node();
  Result<Value> type();
  Result<FactorList> factors();
  Result<Placement> placement(std::string_view word);
  Result<Attribute> attribute();
  Result<Attribute> attributeList(std::string_view kind);
  Status nodeTail(Node* node);
  Result<LocationRef> location(std::size_t start);

  Result<std::string_view> valueName();
  Result<ValueId> valueUse();
  Result<ValueId> valueDefinition(std::string_view name, const Token& at, Value value);
  Symbol symbol(std::string_view text);

  struct Known {
    ValueId id = kNone;
    bool defined = false;
    std::size_t first_use = 0;
  };

  Graph graph_;
  std::int64_t next_id_ = 0;
  std::int64_t max_ids_ = 0;
  std::vector<bool> id_taken_;
  std::unordered_map<std::string_view, Known> values_;
  std::unordered_map<std::string_view, Symbol> symbols_;      // interning takes a lock; a text repeats few words
  std::unordered_map<std::string_view, LocationRef> locations_;  // by their text, so that nodes share them
  std::deque<std::string> unquoted_;                          // owns names written in quotes
};

Symbol Parser::symbol(std::string_view text) {
  const auto it = symbols_.find(text);
  if (it != symbols_.end()) return it->second;
  const Symbol s(text);
  symbols_.emplace(s.str(), s);
  return s;
}

// --- header and graph line ------------------------------------------------------------------------------------------

Status Parser::header(TextHeader* out) {
  const auto lineFrom = [&](std::size_t start) { return text_.substr(start, text_.find('\n', start) - start); };
  std::string_view line = lineFrom(0);
  if (line.substr(0, words::kVersionPrefix.size()) != words::kVersionPrefix)
    return syntaxError(text_, file_, 0, "expected the version line '" + std::string(words::kVersionPrefix) +
                                            std::string(words::kVersion) + "'");
  if (line.substr(words::kVersionPrefix.size()) != words::kVersion)
    return syntaxError(text_, file_, words::kVersionPrefix.size(),
                       "unknown version of the text form (this program reads version " + std::string(words::kVersion) + ")");
  for (std::size_t at = line.size() + 1; at < text_.size(); at += line.size() + 1) {
    line = lineFrom(at);
    if (line.substr(0, 3) != "// ") break;
    const std::size_t colon = line.find(": ");
    const std::string_view key = line.substr(3, colon == std::string_view::npos ? 0 : colon - 3);
    bool is_key = !key.empty();
    for (char c : key) is_key = is_key && ((c >= 'a' && c <= 'z') || words::isDigit(c) || c == '_' || c == '-');
    if (!is_key) continue;  // a plain comment
    std::string value;
    const std::string_view raw = line.substr(colon + 2);
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] == '\\' && i + 1 < raw.size() && (raw[i + 1] == '\\' || raw[i + 1] == 'n' || raw[i + 1] == 'r')) {
        ++i;
        value += raw[i] == 'n' ? '\n' : raw[i] == 'r' ? '\r' : '\\';
      } else {
        value += raw[i];
      }
    }
    out->entries.emplace_back(std::string(key), std::move(value));
  }
  return {};
}

Status Parser::graphLine() {
  SP_TRY(needWord("graph"));
  SP_ASSIGN(graph_.name, string());
  const int form = token_.kind == Tok::kWord ? words::indexOf(words::kForms, token_.text) : -1;
  if (form < 0) return expected("the form: global, planned, local or joint");
  graph_.form = static_cast<Form>(form);
  advance();
  std::int64_t declared_ids = 0;
  while (!token_.is('{')) {
    if (takeWord("mesh")) {
      SP_TRY(need('('));
      const auto axis = [&]() -> Status {
        SP_ASSIGN(std::string name, wordOrString("the name of a mesh axis"));
        SP_TRY(need('='));
        SP_ASSIGN(const std::int64_t size, integer("the size of a mesh axis", 1, kMaxRanks));
        graph_.mesh.axes.push_back({std::move(name), static_cast<int>(size)});
        return {};
      };
      SP_TRY(listUntil(')', axis));
    } else if (takeWord("rank")) {
      SP_TRY(need('='));
      SP_ASSIGN(const std::int64_t rank, integer("rank", 0, kMaxRanks));
      graph_.rank = static_cast<int>(rank);
    } else if (takeWord("ids")) {
      SP_TRY(need('='));
      SP_ASSIGN(declared_ids, integer("ids", 0, max_ids_));
    } else {
      return expected("'mesh', 'rank', 'ids' or '{'");
    }
  }
  advance();
  graph_.reserveNodeIds(static_cast<std::size_t>(declared_ids));
  return {};
}

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

Status Parser::input() {
  Input in;
  if (!takeWord("_")) {
    const Token at = token_;
    SP_ASSIGN(const std::string_view name, valueName());
    SP_TRY(need(':'));
    SP_ASSIGN(Value value, type());
    SP_ASSIGN(in.value, valueDefinition(name, at, std::move(value)));
  }
  const int kind = token_.kind == Tok::kWord ? words::indexOf(words::kInputKinds, token_.text) : -1;
  if (kind < 0) return expected("the kind of input: parameter, buffer, constant or user");
  in.kind = static_cast<InputKind>(kind);
  advance();
  SP_ASSIGN(in.name, string());
  while (true) {
    if (takeWord("trainable")) {
      in.trainable = true;
    } else if (takeWord("aliases")) {
      SP_TRY(need('('));
      SP_TRY(listUntil(')', [&]() -> Status {
        SP_ASSIGN(std::string alias, string());
        in.aliases.push_back(std::move(alias));
        return {};
      }));
    } else if (takeWord("storage")) {
      StorageRef ref;
      SP_TRY(need('('));
      SP_ASSIGN(ref.record, string());
      SP_TRY(need(','));
      SP_ASSIGN(ref.offset, integer());
      SP_TRY(need(','));
      SP_ASSIGN(ref.strides, intList());
      if (take(',')) {  // the file's element type, where it is known
        const auto dtype = token_.kind == Tok::kWord ? parseDType(token_.text) : std::nullopt;
        if (!dtype) return expected("an element type like f32");
        ref.dtype = *dtype;
        advance();
      }
      SP_TRY(need(')'));
      in.storage = std::move(ref);
    } else {
      break;
    }
  }
  graph_.inputs.push_back(std::move(in));
  return {};
}

Status Parser::output() {
  Output out;
  const int kind = token_.kind == Tok::kWord ? words::indexOf(words::kOutputKinds, token_.text) : -1;
  if (kind < 0) return expected("the kind of output: loss, gradient, user or buffer_update");
  out.kind = static_cast<OutputKind>(kind);
  advance();
  if (!takeWord("_")) {
    SP_ASSIGN(out.value, valueUse());
  }
  if (takeWord("of")) {
    SP_TRY(need('='));
    SP_ASSIGN(const std::int64_t index, integer("the input's index", 0, std::numeric_limits<int>::max()));
    out.input = static_cast<int>(index);
  }
  graph_.outputs.push_back(out);
  return {};
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

// --- nodes ------------------------------------------------------------------------------------------------------------

Result<LocationRef> Parser::location(std::size_t start) {
  SP_TRY(need('('));
  Location l;
  SP_ASSIGN(l.module_path, string());
  SP_TRY(need(','));
  SP_ASSIGN(l.module_type, string());
  SP_TRY(need(','));
  SP_ASSIGN(l.source, string());
  const std::string_view key = text_.substr(start, token_.offset - start);
  SP_TRY(need(')'));
  LocationRef& shared = locations_[key];
  if (!shared) shared = std::make_shared<const Location>(std::move(l));
  return shared;
}

Status Parser::nodeTail(Node* n) {
  bool named = false;
  while (token_.kind == Tok::kWord) {
    const std::size_t start = token_.offset;
    if (takeWord("backward")) {
      n->phase = Phase::kBackward;
    } else if (takeWord("recompute")) {
      n->phase = Phase::kRecompute;
    } else if (takeWord("of")) {
      SP_TRY(need('='));
      SP_ASSIGN(const std::int64_t id, integer("a node id", 0, max_ids_));
      n->forward = static_cast<NodeId>(id);
    } else if (takeWord("save")) {
      n->must_save = true;
    } else if (takeWord("name")) {
      SP_TRY(need('='));
      SP_ASSIGN(n->name, wordOrString("a name"));
      named = true;
    } else if (takeWord("loc")) {
      SP_ASSIGN(n->location, location(start));
    } else if (takeWord("by")) {
      SP_ASSIGN(const std::string pass, wordOrString("the name of a pass"));
      n->provenance.pass = symbol(pass);
      SP_TRY(need('('));
      SP_TRY(listUntil(')', [&]() -> Status {
        SP_ASSIGN(const std::int64_t id, integer("a node id", 0, max_ids_));
        n->provenance.from.push_back(static_cast<NodeId>(id));
        return {};
      }));
    } else {
      break;
    }
  }
  if (named) return {};
  for (ValueId v : n->outputs)
    if (v != kNone) {
      n->name = graph_.value(v).name;
      break;
    }
  return {};
}

Status Parser::node() {
  struct Out {
    Token at;
    std::string_view name;  // empty: undefined output
  };
  boost::container::small_vector<Out, 4> outs;
  const Token first = token_;
  if (take('(')) {
    SP_TRY(need(')'));
  } else {
    do {
      Out out{token_, {}};
      if (!takeWord("_")) {
        SP_ASSIGN(out.name, valueName());
      }
      outs.push_back(out);
    } while (take(','));
  }
  SP_TRY(need('='));
  Node n;
  SP_ASSIGN(const std::string op, wordOrString("an op like aten.mm.default"));
  n.op = symbol(op);
  SP_TRY(need('('));
  const auto argument = [&]() -> Status {
    SP_ASSIGN(const std::string name, wordOrString("the name of an argument"));
    SP_TRY(need('='));
    SP_ASSIGN(Attribute value, attribute());
    n.args.push_back({symbol(name), std::move(value)});
    return {};
  };
  SP_TRY(listUntil(')', argument));
  std::vector<Value> types;
  if (!outs.empty()) SP_TRY(need(':'));
  for (std::size_t i = 0; i < outs.size(); ++i) {
    if (i) SP_TRY(need(','));
    if (outs[i].name.empty() && outs[i].at.kind == Tok::kWord) {
      SP_TRY(needWord("_"));
      types.emplace_back();
    } else {
      SP_ASSIGN(Value value, type());
      types.push_back(std::move(value));
    }
  }
  std::int64_t id = next_id_;
  Token id_at = first;
  if (take('#')) {
    id_at = token_;
    SP_ASSIGN(id, integer("a node id", 0, max_ids_));
  }
  if (id > max_ids_) return wrong(id_at, "node id too large");
  const auto slot = static_cast<std::size_t>(id);
  if (slot < id_taken_.size() && id_taken_[slot]) return wrong(id_at, "node id " + std::to_string(id) + " is used twice");
  if (slot >= id_taken_.size()) id_taken_.resize(slot + 1);
  id_taken_[slot] = true;
  next_id_ = std::max(next_id_, id + 1);
  n.id = static_cast<NodeId>(id);
  for (std::size_t i = 0; i < outs.size(); ++i) {
    if (outs[i].at.kind == Tok::kWord) {
      n.outputs.push_back(kNone);
      continue;
    }
    types[i].producer = n.id;
    types[i].output_index = static_cast<int>(i);
    SP_ASSIGN(const ValueId value, valueDefinition(outs[i].name, outs[i].at, std::move(types[i])));
    n.outputs.push_back(value);
  }
  SP_TRY(nodeTail(&n));
  graph_.order.push_back(n.id);
  graph_.adoptNode(std::move(n));
  return {};
}

Result<GraphText> Parser::parse() {
  GraphText out;
  SP_TRY(header(&out.header));
  // A text can name an id that is far away; what that may allocate is bounded by the size of the text.
  max_ids_ = static_cast<std::int64_t>(std::min<std::size_t>(4096 + text_.size(), std::size_t{1} << 30));
  advance();
  SP_TRY(graphLine());
  while (!token_.is('}')) {
    if (token_.kind == Tok::kName || token_.is('(') || token_.isWord("_")) {
      SP_TRY(node());
    } else if (takeWord("input")) {
      SP_TRY(input());
    } else if (takeWord("output")) {
      SP_TRY(output());
    } else {
      return expected("a node, 'input', 'output' or '}'");
    }
  }
  advance();
  if (token_.kind != Tok::kEnd) return wrong(token_, "text after the graph");
  const Known* undefined = nullptr;
  std::string_view undefined_name;
  for (const auto& [name, known] : values_)
    if (!known.defined && (!undefined || known.first_use < undefined->first_use)) undefined = &known, undefined_name = name;
  if (undefined)
    return syntaxError(text_, file_, undefined->first_use, "%" + std::string(undefined_name) + " is not defined");
  out.graph = std::move(graph_);
  return out;
}

}  // namespace

Result<GraphText> parseGraphText(std::string_view text, std::string_view file) { return Parser(text, file).parse(); }

Result<Graph> parseGraph(std::string_view text, std::string_view file) {
  SP_ASSIGN(GraphText parsed, parseGraphText(text, file));
  return std::move(parsed.graph);
}

}  // namespace spscope::ir
