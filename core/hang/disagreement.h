// SPDX-License-Identifier: Apache-2.0
// Ranks that meet under one number and do not do the same: who differs, and whether it did something out of order, once
// too often, or not at all.
#pragma once

#include <optional>

#include "core/hang/verdict.h"

namespace spscope::hang {

/// The first number of the group at which ranks differ. Later ones follow from it.
std::optional<Verdict> firstDisagreement(const Group& group, const std::vector<Meeting>& meetings);

}  // namespace spscope::hang
