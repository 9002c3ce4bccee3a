// SPDX-License-Identifier: Apache-2.0
// See recorder.h.
//
// Which graph value is a tensor? Autograd hands tensors on as they are, or as shallow copies (saved variables, views).
// So a tensor is looked up by its TensorImpl first, then by storage, offset, sizes, strides and type, where the first
// value with that geometry wins: aliases that move no bytes then do not keep each other alive in the backward. Every
// tensor that the graph knows is kept alive while capturing, so that no address is used twice; this also makes
// autograd's gradient accumulation choose the functional add over the one in place.
#include "core/torch/recorder.h"

#include <ATen/SequenceNumber.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/node.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>

#include "core/torch/dtype_convert.h"
#include "core/torch/op_call.h"
#include "core/torch/schema_types.h"

namespace spscope::exec {
namespace {

using c10::IValue;
using c10::TypeKind;

/// An op in place is written as its functional twin: add_ as add.
const c10::FunctionSchema* functionalTwin(const c10::FunctionSchema& schema) {
  const std::string& name = schema.name();
  if (name.empty() || name.back() != '_') return nullptr;
  std::string overload = schema.overload_name();
  if (name == "aten::bernoulli_" && overload == "float") overload = "p";
  auto twin = c10::Dispatcher::singleton().findSchema({name.substr(0, name.size() - 1), overload});
  if (!twin || twin->schema().arguments().size() != schema.arguments().size()) return nullptr;
  return &twin->schema();
}

CapturedOp describe(const c10::OperatorHandle& handle) {
  CapturedOp op;
  op.schema = &handle.schema();
  const c10::FunctionSchema* written = op.schema;
  op.mutates = op.schema->is_mutable();
  if (op.mutates) {
    written = functionalTwin(*op.schema);
    if (!written) {
      op.failure = "changes its operand in place and has no functional form";
      written = op.schema;
    }
  }
  op.symbol = symbolOf(written->operator_name());
  const bool reshape_alias = op.symbol == Symbol("aten._reshape_alias.default");
  if (reshape_alias) op.symbol = Symbol("aten.view.default");  // its strides would be those of the meta tensor
  for (const c10::Argument& argument : written->arguments()) {
    // Where a tensor is made is the executor's choice; layouts are always strided.
    const std::string& name = argument.name();
    const bool said = name != "device" && name != "layout" && name != "pin_memory" && !(reshape_alias && name == "stride");
    op.arguments.push_back(said ? Symbol(name) : Symbol());
  }
  return op;
}

const CapturedOp& capturedOp(const c10::OperatorHandle& handle) {
  static std::mutex mutex;
  static auto* ops = new std::unordered_map<const c10::FunctionSchema*, std::unique_ptr<CapturedOp>>();
  thread_local std::unordered_map<const c10::FunctionSchema*, const CapturedOp*> known;
  const c10::FunctionSchema* key = &handle.schema();
  const CapturedOp*& local = known[key];
  if (!local) {
    const std::lock_guard lock(mutex);
    auto& shared = (*ops)[key];
    if (!shared) shared = std::make_unique<CapturedOp>(describe(handle));
    local = shared.get();
  }
  return *local;
}

bool sameAsDefault(const IValue& value, const IValue& standard) {
  if (value.isNone() || standard.isNone()) return value.isNone() && standard.isNone();
  if (value.isInt() && standard.isInt()) return value.toInt() == standard.toInt();
  if (value.isDouble() && standard.isDouble()) return value.toDouble() == standard.toDouble();
  if (value.isBool() && standard.isBool()) return value.toBool() == standard.toBool();
  if (value.isIntList() && standard.isIntList()) return value.toIntVector() == standard.toIntVector();
  if (value.isString() && standard.isString()) return value.toStringRef() == standard.toStringRef();
  return false;
}

bool sameGeometry(const at::Tensor& a, const at::Tensor& b) {
  return a.storage_offset() == b.storage_offset() && a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

const c10::StorageImpl* storageOf(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

ir::MemoryFormat memoryFormatOf(std::int64_t code) {
  switch (static_cast<c10::MemoryFormat>(code)) {
    case c10::MemoryFormat::Contiguous: return ir::MemoryFormat::kContiguous;
    case c10::MemoryFormat::ChannelsLast: return ir::MemoryFormat::kChannelsLast;
    case c10::MemoryFormat::ChannelsLast3d: return ir::MemoryFormat::kChannelsLast3d;
    default: return ir::MemoryFormat::kPreserve;
  }
}

/// The number in a 0-dim tensor on the CPU, read without calling any op.
ir::Attribute numberIn(const at::Tensor& tensor) {
  const void* data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {
    case c10::kDouble: return *static_cast<const double*>(data);
    case c10::kFloat: return static_cast<double>(*static_cast<const float*>(data));
    case c10::kLong: return *static_cast<const std::int64_t*>(data);
    case c10::kInt: return static_cast<std::int64_t>(*static_cast<const std::int32_t*>(data));
    case c10::kBool: return *static_cast<const bool*>(data);
    default: TORCH_CHECK(false, "a constant of type ", tensor.scalar_type(), " cannot be written into the graph");
  }
}

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard exclude(c10::DispatchKey::Fake);
  const c10::DispatchKeySet below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::Fake);
  Recorder* recorder = activeRecorder();
  if (!recorder) return op.redispatchBoxed(below, stack);
  recorder->before(op, stack->data() + (stack->size() - op.schema().arguments().size()));
  op.redispatchBoxed(below, stack);
  recorder->after(stack->data() + (stack->size() - op.schema().returns().size()));
}

}  // namespace

Recorder*& activeRecorder() {
  thread_local Recorder* active = nullptr;
  return active;
}

void registerCaptureFallback() {
  static torch::Library* const library = [] {
    // Fake is the dispatch key reserved for fake tensors outside the core; it lies right below the autograd keys.
    auto* l = new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::Fake, __FILE__, __LINE__);
    l->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
    return l;
  }();
  (void)library;
}

