// SPDX-License-Identifier: Apache-2.0
// See op_call.h. What is subtle here are the conversions between what the export format writes and what a schema asks
// for: numbers for tensors, ints for floats, single ints for lists, codes for enumerations.
#include "core/torch/op_call.h"

#include <ATen/ScalarOps.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "core/base/strings.h"
#include "core/torch/dtype_convert.h"
#include "core/torch/equivalent.h"
#include "core/torch/schema_types.h"

namespace spscope::exec {
namespace {

using c10::IValue;
using c10::TypeKind;

bool isOptional(const c10::Type& type) { return type.kind() == TypeKind::OptionalType; }

/// Whether the kernels of `op` take an undefined tensor for `argument`, though its schema asks for a tensor. A schema does not say it: these
/// are gradients of attention, which autograd calls with results that the forward kernel does not make (lengths of documents where the batch
/// is dense) and with the mask that the forward call did not have. A recorded graph has no value for them.
bool mayBeUndefined(std::string_view op, std::string_view argument) {
  static const std::map<std::string_view, std::vector<std::string_view>> kUndefined{
      {"aten::_scaled_dot_product_flash_attention_backward", {"cum_seq_q", "cum_seq_k"}},
      {"aten::_scaled_dot_product_cudnn_attention_backward", {"attn_bias", "cum_seq_q", "cum_seq_k"}},
      {"aten::_scaled_dot_product_efficient_attention_backward", {"attn_bias"}},
      {"aten::_flash_attention_backward", {"cum_seq_q", "cum_seq_k"}},
      {"aten::_cudnn_attention_backward", {"attn_bias", "cum_seq_q", "cum_seq_k"}},
  };
  const auto entry = kUndefined.find(op);
  return entry != kUndefined.end() && std::ranges::find(entry->second, argument) != entry->second.end();
}

TypeKind elementKind(const c10::Type& list) {
  return unwrapped(*list.castRaw<c10::ListType>()->getElementType()).kind();
}

c10::MemoryFormat toMemoryFormat(ir::MemoryFormat format) {
  switch (format) {
    case ir::MemoryFormat::kContiguous: return c10::MemoryFormat::Contiguous;
    case ir::MemoryFormat::kChannelsLast: return c10::MemoryFormat::ChannelsLast;
    case ir::MemoryFormat::kChannelsLast3d: return c10::MemoryFormat::ChannelsLast3d;
    case ir::MemoryFormat::kPreserve: return c10::MemoryFormat::Preserve;
  }
  return c10::MemoryFormat::Preserve;
}

at::Tensor wrappedNumber(const c10::Scalar& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number);  // calls no op: a capture that runs does not see it
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

/// A number as the schema's type wants it; nullopt where it cannot be.
std::optional<IValue> convertNumber(const c10::Scalar& number, const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::TensorType: return IValue(wrappedNumber(number));
    case TypeKind::FloatType: return IValue(number.toDouble());
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      if (number.isFloatingPoint() && std::nearbyint(number.toDouble()) != number.toDouble()) return std::nullopt;
      return IValue(number.toLong());
    case TypeKind::BoolType: return IValue(number.toBool());
    case TypeKind::NumberType: return IValue(number);
    case TypeKind::ListType:
      switch (elementKind(type)) {
        case TypeKind::IntType:
        case TypeKind::SymIntType: return IValue(std::vector<std::int64_t>{number.toLong()});
        case TypeKind::FloatType: return IValue(std::vector<double>{number.toDouble()});
        default: return std::nullopt;
      }
    default: return std::nullopt;
  }
}

template <typename T>
std::optional<IValue> convertList(const std::vector<T>& list, const c10::Type& type) {
  if (type.kind() != TypeKind::ListType) return std::nullopt;
  switch (elementKind(type)) {
    case TypeKind::IntType:
    case TypeKind::SymIntType: return IValue(std::vector<std::int64_t>(list.begin(), list.end()));
    case TypeKind::FloatType: return IValue(std::vector<double>(list.begin(), list.end()));
    case TypeKind::BoolType: {
      c10::List<bool> bools;
      for (const T entry : list) bools.push_back(static_cast<bool>(entry));
      return IValue(bools);
    }
    case TypeKind::NumberType: {
      c10::List<c10::Scalar> scalars;
      for (const T entry : list) scalars.push_back(c10::Scalar(entry));
      return IValue(c10::impl::toList(std::move(scalars)));
    }
    default: return std::nullopt;
  }
}

struct Converter {
  const c10::Type& type;  ///< unwrapped
  c10::Device device;

