// SPDX-License-Identifier: Apache-2.0
#include "core/io/pickle.h"

#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "core/io/plain_data.h"

namespace spscope::io {
namespace {

enum class Kind : std::uint8_t { kNone, kBool, kInt, kOther, kText, kSequence, kDict, kName, kStorage, kTensor };

/// What a GLOBAL may name. Everything else is refused where it stands.
enum class Name : std::uint8_t {
  kOrderedDict, kTensorV2, kTensorV3, kParameter, kParameterWithState, kMetaTensor, kStorageType, kDType,
};
struct Known {
  std::string_view module, name;
  Name meaning;
  ir::DType dtype = ir::DType::kUnknown;
};
constexpr Known kKnown[] = {
    {"collections", "OrderedDict", Name::kOrderedDict},
    {"torch._utils", "_rebuild_tensor_v2", Name::kTensorV2},
    {"torch._utils", "_rebuild_tensor_v3", Name::kTensorV3},
    {"torch._utils", "_rebuild_parameter", Name::kParameter},
    {"torch._utils", "_rebuild_parameter_with_state", Name::kParameterWithState},
    {"torch._utils", "_rebuild_meta_tensor_no_storage", Name::kMetaTensor},
    {"torch.storage", "UntypedStorage", Name::kStorageType},  // its elements' type comes with _rebuild_tensor_v3
    {"torch", "FloatStorage", Name::kStorageType, ir::DType::kF32},
    {"torch", "DoubleStorage", Name::kStorageType, ir::DType::kF64},
    {"torch", "HalfStorage", Name::kStorageType, ir::DType::kF16},
    {"torch", "BFloat16Storage", Name::kStorageType, ir::DType::kBF16},
    {"torch", "LongStorage", Name::kStorageType, ir::DType::kI64},
    {"torch", "IntStorage", Name::kStorageType, ir::DType::kI32},
    {"torch", "ShortStorage", Name::kStorageType, ir::DType::kI16},
    {"torch", "CharStorage", Name::kStorageType, ir::DType::kI8},
    {"torch", "ByteStorage", Name::kStorageType, ir::DType::kU8},
    {"torch", "BoolStorage", Name::kStorageType, ir::DType::kBool},
    {"torch", "ComplexFloatStorage", Name::kStorageType, ir::DType::kC64},
    {"torch", "ComplexDoubleStorage", Name::kStorageType, ir::DType::kC128},
};

constexpr std::uint32_t kNobody = UINT32_MAX;

/// Values live in one list and name each other by index: however deep they nest, nothing recurses.
struct Item {
  Kind kind = Kind::kNone;
  Name name = Name::kOrderedDict;            // kName
  ir::DType dtype = ir::DType::kUnknown;     // kName (type of a storage, dtype), kStorage
  std::int64_t number = 0;                   // kBool, kInt
  std::string_view text;                     // kText; kStorage: its key
  std::vector<std::uint32_t> items;          // kSequence; kDict: key, value, key, value ...
  std::uint32_t tensor = kNobody;            // kTensor: index into tensors_
};

class Reader {
 public:
  /// `plain`: nothing may be named, not even tensors, and what newer protocols write for plain data is understood.
  Reader(std::span<const std::byte> bytes, const std::string& what, bool plain) : bytes_(bytes), what_(what), plain_(plain) {}

  Result<PickledTensors> readTensors() {
    SP_TRY(run());
    return finish();
  }
  Result<PlainData> readPlain() {
    SP_TRY(run());
    if (stack_.size() != 1) return corrupt("it leaves more or less than one value");
    PlainData out;
    out.root = stack_.front();
    out.items.reserve(items_.size());
    for (Item& item : items_) {
      using To = PlainItem::Kind;
      PlainItem& to = out.items.emplace_back();
      switch (item.kind) {
        case Kind::kBool: to.kind = To::kBool; break;
        case Kind::kInt: to.kind = To::kInt; break;
        case Kind::kOther: to.kind = To::kReal; break;
        case Kind::kText: to.kind = To::kText; break;
        case Kind::kSequence: to.kind = To::kList; break;
        case Kind::kDict: to.kind = To::kDict; break;
        default: break;
      }
      to.number = item.number;
      to.text = item.text;
      to.items = std::move(item.items);
    }
    return out;
  }

 private:
  Status run() {
    for (;;) {
      std::uint8_t op = 0;
      if (!number(&op)) return corrupt("it ends without STOP");
      if (op == '.') return {};
      SP_TRY(step(op));
    }
  }

