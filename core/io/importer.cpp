// SPDX-License-Identifier: Apache-2.0
#include "core/io/importer.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/io/dead_inputs.h"

namespace spscope::io {

using ir::DType;
using ir::InputKind;
using ir::kNone;
using ir::ValueId;

namespace {

constexpr int kSchemaMajor = 8, kSchemaMinor = 20;  // of torch 2.15

constexpr std::string_view kDefaultSequenceInputs[] = {"input_ids", "labels", "position_ids", "attention_mask"};

bool isInteger(DType t) { return t == DType::kI64 || t == DType::kI32 || t == DType::kBool || t == DType::kU8 ||
                                 t == DType::kI16 || t == DType::kI8; }

std::string_view viewField(const Json& json, std::string_view key) {
  const auto f = field(json, key);
  return f ? asText(*f).value_or("") : std::string_view();
}

/// sizes[dim] of a tensor's metadata; nullopt where it has fewer dimensions.
std::optional<Json> sizeAt(const Json& meta, int dim) {
  const auto sizes = field(meta, "sizes");
  const auto list = sizes ? asArray(*sizes) : std::nullopt;
  Json out;
  if (!list || dim < 0 || list->at(static_cast<std::size_t>(dim)).get(out) != simdjson::SUCCESS) return std::nullopt;
  return out;
}

std::size_t rankOf(const Json& meta) {
  const auto sizes = field(meta, "sizes");
  const auto list = sizes ? asArray(*sizes) : std::nullopt;
  return list ? list->size() : 0;
}

}  // namespace

Status Importer::run() {
  SP_TRY(readHeader());
  SP_TRY(readSignature());
  SP_TRY(learnSymbols());
  bindLengths();
  model_.graph.form = ir::Form::kGlobal;
  SP_TRY(addInputs());
  SP_TRY(builder_.addNodes(graph_, scope_));
  aliasesWithoutPlaceholder();
  tieWeightless();
  SP_TRY(addOutputs());
  warn();
  summarise();
  return {};
}

Status Importer::readHeader() {
  model_.torch_version = textField(root_, "torch_version");
  const auto major = field(root_, "schema_version", "major"), minor = field(root_, "schema_version", "minor");
  model_.schema_major = major ? static_cast<int>(asInt(*major).value_or(0)) : 0;
  model_.schema_minor = minor ? static_cast<int>(asInt(*minor).value_or(0)) : 0;
  if (model_.schema_major != kSchemaMajor)
    return makeError("schema-unknown", strf("the program has schema %d.%d, which is %s than we know; known is %d (torch "
                                            "2.6 to 2.15)", model_.schema_major, model_.schema_minor,
                                            model_.schema_major > kSchemaMajor ? "newer" : "older", kSchemaMajor));
  // Minor versions add fields that may be left out: what we do not know is not looked at.
  if (model_.schema_minor > kSchemaMinor)
    diagnostics_.warn("schema-newer", strf("the program has schema %d.%d, newer than we know (%d.%d): fields that came "
                                           "after are ignored", model_.schema_major, model_.schema_minor, kSchemaMajor,
                                           kSchemaMinor));
  const auto graph = field(root_, "graph_module", "graph");
  if (!graph) return makeError("program-corrupt", "the program holds no graph_module.graph");
  graph_ = *graph;
  return {};
}

Status Importer::readSignature() {
  const auto signature = field(root_, "graph_module", "signature");
  const auto in = signature ? field(*signature, "input_specs") : std::nullopt;
  const auto out = signature ? field(*signature, "output_specs") : std::nullopt;
  const auto inputs = field(graph_, "inputs");
  const auto a = in ? asArray(*in) : std::nullopt, b = out ? asArray(*out) : std::nullopt;
  const auto c = inputs ? asArray(*inputs) : std::nullopt;
  if (!a || !b || !c) return makeError("program-corrupt", "the program has no signature");
  input_specs_ = *a;
  output_specs_ = *b;
  graph_inputs_ = *c;
  if (const auto values = field(graph_, "tensor_values"))
    if (const auto object = asObject(*values))
      for (const auto& e : *object) tensor_values_.emplace(e.key, e.value);
  return {};
}

std::optional<Json> Importer::tensorMeta(std::string_view value) const {
  const auto it = tensor_values_.find(value);
  return it == tensor_values_.end() ? std::nullopt : std::optional(it->second);
}

// --- symbols ---------------------------------------------------------------------------------------------------

Status Importer::learnSymbols() {
  // Lone symbols first, so that expressions of several can be solved after them.
  if (const auto values = field(graph_, "sym_int_values"))
    if (const auto object = asObject(*values))
      for (const auto& e : *object) symbols_.learn(e.value);
  for (const Json& spec : input_specs_) {
    const auto user = field(spec, "user_input", "arg");
    const auto tensor = user ? field(*user, "as_tensor") : std::nullopt;
    const auto meta = tensor ? tensorMeta(viewField(*tensor, "name")) : std::nullopt;
    const auto sizes = meta ? field(*meta, "sizes") : std::nullopt;
    if (const auto list = sizes ? asArray(*sizes) : std::nullopt)
      for (const Json& s : *list) symbols_.learn(s);
  }
  std::set<std::string> seen;
  const auto note = [&](const std::string& name) {
    if (!seen.insert(name).second) return;
    SymbolInfo info;
    info.name = name;
    const auto it = symbols_.hints().find(name);
    if (it != symbols_.hints().end()) info.hint = info.value = it->second;
    model_.symbols.push_back(std::move(info));
  };
  for (const auto& [name, hint] : symbols_.hints()) note(name);
  if (const auto ranges = field(root_, "range_constraints"))
    if (const auto object = asObject(*ranges))
      for (const auto& e : *object) {
        note(std::string(e.key));
        for (SymbolInfo& info : model_.symbols) {
          if (info.name != e.key) continue;
          const auto low = field(e.value, "min_val"), high = field(e.value, "max_val");
          if (low) info.min = asInt(*low).value_or(info.min);
          if (high) info.max = asInt(*high).value_or(info.max);
        }
      }
  return {};
}

bool Importer::isSequenceInput(const std::string& name, const Json& meta, int* dim) const {
  if (!options_.sequence_marks.empty()) {
    for (const auto& [marked, d] : options_.sequence_marks) {
      const int rank = static_cast<int>(rankOf(meta));
      if (marked != name || d < -rank || d >= rank) continue;
      *dim = d < 0 ? d + rank : d;
      return true;
    }
    return false;
  }
  *dim = 1;
  return rankOf(meta) == 2 && std::find(std::begin(kDefaultSequenceInputs), std::end(kDefaultSequenceInputs), name) !=
                                  std::end(kDefaultSequenceInputs);
}

void Importer::bindLengths() {
  std::vector<std::pair<Slot, int>> sequence, other;
  for (const Json& spec : input_specs_) {
    const auto user = field(spec, "user_input", "arg");
    const auto tensor = user ? field(*user, "as_tensor") : std::nullopt;
    if (!tensor) continue;
    Slot slot{textField(*tensor, "name"), viewField(*tensor, "name"), {}};
    const auto meta = tensorMeta(slot.key);
    if (!meta) continue;
    slot.meta = *meta;
    const auto code = field(*meta, "dtype");
    int dim = 1;
    if (isSequenceInput(slot.name, *meta, &dim)) {
      sequence.emplace_back(slot, dim);
    } else if (options_.sequence_marks.empty() && rankOf(*meta) == 2 && code &&
               isInteger(dtypeOfCode(asInt(*code).value_or(-1)))) {
      other.emplace_back(slot, 1);
    }
  }
  if (sequence.empty()) sequence = other;  // a model whose ids have other names
  if (sequence.empty()) return;

  const Slot& first = sequence.front().first;  // no structured binding: clang 14 cannot capture one
  const int dim = sequence.front().second;
  const int batch_dim = dim == 0 ? 1 : 0;
  model_.sequence_input = first.name;
  model_.sequence_dim = dim;
  const auto length = [&](int d) -> std::int64_t {
    const auto size = sizeAt(first.meta, d);
    if (!size) return 0;
    const auto n = symbols_.size(*size, "input " + first.name);
    return n ? *n : 0;
  };
  const auto symbolic = [&](int d) {
    const auto size = sizeAt(first.meta, d);
    return size && symbols_.expression(*size).has_value();
  };
  model_.file_seq = length(dim);
  model_.file_batch = length(batch_dim);
  model_.dynamic = symbolic(dim);
  model_.dynamic_batch = symbolic(batch_dim);
  for (const auto& [slot, d] : sequence) {
    const auto seq = sizeAt(slot.meta, d);
    const auto batch = sizeAt(slot.meta, d == 0 ? 1 : 0);
    if (options_.seq > 0 && seq) bindLength(slot.name, *seq, options_.seq, "--seq");
    if (options_.batch > 0 && batch) bindLength(slot.name, *batch, options_.batch, "--batch");
  }
  model_.seq = length(dim);
  model_.batch = length(batch_dim);
  for (SymbolInfo& info : model_.symbols) {
    const auto it = symbols_.bindings().find(info.name);
    if (it != symbols_.bindings().end()) info.value = it->second;
    if (info.value == info.hint || (info.value >= info.min && info.value <= info.max)) continue;
    diagnostics_.warn("seq-out-of-range", strf("%s is declared from %lld to %lld in the file, %lld was asked for",
                                               info.name.c_str(), static_cast<long long>(info.min),
                                               static_cast<long long>(info.max), static_cast<long long>(info.value)));
  }
}

void Importer::bindLength(const std::string& input, const Json& size, std::int64_t wanted, std::string_view flag) {
  const auto expr = symbols_.expression(size);
  if (!expr) return;  // a fixed size: the caller sees it in file_seq
  if (expr->evaluate(symbols_.bindings()) == wanted) return;
  for (const std::string& symbol : expr->symbols()) {
    if (const auto value = expr->solve(symbol, wanted, symbols_.bindings()); value && *value > 0) {
      symbols_.bind(symbol, *value);
      return;
    }
  }
  diagnostics_.warn("length-not-possible", strf("%s %lld cannot be had: input %s has the length %s there",
                                                std::string(flag).c_str(), static_cast<long long>(wanted),
                                                input.c_str(), expr->str().c_str()));
}

// --- inputs ----------------------------------------------------------------------------------------------------

int Importer::inputNamed(std::string_view name) const {
  const auto& inputs = model_.graph.inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].kind == InputKind::kUser) continue;
    if (inputs[i].name == name ||
        std::find(inputs[i].aliases.begin(), inputs[i].aliases.end(), name) != inputs[i].aliases.end())
      return static_cast<int>(i);
  }
  return kNone;
}

