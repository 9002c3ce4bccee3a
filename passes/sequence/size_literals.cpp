// SPDX-License-Identifier: Apache-2.0
#include "passes/sequence/size_literals.h"

#include <algorithm>
#include <set>

#include "core/base/strings.h"
#include "passes/sequence/rules.h"

namespace spscope::passes {

using ir::Dims;
using ir::kNone;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

namespace {

bool isOneOf(std::string_view base, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), base) != names.end();
}

class Writer {
 public:
  Writer(ir::Graph& graph, const SizeRules& rules) : graph_(graph), rules_(rules) {}

  void write(NodeId id) {
    Node& n = graph_.node(id);
    changed_ = false;
    if (n.outputs.empty() || n.outputs[0] == kNone) return;
    const std::string_view base = ir::baseName(n.op);
    const Dims out = rules_.newShape(n.outputs[0]);
    if (isOneOf(base, {"view", "_unsafe_view", "reshape", "expand", "full", "zeros", "ones", "empty", "empty_permuted", "rand",
                       "randn", "new_ones", "new_zeros", "new_empty", "new_full"})) {
      for (const char* name : {"size", "shape"}) writeList(n, name, out);
    } else if (base == "unflatten") {
      const auto sizes = ir::intListArg(n, "sizes");
      const auto first = out.begin() + normDim(ir::intArg(n, "dim", 0), static_cast<int>(out.size() - sizes->size() + 1));
      writeList(n, "sizes", Dims(first, first + static_cast<std::ptrdiff_t>(sizes->size())));
    } else if (base == "arange") {
      writeRange(n, out[0] - graph_.value(n.outputs[0]).shape[0]);
    } else if (base == "linspace") {
      writeInt(n, "steps", out[0]);
    } else if (base == "slice") {
      writeSlice(n);
    } else if (base == "select") {
      if (const auto it = rules_.picks().find(id); it != rules_.picks().end() && it->second.index >= 0)
        writeInt(n, "index", rules_.newIndex(it->second));
    } else if (base == "repeat" || base == "tile") {
      writeRepeats(n, base == "tile" ? "dims" : "repeats", out);
    } else if (base == "repeat_interleave") {
      const ValueId x = ir::useArg(n, "self");
      const std::size_t d = static_cast<std::size_t>(normDim(ir::intArg(n, "dim", 0), static_cast<int>(out.size())));
      writeInt(n, "repeats", out[d] / rules_.newShape(x)[d]);
      writeInt(n, "output_size", out[d]);
    } else if (base == "split_with_sizes" || (base == "split" && n.outputs.size() > 1)) {
      writeParts(n);
    } else if (base == "embedding") {
      writePadding(n, "padding_idx", rules_.newShape(ir::useArg(n, "weight"))[0]);
    } else if (base == "cross_entropy_loss") {
      const Dims scores = rules_.newShape(ir::useArg(n, "self"));
      writePadding(n, "ignore_index", scores[scores.size() == 1 ? 0 : 1]);
    } else if (base == "split" && n.outputs.size() == 1) {
      const std::size_t d = static_cast<std::size_t>(normDim(ir::intArg(n, "dim", 0), static_cast<int>(out.size())));
      writeInt(n, "split_size", std::max(out[d], ir::intArg(n, "split_size", 0)));
    } else if (const auto normalized = ir::intListArg(n, "normalized_shape")) {
      writeList(n, "normalized_shape", Dims(out.end() - static_cast<std::ptrdiff_t>(normalized->size()), out.end()));
    }
    if (changed_) n.provenance.pass = "respecialize";
  }

