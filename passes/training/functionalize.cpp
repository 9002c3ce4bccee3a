// SPDX-License-Identifier: Apache-2.0
#include "passes/training/functionalize.h"

#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "core/ir/op_traits.h"
#include "passes/training/aliasing.h"

namespace spscope::passes {
namespace {

using ir::Argument;
using ir::DType;
using ir::kNone;
using ir::Node;
using ir::NodeId;
using ir::Use;
using ir::Value;
using ir::ValueId;

const char* const kName = "functionalize";

/// In-place ops whose name without the last underscore computes the same values. Random ones are not among them (their
/// functional twins draw differently), nor those that change the operand's shape or memory.
const std::unordered_set<std::string_view> kTwins = {
    "abs_", "add_", "addcdiv_", "addcmul_", "addmm_", "baddbmm_", "bitwise_and_", "bitwise_not_", "bitwise_or_",
    "bitwise_xor_", "ceil_", "clamp_", "clamp_max_", "clamp_min_", "cos_", "cumsum_", "div_", "elu_", "eq_", "erf_",
    "exp_", "expm1_", "floor_", "floor_divide_", "fmod_", "ge_", "gelu_", "gt_", "hardtanh_", "index_add_",
    "index_copy_", "index_fill_", "index_put_", "le_", "leaky_relu_", "lerp_", "log_", "log1p_", "log2_", "logical_and_",
    "logical_not_", "logical_or_", "logical_xor_", "lt_", "masked_fill_", "masked_scatter_", "mul_", "ne_", "neg_",
    "pow_", "reciprocal_", "relu_", "remainder_", "round_", "rsqrt_", "scatter_", "scatter_add_", "scatter_reduce_",
    "sigmoid_", "sign_", "silu_", "sin_", "sqrt_", "square_", "sub_", "tanh_", "tril_", "triu_", "trunc_"};
const std::unordered_set<std::string_view> kGivesBool = {"eq_", "ne_", "lt_", "le_", "gt_", "ge_", "logical_and_",
                                                         "logical_or_", "logical_not_", "logical_xor_"};

/// What torch promotes two element types of one category to; the first where it would refuse to write the result back.
DType promoted(DType self, DType other) {
  if (self == other || !ir::isFloating(other) != !ir::isFloating(self)) return self;
  if (ir::sizeOf(self) == ir::sizeOf(other) && ir::isFloating(self)) return DType::kF32;  // f16 with bf16
  return ir::sizeOf(other) > ir::sizeOf(self) ? other : self;
}

class Functionalizer {
 public:
  explicit Functionalizer(ir::Graph& graph) : g_(graph), aliasing_(graph), program_(graph.order) {}

  Result<bool> run();

 private:
  /// What is known of a value's memory. A root owns its memory; a view names the node that makes it.
  struct Memory {
    ValueId parent = kNone;      ///< of a view: the value it is taken of
    ValueId root = kNone;
    NodeId view = kNone;
    int view_index = 0;
    ValueId current = kNone;     ///< the value that holds its content now
    std::int32_t seen = 0;       ///< root's version for which `current` holds
    std::int32_t version = 0;    ///< roots: number of writes so far
    std::int32_t group = kNone;  ///< roots: those that may share memory, see Sharing::kMaybe
  };

  Memory& memory(ValueId v) {
    if (static_cast<std::size_t>(v) >= memory_.size()) memory_.resize(g_.valueCount());
    Memory& m = memory_[static_cast<std::size_t>(v)];
    if (m.root == kNone) {
      m.root = v;
      m.current = v;
    }
    return m;
  }
  ValueId same(ValueId v) const {
    for (auto it = same_.find(v); it != same_.end(); it = same_.find(v)) v = it->second;
    return v;
  }
  ValueId emit(Symbol op, std::vector<Argument> args, DType dtype, ir::Dims shape);
  EmitFn emitFn() {
    return [this](Symbol op, std::vector<Argument> args, DType dtype, ir::Dims shape) {
      return emit(op, std::move(args), dtype, std::move(shape));
    };
  }
  Error refuse(std::string_view code, const Node& n, const std::string& message) const;