  Error corrupt(const std::string& why) const {
    Error error = makeError("pickle-corrupt", what_ + ": " + why);
    error.source = what_ + "+" + std::to_string(at_);
    return error;
  }
  Error foreign(const std::string& name) const {
    Error error = plain_ ? makeError("pickle-not-plain", what_ + " names " + name + "; only plain data is read, and nothing that it asks for is executed")
                         : makeError("weight-pickled", what_ + " names " + name + "; from a pickle only plain tensors are read, "
                                              "and nothing that it asks for is executed");
    error.source = what_ + "+" + std::to_string(at_);
    return error;
  }

  // --- bytes ---
  template <typename T>
  bool number(T* out) {
    if (bytes_.size() - at_ < sizeof(T)) return false;
    std::memcpy(out, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }
  bool text(std::uint64_t n, std::string_view* out) {
    if (bytes_.size() - at_ < n) return false;
    *out = {reinterpret_cast<const char*>(bytes_.data()) + at_, static_cast<std::size_t>(n)};
    at_ += n;
    return true;
  }
  bool line(std::string_view* out) {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_, bytes_.size() - at_);
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) return false;
    *out = rest.substr(0, end);
    at_ += end + 1;
    return true;
  }

  // --- the stack ---
  Item& push(Kind kind) {
    stack_.push_back(static_cast<std::uint32_t>(items_.size()));
    Item& item = items_.emplace_back();
    item.kind = kind;
    return item;
  }
  /// Index of the top value, which is taken off; kNobody where the stack is empty (or a mark is in the way).
  std::uint32_t pop() {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor) return kNobody;
    const std::uint32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }
  bool popToMark(std::vector<std::uint32_t>* out) {
    if (marks_.empty()) return false;
    out->assign(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return true;
  }
  Item* top(Kind kind) {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor || items_[stack_.back()].kind != kind) return nullptr;
    return &items_[stack_.back()];
  }
  Status tuple(std::size_t n) {
    std::vector<std::uint32_t> parts(n);
    for (std::size_t i = n; i-- > 0;)
      if ((parts[i] = pop()) == kNobody) return corrupt("a tuple of more values than there are");
    push(Kind::kSequence).items = std::move(parts);
    return {};
  }

  Status step(std::uint8_t op) {
    std::uint8_t n8 = 0;
    std::uint16_t n16 = 0;
    std::uint32_t n32 = 0;
    std::int32_t i32 = 0;
    std::uint64_t n64 = 0;
    std::string_view s;
    std::vector<std::uint32_t> parts;
    const auto cut = [&] { return corrupt("it ends within a value"); };
    const auto integer = [&](std::int64_t v) { push(Kind::kInt).number = v; };
    const auto word = [&] { push(Kind::kText).text = s; };
    if (plain_) switch (op) {
      case 0x80: return number(&n8) && n8 <= 5 ? Status() : Status(corrupt("a protocol that is not known"));
      case 0x95: return number(&n64) ? Status() : Status(cut());  // a frame's length: only speeds up reading from files
      case 0x94: return put(static_cast<std::uint32_t>(memo_.size()));
      case 0x8c: if (!number(&n8) || !text(n8, &s)) return cut(); word(); return {};
      case 'Q':
      case 'R':
      case 'b': return foreign("an object");
      case 0x93: return foreign("a function or a class");
      default: break;
    }
    switch (op) {
      case 0x80: return number(&n8) && n8 <= 2 ? Status() : Status(corrupt("a protocol that torch.save does not use"));
      case '(': marks_.push_back(stack_.size()); return {};
      case '}': push(Kind::kDict); return {};
      case ']':
      case ')': push(Kind::kSequence); return {};
      case 'N': push(Kind::kNone); return {};
      case 0x88:
      case 0x89: push(Kind::kBool).number = op == 0x88; return {};
      case 'K': if (!number(&n8)) return cut(); integer(n8); return {};
      case 'M': if (!number(&n16)) return cut(); integer(n16); return {};
      case 'J': if (!number(&i32)) return cut(); integer(i32); return {};
      case 0x8a: return longInteger();
      case 'G': if (!number(&n64)) return cut(); push(Kind::kOther); return {};
      case 'X': if (!number(&n32) || !text(n32, &s)) return cut(); word(); return {};
      case 'U': if (!number(&n8) || !text(n8, &s)) return cut(); word(); return {};
      case 'q': if (!number(&n8)) return cut(); return put(n8);
      case 'r': if (!number(&n32)) return cut(); return put(n32);
      case 'h': if (!number(&n8)) return cut(); return get(n8);
      case 'j': if (!number(&n32)) return cut(); return get(n32);
      case 0x85: return tuple(1);
      case 0x86: return tuple(2);
      case 0x87: return tuple(3);
      case 't':
        if (!popToMark(&parts)) return corrupt("a tuple without a start");
        push(Kind::kSequence).items = std::move(parts);
        return {};
      case 'a': parts.push_back(pop()); return extend(Kind::kSequence, parts);
      case 'e': return popToMark(&parts) ? extend(Kind::kSequence, parts) : Status(corrupt("a list without a start"));
      case 's': {
        const std::uint32_t value = pop(), key = pop();
        return extend(Kind::kDict, {key, value});
      }
      case 'u': return popToMark(&parts) ? extend(Kind::kDict, parts) : Status(corrupt("a dictionary without a start"));
      case 'c': return global();
      case 'Q': return persistent();
      case 'R': return call();
      case 'b':  // attributes of a state dict (its _metadata): no tensor is in them
        if (pop() == kNobody || !top(Kind::kDict)) return foreign("an object with a state of its own");
        return {};
      default: return corrupt(strf("opcode 0x%02x is none of %s", op, plain_ ? "plain data" : "a dictionary of tensors"));
    }
  }

