// SPDX-License-Identifier: Apache-2.0
// Printer of the text form. Appends to one string; no formatting library, since a stage is printed on every save.
#include <charconv>
#include <cmath>

#include "core/base/strings.h"
#include "core/ir/text.h"
#include "core/ir/text_words.h"

namespace spscope::ir {
namespace {

class Printer {
 public:
  Printer(const Graph& graph, std::string& out) : graph_(graph), out_(out) {}

  void graph();
  void nodeLine(const Node& node);
  void type(const Value& value);
  void attribute(const Attribute& attribute);
  void use(ValueId id) {
    if (id == kNone) {
      out_ += "none";
    } else {
      name(graph_.value(id).name);
    }
  }

 private:
  void number(std::int64_t n) {
    char buffer[24];
    out_.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, n).ptr);
  }
  void real(double v) {
    const std::size_t start = out_.size();
    out_ += formatDouble(v);
    if (std::isfinite(v) && out_.find_first_of(".e", start) == std::string::npos) out_ += ".0";
  }
  void quoted(std::string_view text);
  void word(std::string_view text) {
    if (words::isWord(text)) {
      out_ += text;
    } else {
      quoted(text);
    }
  }
  void name(std::string_view text) {
    out_ += '%';
    if (words::isName(text)) {
      out_ += text;
    } else {
      quoted(text);
    }
  }
  template <typename List, typename F>
  void list(char open, const List& items, char close, F&& each) {
    out_ += open;
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += ", ";
      first = false;
      each(item);
    }
    out_ += close;
  }
  void ints(const Dims& dims) {
    list('[', dims, ']', [&](std::int64_t d) { number(d); });
  }
  void factors(const FactorList& list);
  void input(const Input& input);
  void output(const Output& output);

  const Graph& graph_;
  std::string& out_;
};

void Printer::quoted(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out_ += '"';
  for (char c : text) {
    switch (c) {
      case '"': out_ += "\\\""; break;
      case '\\': out_ += "\\\\"; break;
      case '\n': out_ += "\\n"; break;
      case '\t': out_ += "\\t"; break;
      case '\r': out_ += "\\r"; break;
      default:
        if (const auto u = static_cast<unsigned char>(c); u < 0x20 || u == 0x7f) {
          out_ += "\\x";
          out_ += kHex[u >> 4];
          out_ += kHex[u & 15];
        } else {
          out_ += c;
        }
    }
  }
  out_ += '"';
}

void Printer::factors(const FactorList& list) {
  if (list.empty()) {
    out_ += '1';
    return;
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i) out_ += '*';
    number(list[i].size);
    // "1" alone is a dimension without factor; a factor of size 1, which the verifier refuses, is spelt out.
    if (list[i].tag != Tag::kNone || (list.size() == 1 && list[i].size == 1))
      out_ += words::kTags[static_cast<std::size_t>(list[i].tag)];
  }
}

void Printer::type(const Value& v) {
  out_ += shortName(v.dtype);
  if (v.factors.empty()) {
    ints(v.shape);
  } else {
    list('{', v.factors, '}', [&](const FactorList& f) { factors(f); });
    if (shapeOf(v.factors) != v.shape) {
      out_ += " global";
      ints(v.shape);
    }
  }
  if (v.placement.isPartial()) out_ += " P";
  if (v.placement.isSharded()) {
    out_ += " S";
    number(v.placement.dim);
    if (v.placement.factor != 0) {
      out_ += '.';
      number(v.placement.factor);
    }
    ints(v.placement.sizes);
  }
  if (v.local != v.shape) {
    out_ += " local";
    ints(v.local);
  }
  if (v.requires_grad) out_ += " grad";
  if (v.storage != kNone) {
    out_ += " alias=";
    use(v.storage);
  }
  if (v.storage_bytes != 0) {
    out_ += " bytes=";
    number(v.storage_bytes);
  }
  if (v.keep != Keep::kUnknown) {
    out_ += " keep=";
    out_ += words::kKeeps[static_cast<std::size_t>(v.keep)];
  }
}