Recorder::Recorder(ir::Graph& graph, const CancelToken& cancel)
    : graph_(graph), cancel_(cancel), first_sequence_(at::sequence_number::peek()), seen_sequence_(first_sequence_) {
  replaced_.resize(graph.valueCount());
  for (std::size_t i = 0; i < replaced_.size(); ++i) replaced_[i] = static_cast<ir::ValueId>(i);
}

// --- tensors and values ---------------------------------------------------------------------------------------------

std::int32_t Recorder::addSlot(const at::Tensor& tensor, bool own_storage) {
  const auto slot = static_cast<std::int32_t>(slots_.size());
  auto& sharing = by_storage_[storageOf(tensor)];
  if (own_storage) sharing.clear();
  Slot added;
  added.tensor = tensor;
  added.owner = sharing.empty() ? slot : slots_[static_cast<std::size_t>(sharing.front())].owner;
  if (added.owner == slot) added.bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  slots_.push_back(std::move(added));
  sharing.push_back(slot);
  by_impl_[tensor.unsafeGetTensorImpl()] = slot;
  return slot;
}

std::int32_t Recorder::find(const at::Tensor& tensor) const {
  const auto direct = by_impl_.find(tensor.unsafeGetTensorImpl());
  if (direct != by_impl_.end()) return direct->second;
  const auto sharing = by_storage_.find(storageOf(tensor));
  if (sharing == by_storage_.end()) return -1;
  for (const std::int32_t slot : sharing->second)
    if (sameGeometry(slots_[static_cast<std::size_t>(slot)].tensor, tensor)) return slot;
  return -1;
}

void Recorder::bindInput(ir::ValueId value, const at::Tensor& tensor) {
  const std::int32_t slot = addSlot(tensor);
  slots_[static_cast<std::size_t>(slot)].value = value;
  ir::Value& v = graph_.value(value);
  v.requires_grad = false;
  v.storage = ir::kNone;
  v.storage_bytes = slots_[static_cast<std::size_t>(slot)].bytes;
}

ir::ValueId Recorder::valueOf(const at::Tensor& tensor) {
  if (!tensor.defined()) return ir::kNone;
  const std::int32_t slot = find(tensor);
  return slot < 0 ? ir::kNone : slots_[static_cast<std::size_t>(slot)].value;
}

ir::ValueId Recorder::replaced(ir::ValueId forward_value) const {
  return forward_value == ir::kNone ? ir::kNone : replaced_[static_cast<std::size_t>(forward_value)];
}

// --- one call -------------------------------------------------------------------------------------------------------