  void analyse();
  ValueId read(ValueId v);
  Status write(ValueId v, ValueId content, Symbol op, std::int32_t position);
  Status rewrite(NodeId id, std::int32_t position);
  Result<ValueId> newContent(NodeId id, ValueId self);
  void view(NodeId id, Sharing sharing);
  Status outputs();

  ir::Graph& g_;
  Aliasing aliasing_;
  std::vector<NodeId> program_, order_;
  std::vector<Memory> memory_;
  std::unordered_map<ValueId, ValueId> same_;  ///< results of in-place ops and aliases: the value they are
  std::vector<std::int32_t> last_use_;         ///< by root: last position that reads it or a view of it
  std::vector<std::int32_t> made_at_;          ///< by value: position of its producer, -1 for inputs
  std::vector<std::int32_t> groups_;           ///< union-find over roots that may share memory
  std::unordered_set<ValueId> written_inputs_;
  NodeId at_ = kNone;                          ///< node being rewritten: origin of what is emitted
  bool mutates_ = false, changed_ = false;
};

Error Functionalizer::refuse(std::string_view code, const Node& n, const std::string& message) const {
  Error error = makeError(code, message);
  error.node = "%" + n.name;
  if (n.location) error.source = n.location->source;
  return error;
}

ValueId Functionalizer::emit(Symbol op, std::vector<Argument> args, DType dtype, ir::Dims shape) {
  const NodeId id = g_.addNode(op, {});
  const ValueId out = g_.addOutput(id, dtype, std::move(shape));
  Node& n = g_.node(id);
  n.args.assign(std::make_move_iterator(args.begin()), std::make_move_iterator(args.end()));
  n.provenance.pass = kName;
  if (at_ != kNone) {
    n.location = g_.node(at_).location;
    n.provenance.from.push_back(at_);
  }
  bool grad = false;
  ir::forEachUse(n, [&](const Use& use) { grad = grad || g_.value(use.value).requires_grad; });
  g_.value(out).requires_grad = grad && (ir::isFloating(dtype) || ir::isComplex(dtype));
  order_.push_back(id);
  changed_ = true;
  return out;
}

/// Where each root is last read, before anything is rewritten: only where something mutates.
void Functionalizer::analyse() {
  for (NodeId id : program_) mutates_ = mutates_ || ir::isMutating(g_.node(id).op);
  if (!mutates_) return;
  last_use_.assign(g_.valueCount(), -1);
  made_at_.assign(g_.valueCount(), -1);
  groups_.resize(g_.valueCount());
  for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i] = static_cast<std::int32_t>(i);
  Aliasing aliasing(g_);
  std::vector<ValueId> root(g_.valueCount());
  for (std::size_t i = 0; i < root.size(); ++i) root[i] = static_cast<ValueId>(i);
  const auto rootOf = [&](ValueId v) -> ValueId& { return root[static_cast<std::size_t>(v)]; };
  for (std::size_t p = 0; p < program_.size(); ++p) {
    const Node& n = g_.node(program_[p]);
    ir::forEachUse(n, [&](const Use& use) { last_use_[static_cast<std::size_t>(rootOf(use.value))] = static_cast<std::int32_t>(p); });
    const Sharing sharing = aliasing.visit(n);
    const ValueId in = firstOperand(n);
    for (ValueId out : n.outputs) {
      if (out == kNone) continue;
      made_at_[static_cast<std::size_t>(out)] = static_cast<std::int32_t>(p);
      if (in == kNone) continue;
      if (sharing == Sharing::kView || ir::isMutating(n.op)) rootOf(out) = rootOf(in);
      if (sharing == Sharing::kMaybe) {
        const auto find = [&](std::int32_t x) {
          while (groups_[static_cast<std::size_t>(x)] != x) x = groups_[static_cast<std::size_t>(x)];
          return x;
        };
        groups_[static_cast<std::size_t>(find(rootOf(out)))] = find(rootOf(in));
      }
    }
  }
  for (const ir::Output& o : g_.outputs)
    if (o.value != kNone) last_use_[static_cast<std::size_t>(rootOf(o.value))] = std::numeric_limits<std::int32_t>::max();
}

/// The value that holds what `v` holds at this place of the program; views of written memory are taken again.
ValueId Functionalizer::read(ValueId v) {
  v = same(v);
  memory(v);
  const std::int32_t version = memory(memory(v).root).version;
  std::vector<ValueId> stale;
  for (ValueId x = v; memory(x).seen != version && memory(x).parent != kNone; x = memory(x).parent) stale.push_back(x);
  for (auto it = stale.rbegin(); it != stale.rend(); ++it) {
    const Memory m = memory(*it);
    const ValueId content = rederiveView(g_, m.view, m.view_index, memory(m.parent).current, emitFn());
    memory(*it).current = content;
    memory(*it).seen = version;
  }
  return memory(v).current;
}

/// `v` holds `content` from here on, and so does the memory that it is a view of.
Status Functionalizer::write(ValueId v, ValueId content, Symbol op, std::int32_t position) {
  const ValueId root = memory(v).root;
  const Node& writer = g_.node(at_);
  const auto find = [&](std::int32_t x) {
    while (groups_[static_cast<std::size_t>(x)] != x) x = groups_[static_cast<std::size_t>(x)];
    return x;
  };
  if (static_cast<std::size_t>(root) < groups_.size()) {
    const std::int32_t group = find(root);
    for (std::size_t other = 0; other < groups_.size(); ++other)
      if (made_at_[other] < position && last_use_[other] > position && static_cast<ValueId>(other) != root && find(static_cast<std::int32_t>(other)) == group)
        return refuse("mutation-unknown", writer,
                      op.str() + " writes into %" + g_.value(root).name + ", which may share memory with %" +
                          g_.value(static_cast<ValueId>(other)).name + " that is read later (the strides decide)");
  }
  for (const ir::Input& in : g_.inputs) {
    if (in.value != root) continue;
    if (in.kind != ir::InputKind::kBuffer)
      return refuse("mutates-input", writer, op.str() + " writes into the input " + in.name);
    written_inputs_.insert(root);
  }
  std::vector<ValueId> chain = {v};
  memory(v).current = content;
  for (ValueId x = v; memory(x).parent != kNone; x = memory(x).parent) {
    const Memory m = memory(x);
    const ValueId before = read(m.parent);
    SP_ASSIGN(const ValueId after, writeBack(g_, m.view, m.view_index, before, memory(x).current, emitFn()));
    memory(m.parent).current = after;
    chain.push_back(m.parent);
  }
  const std::int32_t version = ++memory(root).version;
  for (ValueId x : chain) memory(x).seen = version;
  return {};
}

/// What the operand of an in-place op holds afterwards.
Result<ValueId> Functionalizer::newContent(NodeId id, ValueId self) {
  const std::string base(ir::baseName(g_.node(id).op));
  const std::string op = g_.node(id).op.str();
  const Value before = g_.value(self);
  const auto cast = [&](ValueId v) {
    if (g_.value(v).dtype == before.dtype) return v;
    return emit("aten.to.dtype", {{"self", Use{v}}, {"dtype", before.dtype}}, before.dtype, g_.value(v).shape);
  };
  const auto spread = [&](ValueId v) {
    if (g_.value(v).shape == before.shape) return v;
    return emit("aten.expand.default", {{"self", Use{v}}, {"size", before.shape}}, before.dtype, before.shape);
  };
  const Node& n = g_.node(id);
  if (base == "copy_") {
    const ValueId src = ir::useArg(n, "src");
    if (src == kNone) return refuse("mutation-unknown", n, op + " without a source");
    return spread(cast(src));
  }
  if (base == "zero_") return emit("aten.zeros_like.default", {{"self", Use{self}}}, before.dtype, before.shape);
  if (base == "fill_") {
    if (const ValueId value = ir::useArg(n, "value"); value != kNone) return spread(cast(value));
    const ir::Attribute* value = n.find("value");
    if (!value) return refuse("mutation-unknown", n, op + " without a value");
    return emit("aten.full_like.default", {{"self", Use{self}}, {"fill_value", *value}}, before.dtype, before.shape);
  }
  std::string twin;
  if (base.compare(0, 3, "__i") == 0) {
    twin = "__" + base.substr(3);  // __iand__ -> __and__
  } else if (kTwins.count(base)) {
    twin = base.substr(0, base.size() - 1);
  } else {
    return refuse("mutation-unknown", n, op + " writes into its operand and has no functional twin here");
  }
  // The twin promotes where the in-place op casts back: of operands that are not single numbers.
  DType result = before.dtype;
  if (kGivesBool.count(base)) {
    result = DType::kBool;
  } else if (!before.shape.empty() && base != "index_put_" && base != "masked_fill_" && base != "index_fill_") {
    for (const Argument& a : n.args)
      if (const auto* use = std::get_if<Use>(&a.value); use && use->value != kNone)
        if (const Value& other = g_.value(use->value); !other.shape.empty() && other.dtype != DType::kBool)
          if (ir::isFloating(other.dtype) || base == "add_" || base == "sub_" || base == "mul_") result = promoted(result, other.dtype);
  }
  // The node stays what it was, as its functional twin: its id, name and place are those of the write.
  Node& kept = g_.node(id);
  kept.op = Symbol("aten." + twin + op.substr(op.find('.', 5)));
  kept.provenance.pass = kName;
  kept.provenance.from.assign(1, id);
  const ValueId out = kept.outputs.empty() ? kNone : kept.outputs[0];
  if (out == kNone) return refuse("mutation-unknown", kept, op + " has no result");
  // The result's old meaning ("is the operand") is in same_; its value now holds the new content.
  g_.value(out).dtype = result;
  g_.value(out).shape = g_.value(out).local = before.shape;
  order_.push_back(id);
  changed_ = true;
  return cast(out);
}

void Functionalizer::view(NodeId id, Sharing sharing) {
  const Node& n = g_.node(id);
  const ValueId in = same(firstOperand(n));
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    const ValueId out = n.outputs[i];
    if (out == kNone) continue;
    if (sharing != Sharing::kView) continue;
    const Memory parent = memory(in);
    Memory& m = memory(out);
    m.parent = in;
    m.root = parent.root;
    m.view = id;
    m.view_index = static_cast<int>(i);
    m.current = out;
    m.seen = memory(parent.root).version;
  }
}

