// SPDX-License-Identifier: Apache-2.0
// A client's request out of the text of a message, and its arguments by name and type. Nothing throws, whatever the client sends.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace spscope::app::dap {

using Json = nlohmann::ordered_json;

struct Request {
  std::int64_t seq = 0;        ///< 0 where it could not be read
  std::string command;         ///< "" where it could not be read
  Json arguments = Json::object();
  std::optional<Error> fault;  ///< it is no request; the rest is as far as it could be read
};
/// Errors are in Request::fault: dap-message.
Request readRequest(std::string_view text);

/// Fields of an object that a client sent. An absent field and null are the same. Errors: dap-argument, which name command and field.
class Fields {
 public:
  /// `where` is said in errors: "setBreakpoints". `object` must outlive this; one that is no object has no fields.
  Fields(std::string where, const Json& object) : where_(std::move(where)), object_(object) {}

  const Json* find(const char* name) const;  ///< nullptr where absent
  bool has(const char* name) const { return find(name) != nullptr; }
  Result<std::string> text(const char* name) const;
  Result<std::string> text(const char* name, std::string fallback) const;
  Result<std::int64_t> number(const char* name) const;
  Result<std::int64_t> number(const char* name, std::int64_t fallback) const;
  Result<bool> flag(const char* name, bool fallback) const;
  /// The object of that name.
  Result<Fields> object(const char* name) const;
  /// Entries that must be objects; none where it is absent.
  Result<std::vector<Fields>> objects(const char* name) const;
  Result<std::vector<std::string>> texts(const char* name) const;
  const Json& json() const { return object_; }

 private:
  Error wrong(const char* name, const char* what) const;
  std::string where_;
  const Json& object_;
};

}  // namespace spscope::app::dap