 private:
  void writeParts(Node& n) {
    const ValueId x = ir::useArg(n, "self");
    const std::size_t d = static_cast<std::size_t>(normDim(ir::intArg(n, "dim", 0), static_cast<int>(graph_.value(x).shape.size())));
    Dims parts;
    for (ValueId v : n.outputs) {
      if (v == kNone) return;
      parts.push_back(rules_.newShape(v)[d]);
    }
    if (ir::baseName(n.op) == "split_with_sizes") writeList(n, "split_sizes", parts);
    else if (parts.front() != graph_.value(n.outputs.front()).shape[d]) writeInt(n, "split_size", parts.front());
  }
  /// An index of a table or class that is there no longer: the last one stands for it.
  void writePadding(Node& n, Symbol name, std::int64_t rows) {
    if (ir::intArg(n, name, -1) >= rows) writeInt(n, name, rows - 1);
  }
  /// Entries of -1 stay: they mean "what remains" in a view and "as it is" in an expand.
  void writeList(Node& n, Symbol name, const Dims& sizes) {
    const auto given = ir::intListArg(n, name);
    if (!given || given->size() != sizes.size()) return;
    Dims now = *given;
    for (std::size_t d = 0; d < now.size(); ++d)
      if (now[d] != -1) now[d] = sizes[d];
    if (now == *given) return;
    n.set(name, std::move(now));
    changed_ = true;
  }
  void writeInt(Node& n, Symbol name, std::int64_t value) {
    const ir::Attribute* a = n.find(name);
    if (!a || !std::holds_alternative<std::int64_t>(*a) || std::get<std::int64_t>(*a) == value) return;
    n.set(name, value);
    changed_ = true;
  }
  void writeRange(Node& n, std::int64_t more) {
    if (more == 0) return;
    const std::int64_t step = ir::intArg(n, "step", 1);
    // A range that counts down to a fixed end starts elsewhere.
    const Symbol name = step > 0 ? Symbol("end") : Symbol("start");
    const std::int64_t by = step > 0 ? more * step : -more * step;
    const ir::Attribute* a = n.find(name);
    if (a && std::holds_alternative<double>(*a)) n.set(name, std::get<double>(*a) + static_cast<double>(by));
    else n.set(name, ir::intArg(n, name, 0) + by);
    changed_ = true;
  }
  void writeSlice(Node& n) {
    const auto it = rules_.cuts().find(n.id);
    if (it != rules_.cuts().end()) {
      const auto [start, end] = rules_.newBounds(it->second);
      if (ir::intArg(n, "start", 0) > 0) writeInt(n, "start", start);
      const std::int64_t literal = ir::intArg(n, "end", INT64_MAX);
      if (literal >= 0 && literal <= it->second.n) writeInt(n, "end", end);
      return;
    }
    // The whole dim: an explicit end is the length.
    const ValueId x = ir::useArg(n, "self");
    if (x == kNone) return;
    const std::size_t d = static_cast<std::size_t>(
        normDim(ir::intArg(n, "dim", 0), static_cast<int>(graph_.value(x).shape.size())));
    if (ir::intArg(n, "end", INT64_MAX) == graph_.value(x).shape[d]) writeInt(n, "end", rules_.newShape(x)[d]);
  }
  void writeRepeats(Node& n, Symbol name, const Dims& out) {
    const auto given = ir::intListArg(n, name);
    ValueId x = kNone;
    ir::forEachUse(n, [&](const ir::Use& use) { x = use.value; });
    if (!given || x == kNone || given->size() != out.size()) return;
    const Dims in = rules_.newShape(x);
    Dims now(out.size());
    for (std::size_t d = 0; d < out.size(); ++d) {
      const std::ptrdiff_t dx = static_cast<std::ptrdiff_t>(d + in.size()) - static_cast<std::ptrdiff_t>(out.size());
      now[d] = dx < 0 ? out[d] : out[d] / in[static_cast<std::size_t>(dx)];
    }
    if (now == *given) return;
    n.set(name, std::move(now));
    changed_ = true;
  }

  ir::Graph& graph_;
  const SizeRules& rules_;
  bool changed_ = false;
};

}  // namespace

void writeSizes(ir::Graph& graph, const SizeRules& rules) {
  Writer writer(graph, rules);
  for (NodeId id : graph.order) writer.write(id);  // reads the old shapes
  const auto reshape = [&](ValueId v) {
    if (v == kNone) return;
    graph.value(v).shape = rules.newShape(v);
    graph.value(v).local = graph.value(v).shape;
  };
  for (const ir::Input& input : graph.inputs) reshape(input.value);
  for (NodeId id : graph.order)
    for (ValueId v : graph.node(id).outputs) reshape(v);
}

void warnKeptLiterals(const ir::Graph& graph, const SizeSystem& system, std::int64_t length, DiagnosticSink& diagnostics) {
  if (length < 2) return;
  std::set<NodeId> told;
  const auto warn = [&](NodeId id, const std::string& what) {
    if (id == kNone || !told.insert(id).second) return;
    const Node& n = graph.node(id);
    diagnostics.warn("seq-literal-kept",
                     strf("%s in %s equals the file's sequence length and was kept: nothing says that it is the sequence", what.c_str(),
                          n.op.str().c_str()),
                     n.name, n.location ? n.location->source : std::string());
  };
  for (const auto& [atom, id] : system.openLiterals())
    if (system.oldSize(atom) == length) warn(id, strf("the size %lld", static_cast<long long>(length)));
  static const std::set<std::string> kValues = {"other", "value", "fill_value", "scalar", "min", "max", "diagonal", "shifts", "s"};
  for (NodeId id : graph.order)
    for (const ir::Argument& a : graph.node(id).args) {
      const bool range_end = a.name == Symbol("end") && ir::baseName(graph.node(id).op) == "linspace";
      if (!kValues.count(a.name.str()) && !range_end) continue;
      const auto* i = std::get_if<std::int64_t>(&a.value);
      const auto* d = std::get_if<double>(&a.value);
      const auto is = [&](std::int64_t m) { return (i && *i == m) || (d && *d == static_cast<double>(m)); };
      if (is(length) || (range_end && is(length - 1)))
        warn(id, strf("the value of %s", a.name.str().c_str()));
    }
}

}  // namespace spscope::passes
