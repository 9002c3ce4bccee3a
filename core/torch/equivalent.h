// SPDX-License-Identifier: Apache-2.0
// Ops of other libraries as functions of ATen ops: the `equivalent` of a rule file, compiled by libtorch's TorchScript. A
// function runs op by op through the dispatcher, so it is captured, differentiated and measured like any other op. Only for
// core/torch (it includes ATen).
#pragma once

#include <ATen/core/function.h>

#include <memory>
#include <unordered_map>

#include "core/base/result.h"
#include "core/ir/op_rule.h"

namespace torch::jit {
struct CompilationUnit;
}

namespace spscope::exec {

class Equivalents {
 public:
  /// Compiles those that `rules` (may be null) has. Errors: rule-equivalent, with the rule's place.
  static Result<std::shared_ptr<const Equivalents>> compile(const ir::OpRulesRef& rules);
  /// Owned by this object; nullptr where the op has none.
  torch::jit::Function* find(Symbol op) const;

 private:
  std::vector<std::shared_ptr<torch::jit::CompilationUnit>> units_;
  std::unordered_map<Symbol, torch::jit::Function*> functions_;
};

}  // namespace spscope::exec
