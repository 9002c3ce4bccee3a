// SPDX-License-Identifier: Apache-2.0
#include "core/dist/message.h"

#include <charconv>

#include "core/base/strings.h"

namespace spscope::dist {
namespace {

void appendQuoted(std::string* out, std::string_view text) {
  *out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      (*out += '\\') += c;
    else if (c == '\n')
      *out += "\\n";
    else if (byte < 0x20)
      *out += strf("\\u%04x", byte);
    else
      *out += c;
  }
  *out += '"';
}

/// Reads what appendQuoted writes, and JSON's other short escapes. nullopt at any fault.
std::optional<std::string> takeString(std::string_view* in) {
  if (!in->starts_with('"')) return {};
  std::string out;
  for (std::size_t i = 1; i < in->size(); ++i) {
    const char c = (*in)[i];
    if (c == '"') {
      in->remove_prefix(i + 1);
      return out;
    }
    if (c != '\\') {
      out += c;
      continue;
    }
    if (++i >= in->size()) return {};
    switch ((*in)[i]) {
      case 'n': out += '\n'; break;
      case 't': out += '\t'; break;
      case 'r': out += '\r'; break;
      case 'b': out += '\b'; break;
      case 'f': out += '\f'; break;
      case 'u': {
        unsigned code = 0;
        const auto end = in->data() + std::min(i + 5, in->size());
        const auto [stop, error] = std::from_chars(in->data() + i + 1, end, code, 16);
        if (error != std::errc() || stop != in->data() + i + 5 || code > 0x7f) return {};  // only control characters
        out += static_cast<char>(code);
        i += 4;
        break;
      }
      case '"':
      case '\\':
      case '/': out += (*in)[i]; break;
      default: return {};
    }
  }
  return {};
}

bool take(std::string_view* in, char c) {
  while (in->starts_with(' ')) in->remove_prefix(1);
  if (!in->starts_with(c)) return false;
  in->remove_prefix(1);
  while (in->starts_with(' ')) in->remove_prefix(1);
  return true;
}

}  // namespace

const std::string& Message::at(const std::string& name) const {
  static const std::string none;
  const auto it = fields.find(name);
  return it == fields.end() ? none : it->second;
}

std::string Message::encode() const {
  std::string out = "{\"kind\":";
  appendQuoted(&out, kind);
  for (const auto& [name, value] : fields) {
    out += ',';
    appendQuoted(&out, name);
    out += ':';
    appendQuoted(&out, value);
  }
  return out + '}';
}

std::optional<Message> Message::decode(std::string_view line) {
  Message message;
  if (!take(&line, '{')) return {};
  for (bool more = true; more; more = take(&line, ',')) {
    const auto name = takeString(&line);
    if (!name || !take(&line, ':')) return {};
    auto value = takeString(&line);
    if (!value) return {};
    if (*name == "kind")
      message.kind = std::move(*value);
    else
      message.fields[*name] = std::move(*value);
  }
  if (!take(&line, '}') || !line.empty() || message.kind.empty()) return {};
  return message;
}

Message toMessage(const Error& error) {
  Message m{"error", {{"code", error.code}, {"message", error.message}, {"outcome", std::to_string(static_cast<int>(error.outcome))}}};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) m.fields[name] = value;
  };
  add("node", error.node);
  add("source", error.source);
  add("remedy", error.remedy);
  add("legal", error.legal);
  add("notes", join(error.notes, "\n"));
  return m;
}

Error toError(const Message& message) {
  Error error = makeError(message.at("code"), message.at("message"), Outcome::kRunFailed);
  const std::string& outcome = message.at("outcome");
  if (outcome.size() == 1 && outcome[0] >= '1' && outcome[0] <= '4') error.outcome = static_cast<Outcome>(outcome[0] - '0');
  error.node = message.at("node");
  error.source = message.at("source");
  error.remedy = message.at("remedy");
  error.legal = message.at("legal");
  if (!message.at("notes").empty()) error.notes = split(message.at("notes"), '\n');
  return error;
}

}  // namespace spscope::dist