ir::Attribute Recorder::numberOrConstant(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_cpu() && tensor.dim() == 0, "the graph does not know where an operand of shape ",
              tensor.sizes(), " comes from");
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return numberIn(tensor);
  // A real 0-dim tensor takes part in type promotion otherwise than a number does: make it one again.
  static const CapturedOp scalar = [] {
    CapturedOp op;
    op.symbol = Symbol("aten.scalar_tensor.default");
    return op;
  }();
  Record record;
  record.op = &scalar;
  record.args.push_back({"s", numberIn(tensor)});
  record.args.push_back({"dtype", toDType(tensor.scalar_type())});
  record.outputs.push_back(addSlot(tensor));
  const ir::Use use{record.outputs[0]};
  if (phase_ == ir::Phase::kForward)
    pending_.push_back(std::move(record));
  else
    write(record, ir::kNone);
  return use;
}

ir::Attribute Recorder::operand(const at::Tensor& tensor) {
  if (!tensor.defined()) return std::monostate{};
  // A number that was made a tensor for the call: its making may have been seen, but it is no value of the graph.
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return numberOrConstant(tensor);
  const std::int32_t slot = find(tensor);
  if (slot < 0) return numberOrConstant(tensor);
  return ir::Use{slot};
}

bool Recorder::attribute(const IValue& value, const c10::Argument& argument, ir::Attribute* out) {
  if (value.isTensor()) {
    *out = operand(value.toTensor());
    return !std::holds_alternative<std::monostate>(*out);
  }
  if (value.isNone()) {
    *out = std::monostate{};
    return argument.default_value().has_value();  // else absent means None anyway
  }
  if (value.isInt()) {
    switch (unwrapped(*argument.real_type()).kind()) {
      case TypeKind::ScalarTypeType: *out = toDType(static_cast<c10::ScalarType>(value.toInt())); return true;
      case TypeKind::MemoryFormatType: *out = memoryFormatOf(value.toInt()); return true;
      case TypeKind::LayoutType: *out = ir::Layout::kStrided; return true;
      default: *out = value.toInt(); return true;
    }
  }
  if (value.isDouble()) return *out = value.toDouble(), true;
  if (value.isBool()) return *out = value.toBool(), true;
  if (value.isString()) return *out = value.toStringRef(), true;
  if (value.isIntList()) return *out = value.toIntVector(), true;
  if (value.isDoubleList()) return *out = value.toDoubleVector(), true;
  if (value.isBoolList()) {
    std::vector<bool> bools;
    for (const bool b : value.toBoolList()) bools.push_back(b);
    return *out = std::move(bools), true;
  }
  // TorchScript's own lists of tensors or None are of neither named kind.
  const auto isTensors = [](const auto& entries) { return std::all_of(entries.begin(), entries.end(), [](const IValue& e) { return e.isNone() || e.isTensor(); }); };
  if (value.isTensorList() || value.isOptionalTensorList() || (value.isList() && isTensors(value.toListRef()))) {
    ir::UseList list;
    for (const IValue& entry : value.toListRef()) {
      if (entry.isNone() || !entry.toTensor().defined()) {
        list.push_back({});
        continue;
      }
      const ir::Attribute one = operand(entry.toTensor());
      const auto* use = std::get_if<ir::Use>(&one);
      TORCH_CHECK(use, "a number stands in the list ", argument.name());
      list.push_back(*use);
    }
    return *out = std::move(list), true;
  }
  TORCH_CHECK(value.isDevice() || value.isGenerator(), "the argument ", argument.name(), " of type ",
              argument.type()->str(), " cannot be written into the graph");
  return false;
}

void Recorder::before(const c10::OperatorHandle& handle, const IValue* arguments) {
  TORCH_CHECK(!cancel_.cancelled(), "cancelled");
  const CapturedOp& op = capturedOp(handle);
  running_ = handle.schema().name();
  TORCH_CHECK(op.failure.empty(), running_, " ", op.failure);
  open_ = Record();
  open_.op = &op;
  mutated_.clear();
  if (phase_ == ir::Phase::kForward) {
    // Autograd numbers the node of a call just before making the call.
    open_.first_sequence = static_cast<std::int64_t>(seen_sequence_ - first_sequence_);
    seen_sequence_ = at::sequence_number::peek();
    open_.end_sequence = static_cast<std::int64_t>(seen_sequence_ - first_sequence_);
  } else if (const auto node = torch::autograd::get_current_node()) {
    const std::uint64_t sequence = node->sequence_nr() - first_sequence_;
    if (sequence < origins_.size()) backward_ = origins_[sequence];
    current_ = backward_.forward;
  }
  const auto& schema_arguments = handle.schema().arguments();
  for (std::size_t i = 0; i < schema_arguments.size(); ++i) {
    const c10::Argument& argument = schema_arguments[i];
    const IValue& value = arguments[i];
    if (op.mutates && argument.alias_info() && argument.alias_info()->isWrite()) {
      TORCH_CHECK(value.isTensor(), "a list of tensors is changed in place");
      mutated_.push_back(value.toTensor());
    }
    if (op.arguments[i].empty()) continue;
    if (argument.default_value() && sameAsDefault(value, *argument.default_value())) continue;
    ir::Attribute attribute_value;
    if (attribute(value, argument, &attribute_value))
      open_.args.push_back({op.arguments[i], std::move(attribute_value)});
  }
}

