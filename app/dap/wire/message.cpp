// SPDX-License-Identifier: Apache-2.0
#include "app/dap/wire/message.h"


namespace spscope::app::dap {
namespace {

/// Numbers of messages and of ids fit in 32 bits; some clients write them as 3.0.
std::optional<std::int64_t> wholeNumber(const Json& value) {
  constexpr double kMost = 9007199254740992.0;  // 2^53
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(kMost)) return {};
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return {};
  const double number = value.get<double>();
  if (!(number >= -kMost && number <= kMost) || number != static_cast<double>(static_cast<std::int64_t>(number))) return {};
  return static_cast<std::int64_t>(number);
}

}  // namespace

Request readRequest(std::string_view text) {
  Request out;
  const auto wrong = [&](std::string message) {
    out.fault = makeError("dap-message", std::move(message), Outcome::kUsage);
    return out;
  };
  Json message = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (message.is_discarded()) return wrong("a message is no JSON");
  if (!message.is_object()) return wrong("a message is no JSON object");
  const Json empty;
  const auto field = [&](const char* name) -> const Json& {
    const auto it = message.find(name);
    return it == message.end() ? empty : *it;
  };
  const auto seq = wholeNumber(field("seq"));
  if (seq && *seq > 0) out.seq = *seq;
  if (field("command").is_string()) out.command = field("command").get<std::string>();
  if (!field("type").is_string() || field("type").get<std::string>() != "request") return wrong("a message's type is not request: nothing else is expected here");
  if (out.seq == 0) return wrong("a request has no seq, a whole number from 1 on");
  if (out.command.empty()) return wrong("a request has no command");
  const Json& arguments = field("arguments");
  if (arguments.is_object()) out.arguments = arguments;
  else if (!arguments.is_null()) return wrong(out.command + ": arguments is no object");
  return out;
}

const Json* Fields::find(const char* name) const {
  if (!object_.is_object()) return nullptr;
  const auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

Error Fields::wrong(const char* name, const char* what) const {
  return makeError("dap-argument", where_ + ": " + name + " " + what, Outcome::kUsage);
}

Result<std::string> Fields::text(const char* name) const {
  const Json* value = find(name);
  if (value == nullptr) return wrong(name, "is missing");
  if (!value->is_string()) return wrong(name, "is no text");
  return value->get<std::string>();
}

Result<std::string> Fields::text(const char* name, std::string fallback) const {
  if (!has(name)) return fallback;
  return text(name);
}

Result<std::int64_t> Fields::number(const char* name) const {
  const Json* value = find(name);
  if (value == nullptr) return wrong(name, "is missing");
  const auto number = wholeNumber(*value);
  if (!number) return wrong(name, "is no whole number");
  return *number;
}

Result<std::int64_t> Fields::number(const char* name, std::int64_t fallback) const {
  if (!has(name)) return fallback;
  return number(name);
}

Result<bool> Fields::flag(const char* name, bool fallback) const {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) return wrong(name, "is neither true nor false");
  return value->get<bool>();
}

Result<Fields> Fields::object(const char* name) const {
  const Json* value = find(name);
  if (value == nullptr) return wrong(name, "is missing");
  if (!value->is_object()) return wrong(name, "is no object");
  return Fields(where_ + ": " + name, *value);
}

Result<std::vector<Fields>> Fields::objects(const char* name) const {
  std::vector<Fields> out;
  const Json* value = find(name);
  if (value == nullptr) return out;
  if (!value->is_array()) return wrong(name, "is no list");
  for (const Json& entry : *value) {
    if (!entry.is_object()) return wrong(name, "holds something that is no object");
    out.emplace_back(where_ + ": " + name, entry);
  }
  return out;
}

Result<std::vector<std::string>> Fields::texts(const char* name) const {
  std::vector<std::string> out;
  const Json* value = find(name);
  if (value == nullptr) return out;
  if (!value->is_array()) return wrong(name, "is no list");
  for (const Json& entry : *value) {
    if (!entry.is_string()) return wrong(name, "holds something that is no text");
    out.push_back(entry.get<std::string>());
  }
  return out;
}

}  // namespace spscope::app::dap
