// SPDX-License-Identifier: Apache-2.0
#include "core/io/graph_builder.h"

#include <algorithm>
#include <cctype>

#include "core/base/strings.h"

namespace spscope::io {

using ir::Attribute;
using ir::DType;
using ir::kNone;
using ir::Use;
using ir::UseList;
using ir::ValueId;

namespace {

struct RawArgument {
  std::string_view name, kind;  ///< kind: the key of the union, "as_tensor" ...
  Json value;                   ///< what stands under that key
  Json whole;                   ///< the union itself
};

bool startsWith(std::string_view text, std::string_view head) { return text.substr(0, head.size()) == head; }

/// Checks that the exporter left behind; they change no value.
bool isCheck(std::string_view target) {
  constexpr std::string_view kAten = "torch.ops.aten.";
  if (!startsWith(target, kAten)) return false;
  const std::string_view op = target.substr(kAten.size());
  return startsWith(op, "_assert_tensor_metadata") || startsWith(op, "_assert_scalar") ||
         startsWith(op, "_assert_async") || startsWith(op, "sym_constrain_range");
}

constexpr std::string_view kHigherOrder = "torch.ops.higher_order.";

}  // namespace

struct GraphBuilder::RawNode {
  std::string_view target, name, module_stack, stack_trace, custom;
  std::vector<RawArgument> inputs;
  std::vector<std::pair<std::string_view, Json>> outputs;  ///< kind and value of each
};

std::string identifier(std::string_view text) {
  std::string out(text.substr(0, 200));
  for (char& c : out)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') c = '_';
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) || out[0] == '.') out.insert(0, 1, '_');
  return out;
}

Symbol GraphBuilder::interned(std::string_view text) {
  auto [it, fresh] = interned_.try_emplace(text);
  if (fresh) it->second = Symbol(text);
  return it->second;
}

Error GraphBuilder::fail(std::string_view code, std::string message, const RawNode& raw,
                         const ir::LocationRef& location) {
  Error error = makeError(code, std::move(message));
  error.node = "%" + std::string(raw.name);
  if (location) error.source = location->source;
  return error;
}

Result<GraphBuilder::RawNode> GraphBuilder::readNode(const Json& json) {
  RawNode raw;
  const auto object = asObject(json);
  if (!object) return makeError("program-corrupt", "a node is no object");
  for (const auto& entry : *object) {
    if (entry.key == "target") {
      raw.target = asText(entry.value).value_or("");
    } else if (entry.key == "name") {
      raw.name = asText(entry.value).value_or("");
    } else if (entry.key == "inputs") {
      const auto list = asArray(entry.value);
      if (!list) return makeError("program-corrupt", "the inputs of a node are no list");
      for (const Json& item : *list) {
        RawArgument argument;
        const auto name = field(item, "name");
        const auto value = field(item, "arg");
        if (!value || !readUnion(*value, &argument.kind, &argument.value))
          return makeError("program-corrupt", "an argument of a node cannot be read");
        argument.name = name ? asText(*name).value_or("") : "";
        argument.whole = *value;
        raw.inputs.push_back(argument);
      }
    } else if (entry.key == "outputs") {
      const auto list = asArray(entry.value);
      if (!list) return makeError("program-corrupt", "the outputs of a node are no list");
      for (const Json& item : *list) {
        std::string_view kind;
        Json value;
        if (!readUnion(item, &kind, &value)) return makeError("program-corrupt", "an output of a node cannot be read");
        raw.outputs.emplace_back(kind, value);
      }
    } else if (entry.key == "metadata") {
      const auto metadata = asObject(entry.value);
      if (!metadata) continue;
      for (const auto& m : *metadata) {
        if (m.key == "nn_module_stack") raw.module_stack = asText(m.value).value_or("");
        if (m.key == "stack_trace") raw.stack_trace = asText(m.value).value_or("");
        if (m.key == "custom") raw.custom = asText(m.value).value_or("");
      }
    }
  }
  if (raw.target.empty()) return makeError("program-corrupt", "a node has no target");
  if (raw.name.empty() && !raw.outputs.empty()) {  // files before torch 2.9: a node is named by its first output
    const auto& [kind, value] = raw.outputs[0];
    const auto name = field(value, kind == "as_tensor" ? "name" : "as_name");
    if (name) raw.name = asText(*name).value_or("");
    if (raw.name.empty()) raw.name = raw.target.substr(0, raw.target.rfind('.'));
    if (const auto dot = raw.name.rfind('.'); dot != std::string_view::npos) raw.name = raw.name.substr(dot + 1);
  }
  return raw;
}

