// SPDX-License-Identifier: Apache-2.0
// Types in the schema of an op. Only for files that include libtorch anyway.
#pragma once

#include <ATen/core/jit_type.h>

namespace spscope::exec {

/// The type inside `T?`; other types as they are.
inline const c10::Type& unwrapped(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::OptionalType) return *type.castRaw<c10::OptionalType>()->getElementType();
  return type;
}

}  // namespace spscope::exec