Status Functionalizer::rewrite(NodeId id, std::int32_t position) {
  at_ = id;
  const Symbol op = g_.node(id).op;
  const std::string_view base = ir::baseName(op);
  const Sharing sharing = mutates_ ? aliasing_.visit(g_.node(id)) : Sharing::kNone;
  if (base == "alias" || base == "lift_fresh") {  // a second name of the value
    same_[g_.node(id).outputs[0]] = same(firstOperand(g_.node(id)));
    changed_ = true;
    return {};
  }
  const bool mutating = ir::isMutating(op);
  const ValueId target = same(firstOperand(g_.node(id)));
  const bool stale_view = sharing != Sharing::kNone && target != kNone && memory(memory(target).root).version > 0;
  if (sharing == Sharing::kView) view(id, sharing);
  // Operands are read where they are now. Reading emits nodes: no reference into the graph across it.
  for (std::size_t a = 0; a < g_.node(id).args.size(); ++a) {
    if (const auto* use = std::get_if<Use>(&g_.node(id).args[a].value)) {
      if (use->value == kNone) continue;
      const ValueId now = read(use->value);
      std::get<Use>(g_.node(id).args[a].value).value = now;
    } else if (const auto* list = std::get_if<ir::UseList>(&g_.node(id).args[a].value)) {
      for (std::size_t i = 0; i < list->size(); ++i) {
        const ValueId entry = std::get<ir::UseList>(g_.node(id).args[a].value)[i].value;
        if (entry == kNone) continue;
        const ValueId now = read(entry);
        list = std::get_if<ir::UseList>(&g_.node(id).args[a].value);
        std::get<ir::UseList>(g_.node(id).args[a].value)[i].value = now;
      }
    }
  }
  if (!mutating) {
    if (base == "batch_norm" && ir::boolArg(g_.node(id), "training", false) && ir::useArg(g_.node(id), "running_mean") != kNone)
      return refuse("mutation-unknown", g_.node(id), "batch_norm in training mode updates its running statistics");
    // A view of rewritten memory: the content may have other strides than the memory had.
    if (stale_view && g_.node(id).op == Symbol("aten.view.default") && g_.node(id).find("size")) {
      Node& n = g_.node(id);
      ir::Attribute size = *n.find("size");
      n.op = "aten.reshape.default";
      n.erase("size");
      n.set("shape", std::move(size));
      n.provenance = {kName, {id}};
    }
    order_.push_back(id);
    return {};
  }
  if (target == kNone) return refuse("mutation-unknown", g_.node(id), op.str() + " has no operand to write into");
  memory(target);
  changed_ = true;
  SP_ASSIGN(const ValueId content, newContent(id, memory(target).current));
  SP_TRY(write(target, content, op, position));
  for (ValueId out : g_.node(id).outputs)
    if (out != kNone) same_[out] = target;
  return {};
}