Status GraphBuilder::addNodes(const Json& graph, Scope& scope) {
  const auto nodes = field(graph, "nodes");
  const auto list = nodes ? asArray(*nodes) : std::nullopt;
  if (!list) return makeError("program-corrupt", "the program has no list of nodes");
  TensorValues tensors;
  if (const auto values = field(graph, "tensor_values"))
    if (const auto object = asObject(*values))
      for (const auto& entry : *object) tensors.emplace(entry.key, entry.value);
  for (const Json& item : *list) {
    if ((nodes_read_++ & 1023) == 0) SP_TRY(cancel_.check());
    SP_ASSIGN(const RawNode raw, readNode(item));
    ++targets_[raw.target];
    SP_TRY(addNode(raw, scope, tensors, graph));
  }
  return {};
}

std::map<std::string, std::int64_t> GraphBuilder::targets() const {
  std::map<std::string, std::int64_t> out;
  constexpr std::string_view kOps = "torch.ops.";
  for (const auto& [target, count] : targets_)
    out[std::string(startsWith(target, kOps) ? target.substr(kOps.size()) : target)] += count;
  return out;
}

Status GraphBuilder::addNode(const RawNode& raw, Scope& scope, const TensorValues& tensors, const Json& graph) {
  if (isCheck(raw.target)) return {};
  const SavingMark mark = metadata_.savingMark(raw.custom);
  const ir::LocationRef location = metadata_.location(raw.module_stack, raw.stack_trace, checkpointOf(raw, mark));
  if (startsWith(raw.target, kHigherOrder)) return inlineSubgraph(raw, scope, location);
  const bool scalars = !raw.outputs.empty() && std::all_of(raw.outputs.begin(), raw.outputs.end(), [](const auto& o) {
    return startsWith(o.first, "as_sym_") || o.first == "as_int" || o.first == "as_float" || o.first == "as_bool";
  });
  if (scalars || isScalarTarget(raw.target)) return addScalar(raw, scope, graph, location);
  SP_TRY(addOperation(raw, scope, tensors, location));
  if (mark == SavingMark::kSave) graph_.node(graph_.order.back()).must_save = true;
  return {};
}

/// The user's checkpoint around this node: that of the sub-graph which is read, or the run of marked nodes it stands in.
/// Marks do not say where one region ends and the next begins; consecutive layers are taken as regions of their own.
std::int32_t GraphBuilder::checkpointOf(const RawNode& raw, SavingMark mark) {
  if (region_.checkpoint != 0) return region_.checkpoint;
  if (mark == SavingMark::kNone) marked_before_ = false;
  if (mark != SavingMark::kRecompute) return 0;
  ModuleRef module;
  parseModuleStack(raw.module_stack, &module);
  const std::string layer(ir::layerOf(module.path));
  if (!marked_before_ || layer != marked_layer_) ++checkpoints_;
  marked_before_ = true;
  marked_layer_ = layer;
  return checkpoints_;
}

// --- nodes -----------------------------------------------------------------------------------------------------

Status GraphBuilder::addOperation(const RawNode& raw, Scope& scope, const TensorValues& tensors,
                                  const ir::LocationRef& location) {
  constexpr std::string_view kOps = "torch.ops.";
  ir::Node pending;
  const std::string_view op = startsWith(raw.target, kOps) ? raw.target.substr(kOps.size()) : raw.target;
  // Our own ops have arguments that everything after this relies on; only passes make them.
  if (startsWith(op, "sp."))
    return fail("program-corrupt", std::string(raw.target) + " is no operator that a program can hold", raw, location);
  pending.op = interned(op);
  for (std::size_t i = 0; i < raw.inputs.size(); ++i) {
    const RawArgument& a = raw.inputs[i];
    auto value = attribute(a.whole, scope, std::string(a.name));
    if (!value) {
      Error error = std::move(value).error();
      error.message = makeError(error.code, "argument " + error.message + " in " + std::string(raw.target)).message;
      error.node = "%" + std::string(raw.name);
      if (location) error.source = location->source;
      return error;
    }
    const Symbol name = a.name.empty() ? Symbol("arg" + std::to_string(i)) : interned(a.name);
    pending.args.push_back({name, std::move(*value)});
  }
  if (region_.autocast.enabled) {
    DType result = DType::kUnknown;
    if (raw.outputs.size() == 1 && raw.outputs[0].first == "as_tensor") {
      const auto it = tensors.find(textField(raw.outputs[0].second, "name"));
      const auto code = it != tensors.end() ? field(it->second, "dtype") : std::nullopt;
      if (code) result = dtypeOfCode(asInt(*code).value_or(-1));
    }
    applyAutocast(pending, result, location);
  }
  const ir::NodeId id = graph_.addNode(pending.op, identifier(raw.name));
  graph_.node(id).args = std::move(pending.args);
  graph_.node(id).location = location;
  auto status = addOutputs(id, raw, scope, tensors);
  if (!status) {
    Error error = std::move(status).error();
    error.node = "%" + std::string(raw.name);
    if (location) error.source = location->source;
    return error;
  }
  graph_.order.push_back(id);
  return {};
}

