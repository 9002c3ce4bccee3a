// SPDX-License-Identifier: Apache-2.0
#include "profiler/import/chrome_details.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "profiler/import/decimal.h"
#include "profiler/import/json_repair.h"

namespace spscope::trace {
namespace {

using Json = nlohmann::json;

/// Deeper values than any writer makes would only cost the stack.
bool deeperThan(std::string_view text, int limit) {
  int depth = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (inside && c == '\\') ++i;
    else if (c == '"') inside = !inside;
    else if (!inside && (c == '{' || c == '[')) {
      if (++depth > limit) return true;
    } else if (!inside && (c == '}' || c == ']')) --depth;
  }
  return false;
}

Json parsed(std::string_view text, std::string_view where, Problems& problems) {
  if (deeperThan(text, 64)) return nullptr;
  Json out = Json::parse(text, nullptr, false);
  if (out.is_discarded()) out = Json::parse(repairedJson(text, where, problems), nullptr, false);
  return out.is_discarded() ? Json() : out;
}

/// For events whose repairs are counted by whoever found them.
Json parsed(std::string_view text) {
  Problems counted_elsewhere;
  return parsed(text, {}, counted_elsewhere);
}

const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

std::string textOf(const Json* json) {
  if (json == nullptr || json->is_null()) return {};
  if (json->is_string()) return json->get<std::string>();
  return json->dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Metadata travels as strings as often as not.
std::int64_t numberOf(const Json* json) {
  if (json == nullptr) return kUnknown;
  if (json->is_number_unsigned() && json->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return kUnknown;
  if (json->is_number_integer()) return json->get<std::int64_t>();
  std::int64_t value = kUnknown;
  if (json->is_number_float()) return parseScaled(json->dump(), 0, &value) == Parsed::kOk ? value : kUnknown;
  if (json->is_string() && parseScaled(json->get_ref<const std::string&>(), 0, &value) == Parsed::kOk) return value;
  return kUnknown;
}

std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &out) ? kUnknown : out;
}

/// Bytes of the tensors that an op got, by "Input Dims" and "Input type"; kUnknown where one of them is not known.
std::int64_t inputBytes(const Json& args) {
  const Json* dims = member(args, "Input Dims");
  const Json* types = member(args, "Input type");
  if (dims == nullptr || types == nullptr || !dims->is_array() || !types->is_array() || dims->empty() || dims->size() != types->size()) return kUnknown;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < dims->size(); ++i) {
    const std::int64_t element = elementBytes(textOf(&(*types)[i]));
    const Json& shape = (*dims)[i];
    if (element == 0 || !shape.is_array()) return kUnknown;
    std::int64_t bytes = element;
    for (const Json& size : shape) {
      const std::int64_t n = numberOf(&size);
      bytes = n == kUnknown ? kUnknown : product(bytes, n);
      if (bytes == kUnknown) return kUnknown;
    }
    if (__builtin_add_overflow(sum, bytes, &sum)) return kUnknown;
  }
  return sum;
}

}  // namespace

std::string metadataArgument(std::string_view event) {
  const Json json = parsed(event);
  const Json* args = member(json, "args");
  if (args == nullptr) return {};
  const Json* name = member(*args, "name");
  return textOf(name ? name : member(*args, "labels"));
}

std::vector<std::pair<std::string, double>> counterValues(std::string_view event, std::string_view where, Problems& problems) {
  std::vector<std::pair<std::string, double>> out;
  const Json json = parsed(event, where, problems);
  const Json* args = member(json, "args");
  if (args == nullptr || !args->is_object()) return out;
  for (const auto& [series, value] : args->items())
    if (value.is_number()) out.emplace_back(series, value.get<double>());
  return out;
}

CollectiveFacts collectiveFacts(std::string_view event, std::string_view where, Problems& problems) {
  CollectiveFacts out;
  const Json json = parsed(event);
  const Json* args = member(json, "args");
  if (args == nullptr || !args->is_object()) return out;
  const auto arg = [&](const char* key) { return member(*args, key); };
  if (const Json* kind = arg("Collective name")) out.kind = collectiveKind(textOf(kind));
  out.group = textOf(arg("Process Group Name"));
  out.sequence = numberOf(arg("Seq"));
  out.group_size = numberOf(arg("Group size"));
  if (out.sequence < 0) out.sequence = kUnknown;
  if (out.group_size <= 0) out.group_size = kUnknown;
  if (const std::int64_t least = numberOf(arg("Group size at least")); out.group_size == kUnknown && least > 0)
    out.group_size = least, out.group_size_at_least = true;  // our own export
  const std::int64_t elements = numberOf(arg("In msg nelems")), element = elementBytes(textOf(arg("dtype")));
  if (elements != kUnknown && element != 0) out.bytes = product(elements, element);
  if (out.bytes == kUnknown) out.bytes = inputBytes(*args);
  bool cut = false;
  for (const char* key : {"In split size", "Out split size", "Process Group Ranks"}) {
    const Json* list = arg(key);
    if (list == nullptr) continue;
    bool this_cut = false;
    const std::int64_t ranks = ranksInList(textOf(list), &this_cut);
    cut = cut || this_cut;
    if (std::string_view(key) != "Process Group Ranks" || ranks == 0 || out.group_size != kUnknown) continue;
    out.group_size = ranks, out.group_size_at_least = this_cut;
  }
  if (cut) problems.count(Problem::kCutList, where);
  return out;
}

