// SPDX-License-Identifier: Apache-2.0
// Python arithmetic on sizes (`_operator.mul`, `torch.sym_max`), which the exporter leaves in the graph as nodes. With
// concrete sizes these are numbers, and the nodes go.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

namespace spscope::io {

using Scalar = std::variant<std::int64_t, double, bool>;

/// nullopt: an operator that we do not know, a division by zero, an overflow. `target` is the exporter's name.
std::optional<Scalar> evaluateScalar(std::string_view target, const std::vector<Scalar>& operands);
/// True for targets that compute on Python numbers only.
bool isScalarTarget(std::string_view target);

}  // namespace spscope::io