  std::optional<IValue> operator()(std::monostate) const { return IValue(); }
  std::optional<IValue> operator()(const ir::Use&) const { return std::nullopt; }      // a slot, not a constant
  std::optional<IValue> operator()(const ir::UseList&) const { return std::nullopt; }  // a slot, not a constant
  std::optional<IValue> operator()(std::int64_t v) const { return convertNumber(v, type); }
  std::optional<IValue> operator()(double v) const { return convertNumber(v, type); }
  std::optional<IValue> operator()(bool v) const { return convertNumber(v, type); }
  std::optional<IValue> operator()(const std::string& v) const {
    if (type.kind() == TypeKind::StringType) return IValue(v);
    return std::nullopt;
  }
  std::optional<IValue> operator()(const std::vector<std::int64_t>& v) const { return convertList(v, type); }
  std::optional<IValue> operator()(const std::vector<double>& v) const { return convertList(v, type); }
  std::optional<IValue> operator()(const std::vector<bool>& v) const { return convertList(v, type); }
  std::optional<IValue> operator()(const std::vector<std::string>& v) const {
    if (type.kind() != TypeKind::ListType) return std::nullopt;
    return IValue(v);
  }
  std::optional<IValue> operator()(ir::DType v) const { return IValue(static_cast<std::int64_t>(toScalarType(v))); }
  std::optional<IValue> operator()(ir::MemoryFormat v) const {
    return IValue(static_cast<std::int64_t>(toMemoryFormat(v)));
  }
  std::optional<IValue> operator()(ir::Layout) const { return IValue(static_cast<std::int64_t>(c10::kStrided)); }
  std::optional<IValue> operator()(const ir::Device&) const { return IValue(device); }
};

Error errorAt(const PreparedOp& op, std::string_view code, std::string message, Outcome outcome = Outcome::kRefused) {
  Error error = makeError(code, std::move(message), outcome);
  error.node = "%" + op.node;
  error.source = op.source;
  return error;
}

/// First line of what libtorch said, without its C++ stack; of an equivalent what its op said, not that one failed.
std::string firstLine(const std::string& text) {
  constexpr std::string_view kInner = "RuntimeError: ";
  if (text.find("TorchScript interpreter") != std::string::npos)
    if (const std::size_t inner = text.rfind(kInner); inner != std::string::npos) return firstLine(text.substr(inner + kInner.size()));
  const std::size_t end = text.find('\n');
  return end == std::string::npos ? text : text.substr(0, end);
}

IValue listOf(const PreparedOp::Slot& slot, const at::Tensor* const* tensors) {
  std::size_t next = 0;
  if (slot.kind == PreparedOp::Slot::Kind::kTensorList) {
    c10::List<at::Tensor> list;
    list.reserve(slot.present.size());
    for (std::size_t i = 0; i < slot.present.size(); ++i) list.push_back(*tensors[next++]);
    return IValue(std::move(list));
  }
  c10::List<std::optional<at::Tensor>> list;
  list.reserve(slot.present.size());
  for (const bool present : slot.present)
    list.push_back(present ? std::optional<at::Tensor>(*tensors[next++]) : std::optional<at::Tensor>());
  return IValue(std::move(list));
}

/// The fused kernels divide by the numbers of heads and positions, and of query heads by key heads: where one is 0 the process
/// would end (SIGFPE). lower-attention takes another kernel there; a program that somebody else made may not.
bool dividesByZero(const PreparedOp& op, const std::vector<IValue>& stack) {
  if (op.query < 0) return false;
  const IValue &query = stack[static_cast<std::size_t>(op.query)], &key = stack[static_cast<std::size_t>(op.key)];
  if (!query.isTensor() || !key.isTensor() || query.toTensor().dim() != 4 || key.toTensor().dim() != 4) return false;
  const at::Tensor &q = query.toTensor(), &k = key.toTensor();
  return k.size(1) == 0 || q.size(1) < k.size(1) || q.size(2) == 0 || k.size(2) == 0;
}

/// Runs the boxed call; `tensorAt(i)` is operand i, `sink(tensor)` takes the outputs in order.
template <typename TensorAt, typename Sink>
Status run(const PreparedOp& op, TensorAt&& tensorAt, Sink&& sink) {
  // One stack per thread, kept between calls for its memory. Moved out while in use, so that an op which calls back
  // into this function finds an empty one.
  thread_local std::vector<IValue> cached;
  std::vector<IValue> stack = std::move(cached);
  stack.assign(op.stack.begin(), op.stack.end());
  for (const PreparedOp::Slot& slot : op.slots) {
    IValue& target = stack[static_cast<std::size_t>(slot.argument)];
    if (slot.kind == PreparedOp::Slot::Kind::kTensor) {
      target = IValue(tensorAt(slot.first));
    } else {
      std::vector<const at::Tensor*> tensors;
      std::int32_t next = slot.first;
      for (const bool present : slot.present)
        if (present) tensors.push_back(&tensorAt(next++));
      target = listOf(slot, tensors.data());
    }
  }
  if (dividesByZero(op, stack))
    return errorAt(op, "op-failed", op.opName() + ": attention without heads or positions, or with fewer query heads than key heads", Outcome::kRunFailed);
  try {
    if (op.function) {
      const torch::jit::GraphOptimizerEnabledGuard as_written(false);  // op by op: what is fused could not be recorded
      op.function->run(stack);
    } else {
      op.handle->callBoxed(&stack);
    }
  } catch (const c10::Error& e) {
    return errorAt(op, "op-failed", op.opName() + ": " + firstLine(e.what_without_backtrace()),
                   Outcome::kRunFailed);
  } catch (const std::exception& e) {
    return errorAt(op, "op-failed", op.opName() + ": " + firstLine(e.what()), Outcome::kRunFailed);
  }
  for (IValue& result : stack) {
    if (result.isTensor()) {
      sink(std::move(result).toTensor());
    } else if (result.isTensorList()) {
      for (const at::Tensor& tensor : result.toTensorVector()) sink(at::Tensor(tensor));
    } else if (result.isTuple()) {
      for (const IValue& entry : result.toTupleRef().elements()) sink(entry.isTensor() ? entry.toTensor() : at::Tensor());
    } else {
      sink(at::Tensor());
    }
  }
  stack.clear();
  cached = std::move(stack);
  return {};
}

}  // namespace