Status GraphBuilder::addOutputs(ir::NodeId node, const RawNode& raw, Scope& scope, const TensorValues& tensors) {
  const bool single = raw.outputs.size() == 1 && raw.outputs[0].first == "as_tensor";
  const auto addOne = [&](const Json& tensor) -> Result<ValueId> {
    const auto name_json = field(tensor, "name");
    const auto name = name_json ? asText(*name_json) : std::nullopt;
    const auto it = name ? tensors.find(*name) : tensors.end();
    if (it == tensors.end())
      return makeError("program-corrupt", "value " + std::string(name.value_or("?")) + " has no type in the file");
    SP_ASSIGN(TensorMeta meta, readTensorMeta(it->second, symbols_, "value " + std::string(*name), false));
    // A node and its only output share their name; several outputs keep their own.
    const bool same = single && *name == raw.name;
    const ValueId id = graph_.addOutput(node, meta.dtype, std::move(meta.sizes), same ? std::string() : identifier(*name));
    scope[*name] = id;
    return id;
  };
  for (const auto& [kind, value] : raw.outputs) {
    if (kind == "as_tensor") {
      SP_TRY(addOne(value));
    } else if (kind == "as_tensors" || kind == "as_optional_tensors") {
      const auto items = asArray(value);
      if (!items) return makeError("program-corrupt", "a list of outputs is no list");
      for (const Json& item : *items) {
        if (field(item, "as_none")) {
          graph_.node(node).outputs.push_back(kNone);
          continue;
        }
        const auto inner = field(item, "as_tensor");
        SP_TRY(addOne(inner ? *inner : item));
      }
    } else if (kind == "as_optional_tensor") {
      const auto inner = field(value, "as_tensor");
      if (!inner) {
        graph_.node(node).outputs.push_back(kNone);
      } else {
        SP_TRY(addOne(*inner));
      }
    } else if (kind == "as_none") {
      graph_.node(node).outputs.push_back(kNone);
    } else {
      return makeError("argument-unsupported", "an output of " + std::string(raw.target) + " is given as " + std::string(kind));
    }
  }
  return {};
}

Status GraphBuilder::addScalar(const RawNode& raw, Scope& scope, const Json& graph, const ir::LocationRef& location) {
  // First from the operands, which are known exactly; then from the expression that the file keeps for the result.
  std::optional<Scalar> result;
  const bool size = raw.target == "torch.ops.aten.sym_size.int" || raw.target == "torch.ops.aten.sym_numel.default";
  if (size && !raw.inputs.empty()) {
    SP_ASSIGN(const Binding self, resolve(raw.inputs[0].whole, scope, "argument self"));
    const auto* id = std::get_if<ValueId>(&self);
    if (id) {
      const ir::Dims& shape = graph_.value(*id).shape;
      if (raw.target == "torch.ops.aten.sym_numel.default") {
        result = Scalar(ir::numel(shape));
      } else if (raw.inputs.size() == 2) {
        SP_ASSIGN(const Scalar dim, scalarOf(raw.inputs[1].value, scope, "argument dim"));
        const auto* d = std::get_if<std::int64_t>(&dim);
        const auto rank = static_cast<std::int64_t>(shape.size());
        if (d && *d >= -rank && *d < rank) result = Scalar(shape[static_cast<std::size_t>(*d < 0 ? *d + rank : *d)]);
      }
    }
  } else if (isScalarTarget(raw.target)) {
    std::vector<Scalar> operands;
    for (const RawArgument& a : raw.inputs) {
      SP_ASSIGN(const Binding b, resolve(a.whole, scope, "an operand of " + std::string(raw.target)));
      if (const auto* s = std::get_if<Scalar>(&b)) operands.push_back(*s);
    }
    if (operands.size() == raw.inputs.size()) result = evaluateScalar(raw.target, operands);
  }
  for (const auto& [kind, value] : raw.outputs) {
    const auto name = field(value, "as_name");
    const auto text = name ? asText(*name) : std::nullopt;
    if (!text) continue;
    if (!result && kind == "as_sym_int") {
      if (const auto values = field(graph, "sym_int_values"))
        if (const auto sym = field(*values, *text)) {
          auto n = symbols_.size(*sym, "value " + std::string(*text));
          if (!n) return fail(n.error().code, n.error().message, raw, location);
          result = Scalar(*n);
        }
    }
    if (!result)
      return fail("size-unknown", std::string(raw.target) + " gives a number that is known only when the model runs",
                  raw, location);
    scope[*text] = *result;
  }
  return {};
}