void Printer::attribute(const Attribute& attribute) {
  struct Visitor {
    Printer& p;
    void operator()(std::monostate) const { p.out_ += "none"; }
    void operator()(const Use& u) const {
      if (u.value == kNone) {  // differs from Python's None in the type only
        p.out_ += "tensor(none)";
      } else {
        p.use(u.value);
      }
    }
    void operator()(const UseList& l) const {
      if (l.empty()) p.out_ += "tensors";
      p.list('[', l, ']', [&](const Use& u) { p.use(u.value); });
    }
    void operator()(std::int64_t v) const { p.number(v); }
    void operator()(double v) const { p.real(v); }
    void operator()(bool v) const { p.out_ += v ? "true" : "false"; }
    void operator()(const std::string& v) const { p.quoted(v); }
    void operator()(const Dims& v) const { p.ints(v); }
    void operator()(const std::vector<double>& v) const {
      if (v.empty()) p.out_ += "floats";
      p.list('[', v, ']', [&](double d) { p.real(d); });
    }
    void operator()(const std::vector<bool>& v) const {
      if (v.empty()) p.out_ += "bools";
      p.list('[', v, ']', [&](bool b) { p.out_ += b ? "true" : "false"; });
    }
    void operator()(const std::vector<std::string>& v) const {
      if (v.empty()) p.out_ += "strings";
      p.list('[', v, ']', [&](const std::string& s) { p.quoted(s); });
    }
    void operator()(DType v) const { p.out_ += shortName(v); }
    void operator()(MemoryFormat v) const { p.out_ += words::kMemoryFormats[static_cast<std::size_t>(v)]; }
    void operator()(Layout) const { p.out_ += "strided"; }
    void operator()(const Device& v) const {
      p.out_ += "device(";
      p.quoted(v.type);
      p.out_ += ')';
    }
  };
  std::visit(Visitor{*this}, attribute);
}

void Printer::nodeLine(const Node& n) {
  if (n.outputs.empty()) out_ += "()";
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    if (i) out_ += ", ";
    if (n.outputs[i] == kNone) {
      out_ += '_';
    } else {
      use(n.outputs[i]);
    }
  }
  out_ += " = ";
  word(n.op.str());
  list('(', n.args, ')', [&](const Argument& a) {
    word(a.name.str());
    out_ += '=';
    attribute(a.value);
  });
  if (!n.outputs.empty()) out_ += " : ";
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    if (i) out_ += ", ";
    if (n.outputs[i] == kNone) {
      out_ += '_';
    } else {
      type(graph_.value(n.outputs[i]));
    }
  }
  out_ += " #";
  number(n.id);
  if (n.phase != Phase::kForward) {
    out_ += ' ';
    out_ += words::kPhases[static_cast<std::size_t>(n.phase)];
  }
  if (n.forward != kNone) {
    out_ += " of=";
    number(n.forward);
  }
  if (n.must_save) out_ += " save";
  std::string_view implied;
  for (ValueId v : n.outputs)
    if (v != kNone) {
      implied = graph_.value(v).name;
      break;
    }
  if (n.name != implied) {
    out_ += " name=";
    word(n.name);
  }
  if (n.location) {
    out_ += " loc(";
    quoted(n.location->module_path);
    out_ += ", ";
    quoted(n.location->module_type);
    out_ += ", ";
    quoted(n.location->source);
    if (n.location->checkpoint != 0) {
      out_ += ", checkpoint=";
      number(n.location->checkpoint);
    }
    out_ += ')';
  }
  if (!n.provenance.pass.empty() || !n.provenance.from.empty()) {
    out_ += " by ";
    word(n.provenance.pass.str());
    list('(', n.provenance.from, ')', [&](NodeId id) { number(id); });
  }
}