Status Functionalizer::outputs() {
  at_ = kNone;
  for (std::size_t i = 0; i < g_.outputs.size(); ++i)
    if (g_.outputs[i].value != kNone) {
      const ValueId now = read(g_.outputs[i].value);
      changed_ = changed_ || now != g_.outputs[i].value;
      g_.outputs[i].value = now;
    }
  for (std::size_t i = 0; i < g_.inputs.size(); ++i)
    if (written_inputs_.count(g_.inputs[i].value))
      g_.outputs.push_back({read(g_.inputs[i].value), ir::OutputKind::kBufferUpdate, static_cast<int>(i)});
  return {};
}

Result<bool> Functionalizer::run() {
  analyse();
  order_.reserve(program_.size());
  for (std::size_t p = 0; p < program_.size(); ++p) SP_TRY(rewrite(program_[p], static_cast<std::int32_t>(p)));
  SP_TRY(outputs());
  if (!changed_) return false;
  g_.order = std::move(order_);
  g_.removeDeadNodes();
  return true;
}

bool needsWork(const ir::Graph& graph) {
  for (NodeId id : graph.order) {
    const std::string_view base = ir::baseName(graph.node(id).op);
    if (ir::isMutating(graph.node(id).op) || base == "alias" || base == "lift_fresh" || base == "batch_norm") return true;
  }
  return false;
}

}  // namespace

Pass functionalizePass() {
  Pass pass;
  pass.info = {kName,
               "Replaces ops that write into their operand by functional ones.",
               {{"in-place", "ops that wrote into their operand"}},
               ir::Form::kGlobal,
               ir::Form::kGlobal};
  pass.checkLegal = [](const ir::Graph& graph, const PassContext&) -> Status {
    for (const ir::Output& o : graph.outputs) {  // of a program that was exported in functional form
      if (o.kind != ir::OutputKind::kBufferUpdate || o.input == kNone) continue;
      const ir::Input& in = graph.inputs[static_cast<std::size_t>(o.input)];
      if (in.kind != ir::InputKind::kBuffer) return makeError("mutates-input", "the program writes into the input " + in.name);
    }
    if (!needsWork(graph)) return {};
    ir::Graph trial = graph;  // what can be followed is only known by following it
    SP_TRY(Functionalizer(trial).run());
    return {};
  };
  pass.run = [](ir::Graph& graph, const PassContext& context) -> Result<bool> {
    for (NodeId id : graph.order)
      if (ir::isMutating(graph.node(id).op)) context.count("in-place");
    if (!needsWork(graph)) return false;
    return Functionalizer(graph).run();
  };
  return pass;
}

}  // namespace spscope::passes