  Status longInteger() {
    std::uint8_t n = 0;
    std::string_view digits;
    if (!number(&n) || !text(n, &digits)) return corrupt("it ends within a value");
    if (n > 8) return corrupt("an integer of more than 64 bits");
    std::uint64_t v = 0;
    if (n > 0 && (digits[n - 1] & '\x80')) v = ~std::uint64_t{0};
    for (std::size_t i = n; i-- > 0;) v = v << 8 | static_cast<unsigned char>(digits[i]);
    push(Kind::kInt).number = static_cast<std::int64_t>(v);
    return {};
  }
  Status put(std::uint32_t slot) {
    if (stack_.empty()) return corrupt("it remembers a value where there is none");
    memo_[slot] = stack_.back();
    return {};
  }
  Status get(std::uint32_t slot) {
    const auto it = memo_.find(slot);
    if (it == memo_.end()) return corrupt("it recalls a value that it never had");
    stack_.push_back(it->second);
    return {};
  }
  Status extend(Kind kind, const std::vector<std::uint32_t>& parts) {
    for (const std::uint32_t p : parts)
      if (p == kNobody) return corrupt("it adds a value where there is none");
    Item* const target = top(kind);
    if (!target || (kind == Kind::kDict && parts.size() % 2 != 0)) return corrupt("it adds to what is no list or dictionary");
    target->items.insert(target->items.end(), parts.begin(), parts.end());
    return {};
  }

  Status global() {
    std::string_view module, name;
    if (!line(&module) || !line(&name)) return corrupt("it ends within a name");
    if (!plain_) for (const Known& k : kKnown) {
      if (k.module != module || k.name != name) continue;
      Item& item = push(Kind::kName);
      item.name = k.meaning;
      item.dtype = k.dtype;
      return {};
    }
    if (module == "torch" && !plain_) {
      if (const auto dtype = ir::parseDType(name); dtype && ir::longName(*dtype) == name) {
        Item& item = push(Kind::kName);
        item.name = Name::kDType;
        item.dtype = *dtype;
        return {};
      }
    }
    return foreign(std::string(module.substr(0, 60)) + "." + std::string(name.substr(0, 60)));
  }

  /// ('storage', torch.FloatStorage, '0', 'cpu', 128)
  Status persistent() {
    const std::uint32_t id = pop();
    const auto* parts = id == kNobody ? nullptr : sequence(id);
    if (!parts || parts->size() != 5) return corrupt("a reference to something that is no storage");
    const Item &tag = items_[(*parts)[0]], &type = items_[(*parts)[1]], &key = items_[(*parts)[2]];
    if (tag.kind != Kind::kText || tag.text != "storage" || type.kind != Kind::kName || type.name != Name::kStorageType ||
        key.kind != Kind::kText || key.text.empty())
      return corrupt("a reference to something that is no storage");
    const ir::DType dtype = type.dtype;
    const std::string_view text = key.text;
    Item& storage = push(Kind::kStorage);
    storage.dtype = dtype;
    storage.text = text;
    return {};
  }