Status Importer::addInputs() {
  std::size_t position = 0;
  for (const Json& spec : input_specs_) {
    std::string_view kind;
    Json value;
    if (!readUnion(spec, &kind, &value)) return makeError("program-corrupt", "an entry of the signature cannot be read");
    if (kind == "parameter") {
      SP_TRY(addStored(value, InputKind::kParameter, "parameter_name"));
    } else if (kind == "buffer") {
      SP_TRY(addStored(value, InputKind::kBuffer, "buffer_name"));
    } else if (kind == "tensor_constant") {
      SP_TRY(addStored(value, InputKind::kConstant, "tensor_constant_name"));
    } else if (kind == "user_input") {
      const auto argument = field(value, "arg");
      if (!argument) return makeError("program-corrupt", "a user input has no argument");
      SP_TRY(addUserInput(*argument, position));
    } else if (kind == "constant_input") {
      UserInput input;
      input.name = textField(value, "name");
      model_.user_inputs.push_back(std::move(input));
    } else if (kind != "token") {
      return makeError("argument-unsupported", "the program takes an input of kind " + std::string(kind));
    }
    ++position;
  }
  return {};
}

Status Importer::addStored(const Json& spec, InputKind kind, std::string_view name_key) {
  const auto arg = field(spec, "arg");
  const std::string_view key = arg ? viewField(*arg, "name") : std::string_view();
  const std::string name = textField(spec, name_key);
  const auto meta_json = tensorMeta(key);
  if (key.empty() || name.empty() || !meta_json)
    return makeError("program-corrupt", "parameter or buffer \"" + name + "\" has no value in the graph");
  SP_ASSIGN(TensorMeta meta, readTensorMeta(*meta_json, symbols_, "input " + name, false));
  const WeightEntry* entry = weights_.weight(name);
  if (!entry) entry = weights_.constant(name);
  if (entry && (entry->meta.sizes != meta.sizes || entry->meta.dtype != meta.dtype))
    return makeError("weight-size-mismatch", "tensor " + name + " has shape [" + join(entry->meta.sizes, ", ") +
                                                 "] in the table of weights and [" + join(meta.sizes, ", ") +
                                                 "] in the graph");
  if (!entry && weights_readable_)
    diagnostics_.warn("weight-missing", "the archive holds no values for " + name, {}, {}, {});

  // Tied: another name of the same bytes, or (torch 2.6) the same name once more. Both become one input.
  const auto known = stored_.find(name);
  int same = known == stored_.end() ? kNone : known->second;
  for (std::size_t i = 0; same == kNone && entry && i < input_entries_.size(); ++i)
    if (input_entries_[i] && model_.graph.inputs[i].kind == kind && sameTensor(*entry, *input_entries_[i]))
      same = static_cast<int>(i);
  const bool trainable = kind == InputKind::kParameter && (entry ? entry->meta.requires_grad : meta.requires_grad);
  if (same != kNone) {
    ir::Input& tied = model_.graph.inputs[static_cast<std::size_t>(same)];
    if (stored_.try_emplace(name, same).second) tied.aliases.push_back(name);
    tied.trainable = tied.trainable || trainable;
    model_.graph.value(tied.value).requires_grad = tied.trainable;
    scope_[key] = tied.value;
    return {};
  }
  ir::Input input;
  input.kind = kind;
  input.name = name;
  input.trainable = trainable;
  input.value = model_.graph.addValue(identifier(key), meta.dtype, std::move(meta.sizes));
  model_.graph.value(input.value).requires_grad = trainable;
  if (entry && !entry->empty) input.storage = {entry->record, entry->meta.offset, entry->meta.strides, entry->meta.dtype};
  if (entry && entry->empty && kind == InputKind::kParameter) model_.weightless = true;
  scope_[key] = input.value;
  stored_.emplace(name, static_cast<int>(model_.graph.inputs.size()));
  model_.graph.inputs.push_back(std::move(input));
  input_entries_.push_back(entry);
  return {};
}

