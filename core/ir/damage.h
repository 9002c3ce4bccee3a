// SPDX-License-Identifier: Apache-2.0
// The op that spoils one element on purpose (passes/faults): spscope.damage.default(self, element, bit) is `self`, contiguous, but for
// the element at row-major place `element` (modulo their number): bit `bit` of it flipped, or NaN where `bit` is -1. Joint graphs only,
// on the one rank that is hit; the other ranks have no such node.
#pragma once

#include "core/base/symbol.h"

namespace spscope::ir {

inline const Symbol kDamage{"spscope.damage.default"};

}  // namespace spscope::ir