void Recorder::rebind(const at::Tensor& tensor) {
  const auto sharing = by_storage_.find(storageOf(tensor));
  if (sharing != by_storage_.end())
    for (const std::int32_t slot : sharing->second)
      TORCH_CHECK(sameGeometry(slots_[static_cast<std::size_t>(slot)].tensor, tensor),
                  "changes a view of another value in place");
  // All tensors with this geometry are the changed value from now on.
  const std::vector<std::int32_t> stale = sharing == by_storage_.end() ? std::vector<std::int32_t>() : sharing->second;
  const std::int32_t slot = addSlot(tensor, /*own_storage=*/true);
  for (const std::int32_t old : stale)
    by_impl_[slots_[static_cast<std::size_t>(old)].tensor.unsafeGetTensorImpl()] = slot;
  open_.outputs.push_back(slot);
}

void Recorder::after(const IValue* results) {
  const auto& returns = open_.op->schema->returns();
  if (open_.op->mutates) {
    for (const at::Tensor& tensor : mutated_) rebind(tensor);
  } else {
    for (std::size_t i = 0; i < returns.size(); ++i) {
      const IValue& result = results[i];
      if (result.isTensor()) {
        const at::Tensor& tensor = result.toTensor();
        open_.outputs.push_back(tensor.defined() ? addSlot(tensor) : -1);
      } else if (result.isTensorList()) {
        for (const IValue& entry : result.toListRef()) open_.outputs.push_back(addSlot(entry.toTensor()));
      } else {
        open_.outputs.push_back(-1);
      }
    }
  }
  running_.clear();
  if (phase_ == ir::Phase::kForward)
    pending_.push_back(std::move(open_));
  else
    write(open_, ir::kNone);
}

// --- writing nodes --------------------------------------------------------------------------------------------------

void Recorder::writeOutput(std::int32_t index, ir::NodeId node) {
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  if (slot.value == ir::kNone) {
    slot.value = graph_.addOutput(node, toDType(slot.tensor.scalar_type()), slot.tensor.sizes().vec());
  } else {
    graph_.node(node).outputs.push_back(slot.value);
    ir::Value& value = graph_.value(slot.value);
    value.producer = node;
    value.output_index = static_cast<int>(graph_.node(node).outputs.size()) - 1;
  }
  ir::Value& value = graph_.value(slot.value);
  value.dtype = toDType(slot.tensor.scalar_type());
  value.requires_grad = false;
  value.storage = slot.owner == index ? ir::kNone : slots_[static_cast<std::size_t>(slot.owner)].value;
  value.storage_bytes = slot.owner == index ? slot.bytes : 0;
}

void Recorder::write(Record& record, ir::NodeId keep) {
  // Slots become values: their nodes are written in program order, so every operand has its value by now.
  ir::forEachUse(record, [&](ir::Use& use) { use.value = slots_[static_cast<std::size_t>(use.value)].value; });
  ir::NodeId id = keep;
  const ir::NodeId origin = phase_ == ir::Phase::kForward ? current_ : backward_.forward;
  if (keep == ir::kNone) {
    std::string name = origin == ir::kNone ? std::string() : graph_.node(origin).name;
    if (!name.empty()) name += phase_ == ir::Phase::kForward ? "." : ".bwd.";
    name += ir::baseName(record.op->symbol);
    id = graph_.addNode(record.op->symbol, std::move(name));
    ir::Node& node = graph_.node(id);
    node.phase = phase_;
    node.provenance.pass = Symbol("build-joint");
    if (origin != ir::kNone) {
      node.location = graph_.node(origin).location;
      node.provenance.from = {origin};
      node.must_save = phase_ == ir::Phase::kForward && graph_.node(origin).must_save;
    }
    if (phase_ == ir::Phase::kBackward) node.forward = backward_.joint;
    for (ir::Argument& argument : record.args) node.args.push_back(std::move(argument));
  } else {
    ir::Node& node = graph_.node(id);
    ir::forEachUse(node, [&](ir::Use& use) { use.value = replaced(use.value); });
    if (!sameOperands(record, id)) {  // an operand was changed in place meanwhile
      node.args.clear();
      for (ir::Argument& argument : record.args) node.args.push_back(std::move(argument));
    }
    node.outputs.clear();
  }
  for (const std::int32_t slot : record.outputs) {
    if (slot < 0)
      graph_.node(id).outputs.push_back(ir::kNone);
    else
      writeOutput(slot, id);
  }
  graph_.order.push_back(id);
  if (phase_ == ir::Phase::kForward && record.end_sequence > record.first_sequence) {
    origins_.resize(static_cast<std::size_t>(record.end_sequence), {id, current_});
    for (auto i = record.first_sequence; i < record.end_sequence; ++i)
      origins_[static_cast<std::size_t>(i)] = {id, current_};
  }
}

