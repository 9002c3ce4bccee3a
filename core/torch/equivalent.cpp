// SPDX-License-Identifier: Apache-2.0
#include "core/torch/equivalent.h"

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>
#include <torch/csrc/jit/ir/constants.h>

#include <map>

#include "core/base/strings.h"

namespace spscope::exec {
namespace {

/// What TorchScript says of a source: its first line, and the line of the source that it points at.
std::string firstLines(const std::string& text) {
  std::string out;
  for (const std::string& line : split(text, '\n')) {
    if (line.empty()) continue;
    if (line.find("File \"") != std::string::npos) continue;
    out += (out.empty() ? "" : " | ") + line;
    if (out.size() > 200 || line.find("~~~") != std::string::npos) break;
  }
  return out;
}

/// Source as the file has it, without the indentation that all of its lines share.
std::string dedented(const std::string& source) {
  std::vector<std::string> lines = split(source, '\n');
  std::size_t least = std::string::npos;
  for (const std::string& line : lines)
    if (const std::size_t first = line.find_first_not_of(' '); first != std::string::npos) least = std::min(least, first);
  for (std::string& line : lines) line.erase(0, std::min(least, line.size()));
  return join(lines, "\n");
}

/// The name `torch` as Python has it: its functions, and the element types, which libtorch's own resolver does not know.
class TorchModule : public torch::jit::BuiltinModule {
 public:
  TorchModule() : BuiltinModule("aten") {}
  std::shared_ptr<torch::jit::SugaredValue> attr(const torch::jit::SourceRange& at, torch::jit::GraphFunction& function,
                                                 const std::string& field) override {
    static const std::map<std::string, c10::ScalarType> kTypes = {
        {"bool", c10::kBool},     {"uint8", c10::kByte},     {"int8", c10::kChar},     {"int16", c10::kShort},
        {"int32", c10::kInt},     {"int64", c10::kLong},     {"float16", c10::kHalf},  {"bfloat16", c10::kBFloat16},
        {"float32", c10::kFloat}, {"float64", c10::kDouble}, {"long", c10::kLong},     {"float", c10::kFloat},
        {"double", c10::kDouble}};
    const auto type = kTypes.find(field);
    if (type == kTypes.end()) return BuiltinModule::attr(at, function, field);
    return std::make_shared<torch::jit::SimpleValue>(
        torch::jit::insertConstant(*function.graph(), static_cast<std::int64_t>(type->second), at));
  }
};

struct Names : torch::jit::Resolver {
  std::shared_ptr<torch::jit::SugaredValue> resolveValue(const std::string& name, torch::jit::GraphFunction&,
                                                         const torch::jit::SourceRange&) override {
    return name == "torch" ? std::make_shared<TorchModule>() : nullptr;
  }
  c10::TypePtr resolveType(const std::string&, const torch::jit::SourceRange&) override { return nullptr; }
};

}  // namespace

Result<std::shared_ptr<const Equivalents>> Equivalents::compile(const ir::OpRulesRef& rules) {
  auto out = std::make_shared<Equivalents>();
  if (!rules) return std::shared_ptr<const Equivalents>(out);
  for (const ir::OpRule& rule : rules->rules) {
    if (rule.equivalent.empty()) continue;
    const auto fail = [&](const std::string& message) {
      Error e = makeError("rule-equivalent", "the equivalent of " + rule.shownName() + ": " + message, Outcome::kUsage);
      e.source = rule.place;
      return e;
    };
    try {
      auto unit = std::make_shared<torch::jit::CompilationUnit>();
      unit->define(std::nullopt, dedented(rule.equivalent), std::make_shared<Names>(), nullptr);
      const auto functions = unit->get_functions();
      if (functions.size() != 1) return fail(strf("%zu functions instead of one", functions.size()));
      out->functions_[rule.op] = functions.front();
      out->units_.push_back(std::move(unit));
    } catch (const c10::Error& e) {
      return fail(firstLines(e.what_without_backtrace()));
    } catch (const std::exception& e) {
      return fail(firstLines(e.what()));
    }
  }
  return std::shared_ptr<const Equivalents>(out);
}

torch::jit::Function* Equivalents::find(Symbol op) const {
  const auto it = functions_.find(op);
  return it == functions_.end() ? nullptr : it->second;
}

}  // namespace spscope::exec
