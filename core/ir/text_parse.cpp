// SPDX-License-Identifier: Apache-2.0
// Header, graph line, inputs, outputs and nodes of the text form.
#include <algorithm>
#include <limits>

#include "core/ir/text_parser.h"
#include "core/ir/text_words.h"

namespace spscope::ir {
namespace {

constexpr std::int64_t kMaxRanks = 1 << 20;  // of the mesh

}  // namespace

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

// --- nodes ------------------------------------------------------------------------------------------------------------

Result<LocationRef> Parser::location(std::size_t start) {
  SP_TRY(need('('));
  Location l;
  SP_ASSIGN(l.module_path, string());
  SP_TRY(need(','));
  SP_ASSIGN(l.module_type, string());
  SP_TRY(need(','));
  SP_ASSIGN(l.source, string());
  if (take(',')) {
    if (!takeWord("checkpoint")) return expected("checkpoint=");
    SP_TRY(need('='));
    SP_ASSIGN(const std::int64_t region, integer("the number of the checkpoint", 1, std::numeric_limits<std::int32_t>::max()));
    l.checkpoint = static_cast<std::int32_t>(region);
  }
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

Result<GraphText> parseGraphText(std::string_view text, std::string_view file) { return Parser(text, file).parse(); }

Result<Graph> parseGraph(std::string_view text, std::string_view file) {
  SP_ASSIGN(GraphText parsed, parseGraphText(text, file));
  return std::move(parsed.graph);
}

}  // namespace spscope::ir
