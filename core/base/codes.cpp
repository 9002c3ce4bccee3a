// SPDX-License-Identifier: Apache-2.0
// One row per code, sorted by code. docs/errors.md is this table; a test compares them.
#include "core/base/codes.h"

#include <algorithm>

namespace spscope {

const std::vector<CodeInfo>& allCodes() {
  static const std::vector<CodeInfo> codes = [] {
    std::vector<CodeInfo> rows = {
        // --- general
        {"cancelled", "The request was cancelled before it finished.", "Start it again; nothing was changed."},
        {"internal", "A fault of SPScope itself: an invariant does not hold.",
         "Please report it with the reproducer file named in the message."},
        {"usage", "The command line is not understood.", "See spscope COMMAND --help."},
        // --- pipeline
        {"no-attention", "The graph holds no attention op, fused or eager; decomposed exports lose it.",
         "Export without run_decompositions(), or with scaled_dot_product_attention taken out of its table."},
        {"nothing-sharded", "No value could be sharded: every rank would compute everything.",
         "Name what is the sequence with --sequence NAME:DIM."},
    };
    std::sort(rows.begin(), rows.end(), [](const CodeInfo& a, const CodeInfo& b) { return a.code < b.code; });
    return rows;
  }();
  return codes;
}

const CodeInfo* findCode(std::string_view code) {
  const auto& codes = allCodes();
  const auto it = std::lower_bound(codes.begin(), codes.end(), code,
                                   [](const CodeInfo& row, std::string_view c) { return row.code < c; });
  return it != codes.end() && it->code == code ? &*it : nullptr;
}

}  // namespace spscope
