// SPDX-License-Identifier: Apache-2.0
#include "core/ir/op_traits.h"

#include "core/ir/graph.h"

namespace spscope::ir {

bool isMutating(Symbol op) {
  const std::string_view base = baseName(op);
  const std::string_view overload = std::string_view(op.str()).substr(op.str().rfind('.') + 1);
  if (overload == "out" || (overload.size() > 4 && overload.substr(overload.size() - 4) == "_out")) return true;
  if (base.size() < 2 || base.back() != '_') return false;
  if (base.substr(base.size() - 2) != "__") return true;
  // Of the dunder operators __and__ is functional and __iand__ is not.
  return base == "__iand__" || base == "__ior__" || base == "__ixor__" || base == "__ilshift__" || base == "__irshift__";
}

bool readsOnlyMetadata(Symbol op, Symbol argument) {
  static const Symbol kSelf("self"), kOther("other");
  const std::string_view base = baseName(op);
  if (argument == kSelf)
    return base == "zeros_like" || base == "ones_like" || base == "empty_like" || base == "full_like" ||
           base == "rand_like" || base == "randn_like" || base == "keep_at" || base == "uniform_at" || base == "new_zeros" || base == "new_ones" ||
           base == "new_empty" || base == "new_full" || base == "new_empty_strided" || base == "sym_size" ||
           base == "sym_numel";
  if (argument == kOther)
    return base == "type_as" || base == "expand_as" || base == "view_as" || base == "reshape_as" ||
           op.str() == "aten.to.other";
  return false;
}

}  // namespace spscope::ir