bool Recorder::sameOperands(const Record& record, ir::NodeId node) const {
  // The arguments of the two may stand in different orders.
  std::vector<ir::ValueId> recorded, written;
  ir::forEachUse(record, [&](const ir::Use& use) { recorded.push_back(use.value); });
  ir::forEachUse(graph_.node(node), [&](const ir::Use& use) { written.push_back(use.value); });
  std::sort(recorded.begin(), recorded.end());
  std::sort(written.begin(), written.end());
  return recorded == written;
}

void Recorder::beginForward(ir::NodeId node) {
  current_ = node;
  pending_.clear();
}

std::string Recorder::endForward(const std::vector<at::Tensor>& outputs) {
  const std::vector<ir::ValueId> wanted(graph_.node(current_).outputs.begin(), graph_.node(current_).outputs.end());
  for (std::size_t j = 0; j < wanted.size(); ++j) {
    if (wanted[j] == ir::kNone) continue;
    if (j >= outputs.size() || !outputs[j].defined()) return "output " + std::to_string(j) + " is not computed";
    const at::Tensor& tensor = outputs[j];
    ir::Value& value = graph_.value(wanted[j]);
    if (tensor.sizes() != at::IntArrayRef(value.local))
      return "output " + std::to_string(j) + " has another shape than planned";
    // The node's own calls first: an output may have the geometry of an operand (an alias, sp.vary).
    std::int32_t slot = -1;
    for (auto record = pending_.rbegin(); record != pending_.rend() && slot < 0; ++record)
      for (const std::int32_t candidate : record->outputs) {
        if (candidate < 0) continue;
        const Slot& made = slots_[static_cast<std::size_t>(candidate)];
        if (made.value != ir::kNone) continue;
        if (storageOf(made.tensor) == storageOf(tensor) && sameGeometry(made.tensor, tensor)) slot = candidate;
        if (slot >= 0) break;
      }
    if (slot >= 0) {
      slots_[static_cast<std::size_t>(slot)].value = wanted[j];
    } else {
      slot = find(tensor);
      if (slot < 0) return "output " + std::to_string(j) + " comes from nowhere";
    }
    by_impl_[tensor.unsafeGetTensorImpl()] = slot;
    kept_.push_back(tensor);
  }
  for (Record& record : pending_) {
    bool itself = record.op->symbol == graph_.node(current_).op && record.outputs.size() == wanted.size();
    for (std::size_t j = 0; itself && j < wanted.size(); ++j)
      itself = wanted[j] == ir::kNone ||
               (record.outputs[j] >= 0 && slots_[static_cast<std::size_t>(record.outputs[j])].value == wanted[j]);
    write(record, itself ? current_ : ir::kNone);
  }
  for (std::size_t j = 0; j < wanted.size(); ++j)
    if (wanted[j] != ir::kNone) replaced_[static_cast<std::size_t>(wanted[j])] = valueOf(outputs[j]);
  // Numbers that autograd drew after the last call belong to this node too.
  seen_sequence_ = at::sequence_number::peek();
  const ir::NodeId last = graph_.order.empty() ? ir::kNone : graph_.order.back();
  origins_.resize(seen_sequence_ - first_sequence_, {last, current_});
  pending_.clear();
  return {};
}

void Recorder::beginBackward(const at::Tensor& loss) {
  phase_ = ir::Phase::kBackward;
  const ir::ValueId value = valueOf(loss);
  const ir::NodeId producer = value == ir::kNone ? ir::kNone : graph_.value(value).producer;
  backward_ = {producer, current_};
  for (const Origin& origin : origins_)
    if (origin.joint == producer) backward_ = origin;
}

}  // namespace spscope::exec
