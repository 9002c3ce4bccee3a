// SPDX-License-Identifier: Apache-2.0
// Facts about ops by name that several rooms need.
#pragma once

#include "core/base/symbol.h"

namespace spscope::ir {

/// Writes into an operand: "add_", "index_put_", "__iand__", "add.out"; not "__and__".
bool isMutating(Symbol op);

/// The op reads only type and shape of that operand, never its elements ("zeros_like" self, "type_as" other): a sharded
/// or partial operand there does no harm to a replicated result.
bool readsOnlyMetadata(Symbol op, Symbol argument);

}  // namespace spscope::ir