std::pair<std::string, std::string> dispatcherName(Symbol op) {
  const std::string& text = op.str();
  const std::size_t first = text.find('.');
  const std::size_t last = text.rfind('.');
  if (first == std::string::npos || first == 0) return {};
  if (first == last) return {text.substr(0, first) + "::" + text.substr(first + 1), ""};
  std::string overload = text.substr(last + 1);
  if (overload == "default") overload.clear();
  return {text.substr(0, first) + "::" + text.substr(first + 1, last - first - 1), overload};
}

Symbol symbolOf(const c10::OperatorName& name) {
  std::string text = name.name;
  const std::size_t colons = text.find("::");
  if (colons != std::string::npos) text.replace(colons, 2, ".");
  return Symbol(text + "." + (name.overload_name.empty() ? std::string("default") : name.overload_name));
}

Result<PreparedOp> prepare(const ir::Node& node, c10::Device device, const Equivalents* equivalents) {
  static const Symbol kView{"aten.view.default"};
  static const Symbol kReshape{"aten.reshape.default"};
  const bool is_view = node.op == kView;
  const auto [name, overload] = dispatcherName(is_view ? kReshape : node.op);
  const auto fail = [&](std::string_view code, std::string message) {
    Error error = makeError(code, std::move(message));
    error.node = "%" + node.name;
    if (node.location) error.source = node.location->source;
    return error;
  };
  std::optional<c10::OperatorHandle> handle;
  torch::jit::Function* function = equivalents ? equivalents->find(node.op) : nullptr;
  if (!name.empty() && !function) handle = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!handle && !function) return fail("op-unknown", "libtorch has no op " + node.op.str());

  const c10::FunctionSchema& schema = function ? function->getSchema() : handle->schema();
  PreparedOp op{handle, function, {}, {}, {}, {}, node.name, node.location ? node.location->source : std::string(), -1, -1};
  op.outputs.assign(node.outputs.begin(), node.outputs.end());
  if (name.find("scaled_dot_product_flash") != std::string::npos || name.find("scaled_dot_product_efficient") != std::string::npos) {
    op.query = schema.argumentIndexWithName("query").value_or(-1);
    op.key = schema.argumentIndexWithName("key").value_or(-1);
  }

  // Operands are numbered in the order of forEachUse, that is of the node's arguments; the stack is in schema order.
  std::vector<std::int32_t> first_operand;
  for (const ir::Argument& argument : node.args) {
    first_operand.push_back(static_cast<std::int32_t>(op.operands.size()));
    if (const auto* use = std::get_if<ir::Use>(&argument.value)) {
      if (use->value != ir::kNone) op.operands.push_back(use->value);
    } else if (const auto* list = std::get_if<ir::UseList>(&argument.value)) {
      for (const ir::Use& entry : *list)
        if (entry.value != ir::kNone) op.operands.push_back(entry.value);
    }
  }

  std::size_t used = 0;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& wanted = schema.arguments()[i];
    const c10::Type& full = *wanted.type();
    const c10::Type& type = unwrapped(full);
    std::size_t at = 0;
    const std::string& wanted_name = wanted.name();
    for (; at < node.args.size(); ++at) {
      const std::string& given = node.args[at].name.str();
      if (given == wanted_name || (is_view && wanted_name == "shape" && given == "size")) break;
    }
    const bool given = at < node.args.size();
    used += given;

    const auto* given_use = given ? std::get_if<ir::Use>(&node.args[at].value) : nullptr;
    const bool none = !given || std::holds_alternative<std::monostate>(node.args[at].value) || (given_use && given_use->value == ir::kNone);

    if (type.kind() == TypeKind::DeviceObjType) {
      // None means "like the operand", or for an op without operands the default device, which is not ours.
      op.stack.push_back(none && !op.operands.empty() ? IValue() : IValue(device));
      continue;
    }
    if (none && full.kind() == TypeKind::TensorType && !wanted.default_value()) {
      if (!mayBeUndefined(name, wanted_name)) return fail("op-argument", node.op.str() + " needs the argument " + wanted_name);
      op.stack.emplace_back(at::Tensor());
      continue;
    }
    if (!given) {
      if (wanted.default_value()) {
        op.stack.push_back(*wanted.default_value());
      } else if (isOptional(full)) {
        op.stack.emplace_back();
      } else {
        return fail("op-argument", node.op.str() + " needs the argument " + wanted_name);
      }
      continue;
    }
    const ir::Attribute& value = node.args[at].value;
    if (const auto* use = std::get_if<ir::Use>(&value)) {
      if (use->value == ir::kNone) {
        op.stack.emplace_back();
        continue;
      }
      PreparedOp::Slot slot;
      slot.argument = static_cast<std::int32_t>(i);
      slot.first = first_operand[at];
      if (type.kind() == TypeKind::ListType) {  // one tensor for a list of them
        slot.kind = PreparedOp::Slot::Kind::kTensorList;
        slot.present = {true};
      } else if (type.kind() != TypeKind::TensorType) {
        return fail("op-argument", node.op.str() + ": a tensor is given for " + wanted_name);
      }
      op.slots.push_back(std::move(slot));
      op.stack.emplace_back();
    } else if (const auto* list = std::get_if<ir::UseList>(&value)) {
      if (type.kind() != TypeKind::ListType || elementKind(type) != TypeKind::TensorType)
        return fail("op-argument", node.op.str() + ": a list of tensors is given for " + wanted_name);
      PreparedOp::Slot slot;
      slot.argument = static_cast<std::int32_t>(i);
      slot.first = first_operand[at];
      slot.kind = isOptional(*type.castRaw<c10::ListType>()->getElementType())
                      ? PreparedOp::Slot::Kind::kOptionalTensorList
                      : PreparedOp::Slot::Kind::kTensorList;
      for (const ir::Use& entry : *list) slot.present.push_back(entry.value != ir::kNone);
      if (slot.kind == PreparedOp::Slot::Kind::kTensorList)
        for (const bool present : slot.present)
          if (!present) return fail("op-argument", node.op.str() + ": None in the list " + wanted_name);
      op.slots.push_back(std::move(slot));
      op.stack.emplace_back();
    } else {
      std::optional<IValue> constant;
      // An empty list fits any kind of list, whatever the file called its elements.
      const auto* ints = std::get_if<std::vector<std::int64_t>>(&value);
      if (ints && ints->empty() && type.kind() == TypeKind::ListType && elementKind(type) == TypeKind::TensorType)
        constant = IValue(c10::List<at::Tensor>());
      else
        constant = std::visit(Converter{type, device}, value);
      if (!constant)
        return fail("op-argument", node.op.str() + ": the argument " + wanted_name + " does not fit " + full.str());
      op.stack.push_back(std::move(*constant));
    }
  }
  if (used != node.args.size())
    for (const ir::Argument& argument : node.args) {
      const auto known = schema.argumentIndexWithName(is_view && argument.name.str() == "size" ? "shape" : argument.name.str());
      if (!known) return fail("op-argument", node.op.str() + " has no argument " + argument.name.str());
    }
  return op;
}

Status call(const PreparedOp& op, std::span<const at::Tensor> operands, std::vector<at::Tensor>& outputs) {
  outputs.clear();
  return run(
      op, [&](std::int32_t i) -> const at::Tensor& { return operands[static_cast<std::size_t>(i)]; },
      [&](at::Tensor tensor) { outputs.push_back(std::move(tensor)); });
}

Status callInPlace(const PreparedOp& op, std::span<at::Tensor> values) {
  std::size_t next = 0;
  return run(
      op,
      [&](std::int32_t i) -> const at::Tensor& {
        return values[static_cast<std::size_t>(op.operands[static_cast<std::size_t>(i)])];
      },
      [&](at::Tensor tensor) {
        if (next < op.outputs.size() && op.outputs[next] != ir::kNone)
          values[static_cast<std::size_t>(op.outputs[next])] = std::move(tensor);
        ++next;
      });
}

}  // namespace spscope::exec