  Status call() {
    const std::uint32_t arguments = pop(), callee = pop();
    if (arguments == kNobody || callee == kNobody || items_[callee].kind != Kind::kName || !sequence(arguments))
      return corrupt("it calls what is no function");
    const std::vector<std::uint32_t> args = *sequence(arguments);
    const std::size_t n = args.size();
    switch (items_[callee].name) {
      case Name::kOrderedDict:
        if (n != 0) return corrupt("an OrderedDict of unusual arguments");
        push(Kind::kDict);
        return {};
      case Name::kTensorV2:
        if (n != 6 && n != 7) break;
        return tensor(args[0], kNobody, args[1], args[2], args[3], args[4]);
      case Name::kTensorV3:
        if (n != 7 && n != 8) break;
        return tensor(args[0], args[6], args[1], args[2], args[3], args[4]);
      case Name::kMetaTensor:
        if (n != 4) break;
        return tensor(kNobody, args[0], kNobody, args[1], args[2], args[3]);
      case Name::kParameter:
      case Name::kParameterWithState: {
        if (n < 3 || n > 4 || items_[args[0]].kind != Kind::kTensor || items_[args[1]].kind != Kind::kBool) break;
        PickledTensor parameter = tensors_[items_[args[0]].tensor];
        parameter.is_parameter = true;
        parameter.meta.requires_grad = items_[args[1]].number != 0;
        push(Kind::kTensor).tensor = static_cast<std::uint32_t>(tensors_.size());
        tensors_.push_back(std::move(parameter));
        return {};
      }
      default: break;
    }
    return corrupt("it builds a tensor from unusual arguments");
  }

  Status tensor(std::uint32_t storage, std::uint32_t dtype, std::uint32_t offset, std::uint32_t sizes,
                std::uint32_t strides, std::uint32_t grad) {
    const auto unusual = [&] { return corrupt("it builds a tensor from unusual arguments"); };
    PickledTensor out;
    if (storage != kNobody) {
      if (items_[storage].kind != Kind::kStorage) return unusual();
      out.storage = items_[storage].text;
      out.meta.dtype = items_[storage].dtype;
    }
    if (dtype != kNobody) {
      if (items_[dtype].kind != Kind::kName || items_[dtype].name != Name::kDType) return unusual();
      out.meta.dtype = items_[dtype].dtype;
    }
    if (offset != kNobody) {
      if (items_[offset].kind != Kind::kInt) return unusual();
      out.meta.offset = items_[offset].number;
    }
    if (out.meta.dtype == ir::DType::kUnknown || out.meta.offset < 0 || !integers(sizes, &out.meta.sizes) ||
        !integers(strides, &out.meta.strides) || out.meta.sizes.size() != out.meta.strides.size() ||
        items_[grad].kind != Kind::kBool)
      return unusual();
    if (!isPossible(out.meta.sizes)) return corrupt("a tensor that is impossibly large");
    out.meta.requires_grad = items_[grad].number != 0;
    push(Kind::kTensor).tensor = static_cast<std::uint32_t>(tensors_.size());
    tensors_.push_back(std::move(out));
    return {};
  }

  const std::vector<std::uint32_t>* sequence(std::uint32_t item) const {
    return items_[item].kind == Kind::kSequence ? &items_[item].items : nullptr;
  }
  bool integers(std::uint32_t item, ir::Dims* out) const {
    const auto* parts = sequence(item);
    if (!parts) return false;
    for (const std::uint32_t p : *parts) {
      if (items_[p].kind != Kind::kInt || items_[p].number < 0) return false;
      out->push_back(items_[p].number);
    }
    return true;
  }

  Result<PickledTensors> finish() {
    const Item* const dict = stack_.size() == 1 ? top(Kind::kDict) : nullptr;
    if (!dict) return corrupt("it is no dictionary of tensors");
    PickledTensors out;
    for (std::size_t i = 0; i + 1 < dict->items.size(); i += 2) {
      const Item &key = items_[dict->items[i]], &value = items_[dict->items[i + 1]];
      if (key.kind != Kind::kText) return corrupt("a tensor's name is no text");
      if (value.kind == Kind::kTensor) out.insert_or_assign(std::string(key.text), tensors_[value.tensor]);
    }
    return out;
  }

  std::span<const std::byte> bytes_;
  const std::string& what_;
  const bool plain_;
  std::size_t at_ = 0;
  std::vector<Item> items_;
  std::vector<PickledTensor> tensors_;
  std::vector<std::uint32_t> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, std::uint32_t> memo_;
};

}  // namespace

Result<PickledTensors> readTensorPickle(std::span<const std::byte> pickle, const std::string& what) {
  return Reader(pickle, what, false).readTensors();
}

Result<PlainData> readPlainPickle(std::span<const std::byte> pickle, const std::string& what) {
  return Reader(pickle, what, true).readPlain();
}

}  // namespace spscope::io