Status Importer::addUserInput(const Json& argument, std::size_t position) {
  UserInput user;
  std::string_view kind;
  Json value;
  if (!readUnion(argument, &kind, &value)) return makeError("program-corrupt", "a user input cannot be read");
  if (kind == "as_tensor") {
    const std::string_view key = viewField(value, "name");
    const auto meta_json = tensorMeta(key);
    if (!meta_json) return makeError("program-corrupt", "input " + std::string(key) + " has no type in the file");
    user.name = std::string(key);
    SP_ASSIGN(TensorMeta meta, readTensorMeta(*meta_json, symbols_, "input " + user.name, false));
    for (std::size_t d = 0; d < meta.sizes.size(); ++d) {
      const auto size = sizeAt(*meta_json, static_cast<int>(d));
      const auto expr = size ? symbols_.expression(*size) : std::nullopt;
      user.symbols.push_back(expr ? expr->str() : std::string());
    }
    user.dtype = meta.dtype;
    user.shape = meta.sizes;
    user.input = static_cast<int>(model_.graph.inputs.size());
    ir::Input input;
    input.kind = InputKind::kUser;
    input.name = user.name;
    input.value = model_.graph.addValue(identifier(key), meta.dtype, std::move(meta.sizes));
    scope_[key] = input.value;
    model_.graph.inputs.push_back(std::move(input));
    input_entries_.push_back(nullptr);
  } else {
    // A number or None: the program was traced for this one value.
    user.name = textField(value, "as_name");
    if (user.name.empty()) user.name = strf("arg%zu", position);
    if (kind == "as_sym_int") {
      const auto name = field(value, "as_name");
      const auto values = field(graph_, "sym_int_values");
      const auto sym = name && values ? field(*values, asText(*name).value_or("")) : std::nullopt;
      if (sym) {
        SP_ASSIGN(const std::int64_t n, symbols_.size(*sym, "input " + user.name));
        scope_[asText(*name).value_or("")] = Scalar(n);
      }
    }
  }
  model_.user_inputs.push_back(std::move(user));
  return {};
}