GraphNode graphNode(std::string_view event, StringPool& strings) {
  GraphNode out;
  const Json json = parsed(event);
  const Json* args = member(json, "args");
  if (args == nullptr) return out;
  const auto text = [&](const char* key) { return strings.intern(textOf(member(*args, key))); };
  out.id = numberOf(member(*args, "node"));
  out.name = text("node name"), out.op = text("op"), out.module = text("module"), out.source = text("source"), out.stage = text("stage");
  const std::string phase = textOf(member(*args, "phase"));
  for (const Phase p : {Phase::kForward, Phase::kBackward, Phase::kRecompute, Phase::kOptimizer})
    if (nameOf(p) == phase) out.phase = p;
  return out;
}

void readHeader(std::string_view key, std::string_view text, std::string_view where, ChromeHeader& header, Problems& problems) {
  const std::string clean = repairedJson(text, where, problems);
  if (key == "baseTimeNanoseconds") {
    std::int64_t base = 0;
    if (parseScaled(clean, 0, &base) == Parsed::kOk && base > -(std::int64_t{1} << 61) && base < std::int64_t{1} << 61) header.rank.base_ns = base;
    else problems.count(Problem::kBadNumber, where);
    return;
  }
  const Json json = parsed(clean);
  if (key == "host_name") {
    header.rank.host = textOf(&json);
  } else if (key == "deviceProperties") {
    if (!json.is_array()) return;
    for (const Json& device : json)
      if (const Json* id = member(device, "id"))
        for (const auto& [name, value] : device.items())
          if (name != "id") header.properties["device." + textOf(id) + "." + name] = textOf(&value);
  } else if (key == "distributedInfo") {
    header.rank.number = numberOf(member(json, "rank"));
    header.rank.world = numberOf(member(json, "world_size"));
    header.rank.backend = textOf(member(json, "backend"));
    header.has_rank = header.rank.number != kUnknown;
    if (const std::string nccl = textOf(member(json, "nccl_version")); !nccl.empty()) header.properties["nccl_version"] = nccl;
    const Json* groups = member(json, "pg_config");
    Json unquoted;  // kineto's own writer puts the list into a string
    if (groups != nullptr && groups->is_string()) unquoted = parsed(groups->get_ref<const std::string&>()), groups = &unquoted;
    if (groups == nullptr || !groups->is_array()) return;
    for (const Json& group : *groups) {
      const std::string name = textOf(member(group, "pg_name"));
      for (const char* field : {"pg_desc", "pg_size", "ranks", "backend_config"})
        if (const std::string value = textOf(member(group, field)); !value.empty()) header.properties["process_group." + name + "." + field] = value;
      bool cut = false;
      ranksInList(textOf(member(group, "ranks")), &cut);
      if (cut) problems.count(Problem::kCutList, where);
      if (groups->size() == 1) header.only_group = name;
      if (const std::int64_t size = numberOf(member(group, "pg_size")); size > 0) header.group_sizes[name] = size;
    }
  } else if (key == "spscope" && json.is_object()) {  // properties of a trace that we exported
    for (const auto& [name, value] : json.items()) header.properties[name] = textOf(&value);
  } else if (key == "INFO" && json.is_array()) {
    for (const Json& line : json) {
      // "Record counts: Out-of-range = 3829, Blocklisted runtime = 56517, ...": the first are events of the window's edge.
      const std::string message = textOf(&line);
      const std::string_view mark = "Out-of-range = ";
      const auto found = message.find(mark);
      if (found == std::string::npos) continue;
      std::size_t end = found + mark.size();
      while (end < message.size() && message[end] >= '0' && message[end] <= '9') ++end;
      std::int64_t count = 0;
      if (parseScaled(std::string_view(message).substr(found + mark.size(), end - found - mark.size()), 0, &count) == Parsed::kOk) header.dropped = std::min(std::max(header.dropped, count), std::int64_t{1} << 60);
    }
  } else if (!json.is_null() && !json.is_structured()) {
    header.properties["kineto." + std::string(key)] = textOf(&json);
  }
}

}  // namespace spscope::trace
