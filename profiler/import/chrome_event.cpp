// SPDX-License-Identifier: Apache-2.0
#include "profiler/import/chrome_event.h"

#define SIMDJSON_EXCEPTIONS 0
#include <simdjson.h>

#include <cstring>

#include "profiler/import/json_repair.h"
#include "profiler/import/text_window.h"

namespace spscope::trace {
namespace {

namespace ondemand = simdjson::ondemand;
static_assert(TextWindow::kMargin >= simdjson::SIMDJSON_PADDING + 1);

/// Keys are compared with the quote that ends them, so no length is needed.
template <std::size_t N>
bool keyIs(const char* key, const char (&literal)[N]) {
  return std::memcmp(key, literal, N - 1) == 0;
}

/// The text between the quotes of a token that may have white space behind it. False: it is no string.
bool quoted(std::string_view token, std::string_view* out) {
  if (token.empty() || token[0] != '"') return false;
  const auto end = token.rfind('"');
  if (end == 0) return false;
  *out = token.substr(1, end - 1);
  return true;
}

class Reader {
 public:
  explicit Reader(ChromeEvent& event) : e_(event) {}

  /// False: no JSON.
  bool read(ondemand::object object) {
    for (auto entry : object) {
      ondemand::field field;
      if (std::move(entry).get(field) != simdjson::SUCCESS) return false;
      const char* key = field.key().raw();
      ondemand::value& value = field.value();
      switch (key[0]) {
        case 'p':
          if (keyIs(key, "ph\"")) {
            const std::string_view token = value.raw_json_token();
            if (token.size() >= 3 && token[0] == '"' && token[2] == '"') e_.phase = token[1];
          } else if (keyIs(key, "pid\"")) {
            numberOrText(value.raw_json_token(), &e_.pid, &e_.pid_text);
          }
          break;
        case 'c':
          if (keyIs(key, "cat\"")) quoted(value.raw_json_token(), &e_.category);
          break;
        case 'n':
          if (keyIs(key, "name\"")) quoted(value.raw_json_token(), &e_.name);
          break;
        case 't':
          if (keyIs(key, "ts\"")) {
            const std::string_view token = value.raw_json_token();
            e_.ts_state = parseMicroseconds(token, &e_.ts);
            e_.fractional = token.find_first_of(".eE") != std::string_view::npos && token[0] != '"';
          } else if (keyIs(key, "tid\"")) {
            numberOrText(value.raw_json_token(), &e_.tid, &e_.tid_text);
          }
          break;
        case 'd':
          if (keyIs(key, "dur\"")) e_.dur_state = parseMicroseconds(value.raw_json_token(), &e_.dur);
          break;
        case 'i':
          if (keyIs(key, "id\"")) numberOrText(value.raw_json_token(), &e_.id, &e_.id_text);
          break;
        case 'a':
          if (keyIs(key, "args\"")) {
            ondemand::object args;
            if (value.raw_json_token().substr(0, 1) != "{") break;
            if (value.get_object().get(args) != simdjson::SUCCESS || !readArgs(args)) return false;
          }
          break;
        default: break;
      }
    }
    return !e_.escapes || (escapesFine(e_.name) && escapesFine(e_.category));
  }

 private:
  static bool escapesFine(std::string_view raw) {
    std::string ignored;
    return raw.find('\\') == std::string_view::npos || unescape(raw, &ignored);
  }

  bool readArgs(ondemand::object args) {
    for (auto entry : args) {
      ondemand::field field;
      if (std::move(entry).get(field) != simdjson::SUCCESS) return false;
      const char* key = field.key().raw();
      ondemand::value& value = field.value();
      const std::string_view token = value.raw_json_token();
      std::int64_t* target = nullptr;
      switch (key[0]) {
        case 'E':
          if (keyIs(key, "External id\"")) target = &e_.external;
          break;
        case 'e':
          if (keyIs(key, "external id\"")) target = &e_.external;
          break;
        case 'c':
          if (keyIs(key, "correlation\"")) target = &e_.correlation;
          else if (keyIs(key, "context\"")) target = &e_.context;
          break;
        case 's':
          if (keyIs(key, "stream\"")) target = &e_.stream;
          else if (keyIs(key, "shared memory\"")) target = &e_.shared;
          break;
        case 'd':
          if (keyIs(key, "device\"")) target = &e_.device;
          break;
        case 'b':
          if (keyIs(key, "bytes\"")) target = &e_.bytes;
          else if (keyIs(key, "block\"") && !triple(value, &e_.block)) return false;
          break;
        case 'g':
          if (keyIs(key, "graph node id\"")) target = &e_.graph_node;
          else if (keyIs(key, "grid\"") && !triple(value, &e_.grid)) return false;
          break;
        case 'r':
          if (keyIs(key, "registers per thread\"")) target = &e_.registers;
          break;
        case 'n':
          if (keyIs(key, "node\"")) target = &e_.node;
          break;
        case 'S':
          if (keyIs(key, "Sequence number\"")) target = &e_.sequence;
          break;
        case 'A':
          if (keyIs(key, "Addr\"")) target = &e_.address;
          break;
        case 'B':
          if (keyIs(key, "Bytes\"")) target = &e_.bytes;
          break;
        case 'T':
          if (keyIs(key, "Total Allocated\"")) target = &e_.allocated;
          else if (keyIs(key, "Total Reserved\"")) target = &e_.reserved;
          break;
        case 'D':
          if (keyIs(key, "Device Type\"")) target = &e_.device_type;
          else if (keyIs(key, "Device Id\"")) target = &e_.device_id;
          break;
        default: break;
      }
      if (target) number(token, target);
      else if (!looksFine(token)) ++e_.bad_numbers;
    }
    return true;
  }

