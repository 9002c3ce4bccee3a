// SPDX-License-Identifier: Apache-2.0
// Tests of passes as text: a file of cases, each a graph in and what must stand in the graph that comes out.
//
//   // RUN: lower-attention sp=2 rank=1 device=cpu      first line of the file: the pass and its settings; a case may
//                                                       have its own. Settings: sp, dp, zero, rank, device, save,
//                                                       tile=on,
//                                                       mark=NAME:DIM, ignore=CODE (a remark that need not be expected)
//   // One sentence that says what is checked.          the first comment of a case names it
//   graph "t" local mesh(sp=2) rank=1 { ... }           (the version line is added)
//   // CHECK: text                                      stands in the printed result, after the match before;
//                                                       {{.*}} stands for anything within the line
//   // CHECK-NOT: text                                  stands nowhere in it
//   // CHECK-COUNT-3: text                              stands in it exactly so often
//   // CHECK-UNCHANGED                                  the pass says that it changed nothing
//   // expected-error: code                             the pass refuses with this code
//   // expected-remark: code                            it makes a remark or warning of this code (others fail the case)
//   // -----                                            next case
//
// Every case also goes through the manager (honesty, verifier before and after) and print - parse - print,
// before and after the pass.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace spscope::test {

struct PassCase {
  std::string run;    ///< "lower-attention sp=2 rank=1"
  std::string title;  ///< its first comment
  std::string graph;  ///< with version line
  struct Check {
    enum Kind { kFound, kNot, kCount, kUnchanged, kError, kRemark } kind;
    std::string text;
    int count = 0;
  };
  std::vector<Check> checks;
};

/// The cases of a file's text. Error: text-syntax, for unknown directives and cases that check nothing.
Result<std::vector<PassCase>> parsePassCases(std::string_view text, const std::string& file);

/// Runs the case; all that is wrong, one line each, or "" where nothing is.
std::string runPassCase(const PassCase& test, const std::string& file);

/// Offset behind the first match of `pattern` in `text` from `start` on, npos where there is none.
std::size_t matchPattern(std::string_view text, std::string_view pattern, std::size_t start);

}  // namespace spscope::test