Status GraphBuilder::inlineSubgraph(const RawNode& raw, Scope& scope, const ir::LocationRef& location) {
  const std::string_view name = raw.target.substr(kHigherOrder.size());
  const bool autocast = name == "wrap_with_autocast";
  const bool grad_mode = name == "wrap_with_set_grad_enabled";
  const bool transparent = name == "tag_activation_checkpoint" || name == "wrap_activation_checkpoint" ||
                           name == "wrap" || name == "invoke_subgraph" || name == "invoke_quant" ||
                           name == "strict_mode" || name == "wrap_with_inference_mode";
  if (!autocast && !grad_mode && !transparent)
    return fail("subgraph-unsupported", "the program uses " + std::string(name) + ", which cannot be compiled", raw,
                location);
  std::size_t at = 0;
  while (at < raw.inputs.size() && raw.inputs[at].kind != "as_graph") ++at;
  const auto body = at < raw.inputs.size() ? field(raw.inputs[at].value, "graph") : std::nullopt;
  if (!body) return fail("program-corrupt", std::string(name) + " has no sub-graph", raw, location);

  const Region outer = region_;
  bool no_grad = name == "wrap_with_inference_mode";
  if (autocast) {
    if (at < 3) return fail("program-corrupt", "wrap_with_autocast without device, dtype and flag", raw, location);
    const auto device = asText(raw.inputs[0].value).value_or("cpu");
    region_.autocast.enabled = asBool(raw.inputs[2].value).value_or(false);
    region_.autocast.cuda = device == "cuda";
    region_.autocast.low = raw.inputs[1].kind == "as_scalar_type" ? dtypeOfCode(asInt(raw.inputs[1].value).value_or(-1))
                                                                  : (device == "cuda" ? DType::kF16 : DType::kBF16);
    saw_autocast_ = saw_autocast_ || region_.autocast.enabled;
  }
  if (name == "tag_activation_checkpoint" || name == "wrap_activation_checkpoint") region_.checkpoint = ++checkpoints_;
  if (grad_mode) {
    for (std::size_t i = 0; i < at; ++i)
      if (raw.inputs[i].kind == "as_bool" && asBool(raw.inputs[i].value) == false) no_grad = true;
  }

  // The names inside are their own; operands follow the sub-graph in the order of its inputs.
  Scope inner;
  const auto inputs = field(*body, "inputs");
  const auto input_list = inputs ? asArray(*inputs) : std::nullopt;
  if (!input_list) return fail("program-corrupt", "the sub-graph of " + std::string(name) + " has no inputs", raw, location);
  std::size_t operand = at + 1;
  if (name == "invoke_subgraph" && operand < raw.inputs.size() && raw.inputs[operand].kind == "as_string") ++operand;
  for (const Json& input : *input_list) {
    std::string_view kind;
    Json value;
    if (operand >= raw.inputs.size() || !readUnion(input, &kind, &value))
      return fail("program-corrupt", "the sub-graph of " + std::string(name) + " has more inputs than operands", raw, location);
    SP_ASSIGN(Binding binding, resolve(raw.inputs[operand].whole, scope, "an operand of " + std::string(name)));
    ++operand;
    const auto key = field(value, kind == "as_tensor" ? "name" : "as_name");
    if (const auto text = key ? asText(*key) : std::nullopt) inner[*text] = std::move(binding);
  }
  SP_TRY(addNodes(*body, inner));

  // Results: what the sub-graph returns takes the names that the node's outputs have outside.
  std::vector<Json> results, names;
  if (const auto outputs = field(*body, "outputs"))
    if (const auto list = asArray(*outputs))
      for (const Json& o : *list) results.push_back(o);
  for (const auto& [kind, value] : raw.outputs) {
    if (kind == "as_tensors") {
      if (const auto list = asArray(value))
        for (const Json& o : *list) names.push_back(o);
    } else {
      names.push_back(value);
    }
  }
  if (results.size() != names.size())
    return fail("program-corrupt", "the sub-graph of " + std::string(name) + " returns another number of values", raw, location);
  for (std::size_t i = 0; i < results.size(); ++i) {
    SP_ASSIGN(Binding binding, resolve(results[i], inner, "a result of " + std::string(name)));
    if (no_grad) {
      const auto* id = std::get_if<ValueId>(&binding);
      if (id && ir::isFloating(graph_.value(*id).dtype)) {
        // No gradient flows through such a region: cutting its results says the same.
        const DType dtype = graph_.value(*id).dtype;
        const ir::Dims shape = graph_.value(*id).shape;
        const ir::NodeId cut = graph_.addNode("aten.detach.default", graph_.value(*id).name + "_detached");
        graph_.node(cut).args.push_back({"self", Use{*id}});
        graph_.node(cut).location = location;
        binding = graph_.addOutput(cut, dtype, shape);
        graph_.order.push_back(cut);
      }
    }
    const auto key = field(names[i], "name");
    const auto other = key ? key : field(names[i], "as_name");
    if (const auto text = other ? asText(*other) : std::nullopt) scope[*text] = std::move(binding);
  }
  region_ = outer;
  return {};
}