void Importer::aliasesWithoutPlaceholder() {
  // A strict export keeps one placeholder of a tied weight although the table lists both names.
  for (const auto& [name, entry] : weights_.weights()) {
    if (!entry.is_parameter || stored_.contains(name)) continue;
    for (std::size_t i = 0; i < input_entries_.size(); ++i)
      if (input_entries_[i] && sameTensor(entry, *input_entries_[i])) {
        model_.graph.inputs[i].aliases.push_back(name);
        break;
      }
  }
}

void Importer::tieWeightless() {
  // Files without values keep all weights in one empty record, so storage does not tell what is tied. The exporter
  // does: of two tied names one is dead, and the other serves the embedding and the head at once.
  if (!model_.weightless) return;
  ir::Graph& g = model_.graph;
  const auto users = ir::usersOf(g);
  const Symbol embedding{"aten.embedding.default"};
  for (std::size_t i = 0; i < g.inputs.size(); ++i) {
    ir::Input& dead = g.inputs[i];
    if (dead.kind != InputKind::kParameter || !users[static_cast<std::size_t>(dead.value)].empty()) continue;
    std::vector<std::size_t> twins;
    for (std::size_t j = 0; j < g.inputs.size(); ++j) {
      const ir::Input& other = g.inputs[j];
      if (j == i || other.kind != InputKind::kParameter || g.value(other.value).shape != g.value(dead.value).shape ||
          g.value(other.value).dtype != g.value(dead.value).dtype)
        continue;
      const auto& uses = users[static_cast<std::size_t>(other.value)];
      const auto embeds = std::count_if(uses.begin(), uses.end(), [&](ir::NodeId n) { return g.node(n).op == embedding; });
      if (embeds > 0 && embeds < static_cast<std::ptrdiff_t>(uses.size())) twins.push_back(j);
    }
    if (twins.size() != 1) continue;
    const std::size_t j = twins[0];
    dead.aliases.push_back(g.inputs[j].name);
    dead.trainable = dead.trainable || g.inputs[j].trainable;
    g.value(dead.value).requires_grad = dead.trainable;
    g.replaceAllUses(g.inputs[j].value, dead.value);
    for (auto& [key, binding] : scope_)
      if (binding == Binding(g.inputs[j].value)) binding = dead.value;
    g.inputs.erase(g.inputs.begin() + static_cast<std::ptrdiff_t>(j));
    input_entries_.erase(input_entries_.begin() + static_cast<std::ptrdiff_t>(j));
    for (UserInput& u : model_.user_inputs)
      if (u.input > static_cast<int>(j)) --u.input;
    return tieWeightless();  // `users` is stale now; ends, as there is one input fewer
  }
}