  /// A value that nobody reads: does it at least begin like JSON? NaN, Infinity, N/A, nan, inf do not.
  static bool looksFine(std::string_view token) {
    const char c = token.empty() ? ' ' : token[0];
    if (c == 'n') return token.substr(0, 4) == "null";
    if (c == '-') return token.size() > 1 && token[1] >= '0' && token[1] <= '9';
    return (c >= '0' && c <= '9') || c == '"' || c == '{' || c == '[' || c == 't' || c == 'f';
  }

  void number(std::string_view token, std::int64_t* value) {
    std::int64_t got = 0;
    switch (parseId(token, &got)) {
      case Parsed::kOk: *value = got; break;
      case Parsed::kAbsent: break;
      case Parsed::kBad: ++e_.bad_numbers; break;
      case Parsed::kOutOfRange: ++e_.out_of_range; break;
    }
  }

  void numberOrText(std::string_view token, std::int64_t* value, std::string_view* text) {
    std::int64_t got = 0;
    const Parsed parsed = parseId(token, &got);
    if (parsed == Parsed::kOk) *value = got;
    else if (!token.empty() && token[0] == '"') quoted(token, text);
    else if (parsed != Parsed::kAbsent) ++e_.bad_numbers;
  }

  bool triple(ondemand::value& value, std::array<std::int32_t, 3>* out) {
    if (value.raw_json_token().substr(0, 1) != "[") return true;
    ondemand::array array;
    if (value.get_array().get(array) != simdjson::SUCCESS) return false;
    std::size_t i = 0;
    for (auto entry : array) {
      ondemand::value item;
      if (std::move(entry).get(item) != simdjson::SUCCESS) return false;
      std::int64_t got = 0;
      if (i < 3 && parseScaled(item.raw_json_token(), 0, &got) == Parsed::kOk && got >= 0 && got <= INT32_MAX)
        (*out)[i] = static_cast<std::int32_t>(got);
      ++i;
    }
    return true;
  }

  ChromeEvent& e_;
};

}  // namespace

struct ChromeEventParser::Impl {
  ondemand::parser parser;
};

ChromeEventParser::ChromeEventParser() : impl_(std::make_unique<Impl>()) {}
ChromeEventParser::~ChromeEventParser() = default;

std::size_t ChromeEventParser::parseRun(char* text, std::span<const EventExtent> events, ChromeEventSink& sink) {
  char* const first = text + events.front().start - 1;
  char* const last = text + events.back().end;
  const char before = *first, behind = *last;
  *first = '[', *last = ']';
  const auto size = static_cast<std::size_t>(last - first) + 1;
  std::size_t done = 0;
  ondemand::document document;
  ondemand::array array;
  if (impl_->parser.iterate(simdjson::padded_string_view(first, size, size + simdjson::SIMDJSON_PADDING)).get(document) == simdjson::SUCCESS &&
      document.get_array().get(array) == simdjson::SUCCESS) {
    for (auto entry : array) {
      ondemand::value value;
      ondemand::object object;
      if (done == events.size() || std::move(entry).get(value) != simdjson::SUCCESS || value.get_object().get(object) != simdjson::SUCCESS) break;
      ChromeEvent event;
      const EventExtent& extent = events[done];
      event.text = {text + extent.start, extent.end - extent.start};
      event.escapes = extent.escapes;
      if (!Reader(event).read(object)) break;
      sink.add(event);
      ++done;
    }
  }
  *first = before, *last = behind;
  return done;
}

bool ChromeEventParser::parseOne(std::string_view text, ChromeEventSink& sink) {
  ondemand::document document;
  ondemand::object object;
  if (impl_->parser.iterate(simdjson::padded_string_view(text.data(), text.size(), text.size() + simdjson::SIMDJSON_PADDING)).get(document) != simdjson::SUCCESS ||
      document.get_object().get(object) != simdjson::SUCCESS)
    return false;
  ChromeEvent event;
  event.text = text;
  event.escapes = true;
  if (!Reader(event).read(object)) return false;
  sink.add(event);
  return true;
}

}  // namespace spscope::trace
