// SPDX-License-Identifier: Apache-2.0
// What the TOML files of the session share: an error at a place of the file. Only for sources that read TOML.
#pragma once

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <string>

#include "core/base/error.h"
#include "core/base/strings.h"

namespace spscope::session {

inline Error errorAtToml(std::string_view code, std::string message, const std::string& path, const toml::source_region& where) {
  Error e = makeError(code, std::move(message), Outcome::kUsage);
  e.source = strf("%s:%u:%u", path.c_str(), where.begin.line, where.begin.column);
  return e;
}

}  // namespace spscope::session