// --- outputs and findings --------------------------------------------------------------------------------------

Status Importer::addOutputs() {
  bool loss_found = false;
  for (const Json& spec : output_specs_) {
    std::string_view kind;
    Json value;
    if (!readUnion(spec, &kind, &value)) return makeError("program-corrupt", "an output of the signature cannot be read");
    const auto argument = field(value, "arg");
    if (!argument || kind == "token") continue;
    // user_output wraps a whole Argument, mutations only the value's name.
    ir::Output output;
    const bool mutation = kind.find("mutation") != std::string_view::npos || kind == "gradient_to_parameter" ||
                          kind == "gradient_to_user_input";
    if (mutation || kind == "loss_output") {
      const auto it = scope_.find(viewField(*argument, "name"));
      const auto* id = it != scope_.end() ? std::get_if<ValueId>(&it->second) : nullptr;
      if (!id) return makeError("program-corrupt", "an output of kind " + std::string(kind) + " names no value");
      output.value = *id;
    } else {
      SP_ASSIGN(const Binding binding, builder_.resolve(*argument, scope_, "an output"));
      const auto* id = std::get_if<ValueId>(&binding);
      if (!id) continue;  // a constant
      output.value = *id;
    }
    const ir::Value& v = model_.graph.value(output.value);
    if (kind == "loss_output" || (kind == "user_output" && !loss_found && v.shape.empty() && ir::isFloating(v.dtype))) {
      output.kind = ir::OutputKind::kLoss;
      loss_found = true;
    } else if (mutation) {
      output.kind = kind.substr(0, 8) == "gradient" ? ir::OutputKind::kGradient : ir::OutputKind::kBufferUpdate;
      std::string name = textField(value, "buffer_name");
      if (name.empty()) name = textField(value, "parameter_name");
      const std::string user = textField(value, "user_input_name");
      output.input = inputNamed(name);
      for (std::size_t i = 0; output.input == kNone && !user.empty() && i < model_.graph.inputs.size(); ++i)
        if (model_.graph.inputs[i].kind == InputKind::kUser && model_.graph.inputs[i].name == user)
          output.input = static_cast<int>(i);
      if (output.input == kNone)
        return makeError("program-corrupt", "an output of kind " + std::string(kind) + " belongs to no input");
    }
    model_.graph.outputs.push_back(output);
  }
  if (!loss_found)
    diagnostics_.warn("no-loss", "no output of the program is a scalar float: there is no loss to differentiate");
  return {};
}

void Importer::warn() {
  warnDeadInputs(model_.graph, diagnostics_);
  if (metadata_.unreadable() > 0)
    diagnostics_.warn("metadata-unreadable", strf("%lld module stacks cannot be read (first: \"%s\"); those nodes have "
                                                  "no module path", static_cast<long long>(metadata_.unreadable()),
                                                  metadata_.firstUnreadable().c_str()));
}

void Importer::summarise() {
  model_.autocast = builder_.sawAutocast();
  model_.file_nodes = builder_.nodesRead();
  model_.file_ops = builder_.targets();
}

}  // namespace spscope::io
