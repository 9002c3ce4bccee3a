// SPDX-License-Identifier: Apache-2.0
// The catalogue of error and warning codes: meaning, remedy, example. `spscope explain` and docs/errors.md print it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace spscope {

struct CodeInfo {
  std::string_view code;
  std::string_view meaning;
  std::string_view remedy;
  std::string_view example = {};  ///< a message as it may stand behind "error[code]: "
};

/// All codes, sorted by code.
const std::vector<CodeInfo>& allCodes();
/// nullptr when there is no such code.
const CodeInfo* findCode(std::string_view code);
/// The text of docs/errors.md.
std::string codesMarkdown();

}  // namespace spscope
