// SPDX-License-Identifier: Apache-2.0
// What the TOML files of the session share: how they are read, and an error at a place of the file. Only for sources that
// read TOML.
#pragma once

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <string>

#include "core/base/result.h"
#include "core/base/strings.h"
#include "core/io/mapped_file.h"

namespace spscope::session {

inline Error errorAtToml(std::string_view code, std::string message, const std::string& path, const toml::source_region& where) {
  Error e = makeError(code, std::move(message), Outcome::kUsage);
  e.source = strf("%s:%u:%u", path.c_str(), where.begin.line, where.begin.column);
  return e;
}

/// The text of a file. All errors are usage (exit code 2), as those of its content: a file of settings belongs to the command line.
/// Errors: those of io::MappedFile; `code` where it is longer than any `what` ("a budget") is.
inline Result<std::string> smallToml(std::string_view code, const std::string& path, const char* what) {
  auto opened = io::MappedFile::open(path);
  if (!opened) {
    Error error = std::move(opened).error();
    error.outcome = Outcome::kUsage;
    return error;
  }
  const auto& file = *opened;
  if (file->size() > std::size_t{1} << 20) return makeError(code, strf("%s has %zu bytes: %s is a small TOML file", path.c_str(), file->size(), what), Outcome::kUsage);
  return std::string(reinterpret_cast<const char*>(file->bytes().data()), file->size());
}

/// Its tables; what is no TOML is an error with `code`, at its place.
inline Result<toml::table> parsedToml(std::string_view code, const std::string& path, const std::string& text) {
  toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) return errorAtToml(code, std::string(parsed.error().description()), path, parsed.error().source());
  return std::move(parsed).table();
}

}  // namespace spscope::session
