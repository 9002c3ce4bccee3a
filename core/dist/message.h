// SPDX-License-Identifier: Apache-2.0
// What a rank tells its launcher: one flat JSON object of strings per line, so that a log of them can be read by people.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace spscope::dist {

/// {"kind":"step","step":"3","loss":"2.5"}. Nested data goes into a field as text. Values may hold any bytes.
struct Message {
  std::string kind;
  std::map<std::string, std::string> fields;

  /// The field, or "".
  const std::string& at(const std::string& name) const;

  /// One line without its end.
  std::string encode() const;
  /// nullopt where the line is not such an object.
  static std::optional<Message> decode(std::string_view line);
};

Message toMessage(const Error& error);  ///< kind "error"
Error toError(const Message& message);

}  // namespace spscope::dist