// --- autocast --------------------------------------------------------------------------------------------------

ValueId GraphBuilder::cast(ValueId value, DType to, const ir::LocationRef& location) {
  const bool weight = graph_.value(value).producer == kNone;
  if (weight) {  // autocast itself caches casts of weights, and nothing writes to one in between
    const auto it = weight_casts_.find({value, to});
    if (it != weight_casts_.end()) return it->second;
  }
  const ir::Dims shape = graph_.value(value).shape;
  const std::string name = graph_.value(value).name + "_" + std::string(ir::shortName(to));
  const ir::NodeId id = graph_.addNode("aten.to.dtype", name);
  ir::Node& node = graph_.node(id);
  node.args.push_back({"self", Use{value}});
  node.args.push_back({"dtype", to});
  node.location = location;
  node.provenance.pass = kAutocastPass;
  const ValueId out = graph_.addOutput(id, to, shape);
  graph_.order.push_back(id);
  if (weight) weight_casts_[{value, to}] = out;
  return out;
}

void GraphBuilder::applyAutocast(ir::Node& pending, DType result, const ir::LocationRef& location) {
  const auto eligible = [&](ValueId v) {  // autocast leaves float64 and non-floating tensors alone
    const DType t = graph_.value(v).dtype;
    return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16;
  };
  bool any_float32 = false, any_low = false, names_dtype = false;
  ir::forEachUse(pending, [&](const Use& use) {
    if (!eligible(use.value)) return;
    (graph_.value(use.value).dtype == DType::kF32 ? any_float32 : any_low) = true;
  });
  for (const ir::Argument& a : pending.args) names_dtype = names_dtype || std::holds_alternative<DType>(a.value);
  CastPolicy policy = castPolicy(pending.op, region_.autocast.cuda);
  if (policy == CastPolicy::kNone) {
    // An op that is in no list but took float32 and gave the low precision is a composite around one that is.
    const std::string_view base = ir::baseName(pending.op);
    if (any_float32 && !any_low && result == region_.autocast.low && !names_dtype && base != "to" && base != "_to_copy")
      policy = CastPolicy::kLower;
  }
  DType to = DType::kUnknown;
  if (policy == CastPolicy::kLower) to = region_.autocast.low;
  if (policy == CastPolicy::kFloat32 || (policy == CastPolicy::kSoftmax && !names_dtype)) to = DType::kF32;
  if (policy == CastPolicy::kWidest && any_float32 && any_low) to = DType::kF32;
  if (to == DType::kUnknown) return;
  ir::forEachUse(pending, [&](Use& use) {
    if (eligible(use.value) && graph_.value(use.value).dtype != to) use.value = cast(use.value, to, location);
  });
}

}  // namespace spscope::io
