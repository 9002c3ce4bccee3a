// SPDX-License-Identifier: Apache-2.0
// The rule file of --rules: placement rules (core/ir/op_rule.h) for ops of other libraries, in TOML.
//
//   [[op]]
//   name = "mylib::fused_rope"                  # an overload: "mylib::fused_rope.out"
//   dims = "b s h d, s d, s d -> b s h d"       # tensor operands in the order of the op's arguments -> results
//   whole = ["d"]                               # must not be cut
//   ordered = []                                # must not be cut: the place along it enters the result
//   sum = []                                    # some result lacks it: what blocks give adds up
//   equivalent = """                            # how to compute it with ATen ops, with the op's argument names
//   def fused_rope(x, cos, sin):
//       a, b = torch.chunk(x, 2, -1)
//       return x * cos[:, None] + torch.cat([-b, a], -1) * sin[:, None]
//   """
#pragma once

#include "core/ir/op_rule.h"

namespace spscope::session {

/// Errors: those of opening a file, rule-syntax, rule-key, rule-value, rule-dims; each with line and column.
Result<ir::OpRulesRef> readRules(const std::string& path);
/// The same of a text; `path` is for messages.
Result<ir::OpRulesRef> parseRules(const std::string& path, const std::string& text);

}  // namespace spscope::session