void Printer::input(const Input& in) {
  out_ += "  input ";
  if (in.value == kNone) {
    out_ += '_';
  } else {
    use(in.value);
    out_ += " : ";
    type(graph_.value(in.value));
  }
  out_ += ' ';
  out_ += words::kInputKinds[static_cast<std::size_t>(in.kind)];
  out_ += ' ';
  quoted(in.name);
  if (in.trainable) out_ += " trainable";
  if (!in.aliases.empty()) {
    out_ += " aliases";
    list('(', in.aliases, ')', [&](const std::string& a) { quoted(a); });
  }
  if (in.storage) {
    out_ += " storage(";
    quoted(in.storage->record);
    out_ += ", ";
    number(in.storage->offset);
    out_ += ", ";
    ints(in.storage->strides);
    if (in.storage->dtype != DType::kUnknown) {
      out_ += ", ";
      out_ += shortName(in.storage->dtype);
    }
    out_ += ')';
  }
  out_ += '\n';
}

void Printer::output(const Output& o) {
  out_ += "  output ";
  out_ += words::kOutputKinds[static_cast<std::size_t>(o.kind)];
  out_ += ' ';
  if (o.value == kNone) {
    out_ += '_';
  } else {
    use(o.value);
  }
  if (o.input != kNone) {
    out_ += " of=";
    number(o.input);
  }
  out_ += '\n';
}

void Printer::graph() {
  out_ += "graph ";
  quoted(graph_.name);
  out_ += ' ';
  out_ += words::kForms[static_cast<std::size_t>(graph_.form)];
  out_ += " mesh";
  list('(', graph_.mesh.axes, ')', [&](const Mesh::Axis& axis) {
    word(axis.name);
    out_ += '=';
    number(axis.size);
  });
  out_ += " rank=";
  number(graph_.rank);
  out_ += " ids=";
  number(static_cast<std::int64_t>(graph_.nodeCount()));
  out_ += " {\n";
  for (const Input& in : graph_.inputs) input(in);
  for (NodeId id : graph_.order) {
    out_ += "  ";
    nodeLine(graph_.node(id));
    out_ += '\n';
  }
  for (const Output& o : graph_.outputs) output(o);
  out_ += "}\n";
}

/// Header values are one line each: a line break or backslash in them is escaped.
void appendHeaderValue(std::string& out, std::string_view value) {
  for (char c : value) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      out += c;
    }
  }
}

}  // namespace

const std::string* TextHeader::find(std::string_view key) const {
  for (const auto& [k, v] : entries)
    if (k == key) return &v;
  return nullptr;
}

void TextHeader::set(std::string_view key, std::string value) {
  for (auto& [k, v] : entries)
    if (k == key) {
      v = std::move(value);
      return;
    }
  entries.emplace_back(key, std::move(value));
}

std::string printGraph(const Graph& graph) { return printGraph(graph, {}); }

std::string printGraph(const Graph& graph, const TextHeader& header) {
  std::string out;
  out.reserve(256 + graph.inputs.size() * 160 + graph.order.size() * 240);
  out += words::kVersionPrefix;
  out += words::kVersion;
  out += '\n';
  for (const auto& [key, value] : header.entries) {
    out += "// " + key + ": ";
    appendHeaderValue(out, value);
    out += '\n';
  }
  Printer(graph, out).graph();
  return out;
}

std::string attributeText(const Graph& graph, const Attribute& attribute) {
  std::string out;
  Printer(graph, out).attribute(attribute);
  return out;
}

std::string typeText(const Graph& graph, const Value& value) {
  std::string out;
  Printer(graph, out).type(value);
  return out;
}

std::string nodeText(const Graph& graph, const Node& node) {
  std::string out;
  Printer(graph, out).nodeLine(node);
  return out;
}

std::string valueRef(const Graph& graph, ValueId value) {
  std::string out;
  Printer(graph, out).use(value);
  return out;
}

bool isGraphText(std::string_view text) { return text.substr(0, words::kVersionPrefix.size()) == words::kVersionPrefix; }

}  // namespace spscope::ir
