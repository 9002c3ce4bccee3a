// SPDX-License-Identifier: Apache-2.0
#include "core/session/plan/device_profile.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "core/base/strings.h"
#include "core/session/toml_place.h"

namespace spscope::session {
namespace {

namespace fs = std::filesystem;

enum class Unit : std::uint8_t { kBytes, kBytesPerNs, kFlopsPerNs, kNs };

struct Known {
  const char* table;
  const char* key;
  Unit unit;
  Figure DeviceProfile::*figure;
  bool needed;
};
constexpr Known kKnown[] = {
    {"memory", "capacity", Unit::kBytes, &DeviceProfile::capacity, true},
    {"memory", "outside", Unit::kBytes, &DeviceProfile::outside, true},
    {"memory", "host", Unit::kBytes, &DeviceProfile::host, false},
    {"communication", "per_group", Unit::kBytes, &DeviceProfile::per_group, true},
    {"communication", "all_to_all", Unit::kBytes, &DeviceProfile::all_to_all, false},
    {"compute", "matmul", Unit::kFlopsPerNs, &DeviceProfile::matmul, true},
    {"compute", "matmul_float32", Unit::kFlopsPerNs, &DeviceProfile::matmul_float32, false},
    {"compute", "memory", Unit::kBytesPerNs, &DeviceProfile::memory, true},
    {"compute", "launch", Unit::kNs, &DeviceProfile::launch, false},
    {"links", "node", Unit::kBytesPerNs, &DeviceProfile::node_link, true},
    {"links", "network", Unit::kBytesPerNs, &DeviceProfile::network_link, false},
    {"links", "host", Unit::kBytesPerNs, &DeviceProfile::host_link, false},
    {"links", "node_latency", Unit::kNs, &DeviceProfile::node_latency, false},
    {"links", "network_latency", Unit::kNs, &DeviceProfile::network_latency, false},
};

Error unknownKey(const std::string& where, std::string_view key, std::vector<std::string> known, const std::string& path, const toml::source_region& place) {
  Error e = errorAtToml("profile-key", strf("%s has no '%s'", where.c_str(), std::string(key).c_str()), path, place);
  if (const std::string near = nearest(key, known); !near.empty()) e.message += strf("; did you mean %s?", near.c_str());
  e.legal = join(known, ", ");
  return e;
}

/// "79.1 GiB", "450 GB/s", "620 TFLOP/s" in bytes, bytes per ns or flop per ns.
Result<double> parseQuantity(const toml::node& node, Unit unit, const std::string& name, const std::string& path) {
  static const std::vector<std::pair<std::string, double>> kBytes{{"B", 1},    {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
                                                                   {"kB", 1e3}, {"MB", 1e6},     {"GB", 1e9},        {"TB", 1e12}};
  static const std::vector<std::pair<std::string, double>> kRates{{"MB/s", 1e-3}, {"GB/s", 1}, {"TB/s", 1e3}};
  static const std::vector<std::pair<std::string, double>> kFlops{{"GFLOP/s", 1}, {"TFLOP/s", 1e3}};
  static const std::vector<std::pair<std::string, double>> kTimes{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}};
  const auto& units = unit == Unit::kBytes ? kBytes : unit == Unit::kBytesPerNs ? kRates : unit == Unit::kNs ? kTimes : kFlops;
  std::string written;
  if (const auto* text = node.as_string()) {
    written = text->get();
    std::istringstream in(written);
    in.imbue(std::locale::classic());
    double number = 0;
    std::string said, rest;
    if (in >> number >> said && !(in >> rest) && std::isfinite(number) && number >= 0)
      for (const auto& [known, factor] : units)
        if (said == known && number * factor < 9e18) return number * factor;
  } else {
    std::ostringstream out;
    out << toml::node_view(node);
    written = out.str();
  }
  Error e = errorAtToml("profile-value", strf("%s = %s is no quantity", name.c_str(), written.c_str()), path, node.source());
  std::vector<std::string> names;
  for (const auto& [known, factor] : units) names.push_back(known);
  e.legal = "a text of a number and a unit: " + join(names, ", ");
  return e;
}

Result<Figure> parseFigure(const toml::node& node, Unit unit, const std::string& name, const std::string& path) {
  const toml::table* table = node.as_table();
  if (table == nullptr) {
    Error e = errorAtToml("profile-value", name + " is no table", path, node.source());
    e.legal = "[" + name + "] with low, high and source";
    return e;
  }
  Figure out;
  bool low = false, high = false;
  for (const auto& [key, value] : *table) {
    if (key.str() == "source" && value.is_string()) {
      out.source = value.as_string()->get();
    } else if (key.str() == "low") {
      SP_ASSIGN(out.low, parseQuantity(value, unit, name + ".low", path));
      low = true;
    } else if (key.str() == "high") {
      SP_ASSIGN(out.high, parseQuantity(value, unit, name + ".high", path));
      high = true;
    } else {
      return unknownKey(name, key.str(), {"low", "high", "source"}, path, key.source());
    }
  }
  if (!low || !high || out.source.empty()) return errorAtToml("profile-value", name + " lacks " + (!low ? "low" : !high ? "high" : "a source"), path, node.source());
  if (out.low > out.high) return errorAtToml("profile-value", name + ": low is above high", path, node.source());
  return out;
}

std::vector<std::string> keysOf(std::string_view table) {
  std::vector<std::string> out;
  for (const Known& known : kKnown)
    if (table == known.table) out.emplace_back(known.key);
  return out;
}

Status parseTable(std::string_view name, const toml::table& table, const std::string& path, DeviceProfile& out, std::vector<bool>& seen) {
  for (const auto& [key, value] : table) {
    const std::string full = std::string(name) + "." + std::string(key.str());
    if (name == "attention") {
      SP_ASSIGN(Figure figure, parseFigure(value, Unit::kFlopsPerNs, full, path));
      out.attention.emplace_back(std::string(key.str()), std::move(figure));
      continue;
    }
    const auto* known = std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Known& k) { return name == k.table && key.str() == k.key; });
    if (known == std::end(kKnown)) return unknownKey("[" + std::string(name) + "]", key.str(), keysOf(name), path, key.source());
    SP_ASSIGN(out.*(known->figure), parseFigure(value, known->unit, full, path));
    seen[static_cast<std::size_t>(known - std::begin(kKnown))] = true;
  }
  return {};
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// The known name that was meant: one that begins like it ("h100", "H100-80GB"), else the nearest, whatever the case.
std::string nearestName(const std::string& given, const std::vector<std::string>& names) {
  std::vector<std::string> small;
  for (const std::string& name : names) {
    small.push_back(lower(name));
    if (const std::string text = lower(given); !text.empty() && (small.back().starts_with(text) || text.starts_with(small.back()))) return name;
  }
  const std::string near = nearest(lower(given), small);
  const auto at = std::find(small.begin(), small.end(), near);
  return near.empty() || at == small.end() ? std::string() : names[static_cast<std::size_t>(at - small.begin())];
}

}  // namespace

Result<DeviceProfile> parseDeviceProfile(const std::string& path, const std::string& text) {
  SP_ASSIGN(const toml::table tables, parsedToml("profile-syntax", path, text));
  DeviceProfile out;
  out.path = path;
  std::vector<bool> seen(std::size(kKnown), false);
  for (const auto& [key, node] : tables) {
    const std::string name(key.str());
    if (name == "memory" || name == "communication" || name == "compute" || name == "links" || name == "attention") {
      if (!node.is_table()) return errorAtToml("profile-value", name + " is a table: write [" + name + "]", path, node.source());
      SP_TRY(parseTable(name, *node.as_table(), path, out, seen));
    } else if (name == "shared") {
      if (!node.is_boolean()) return errorAtToml("profile-value", "shared is true or false", path, node.source());
      out.shared = node.as_boolean()->get();
    } else if (name == "name" || name == "summary" || name == "device") {
      if (!node.is_string()) return errorAtToml("profile-value", name + " is a text", path, node.source());
      (name == "name" ? out.name : name == "summary" ? out.summary : out.device) = node.as_string()->get();
    } else {
      return unknownKey("a device profile", name, {"name", "summary", "device", "shared", "memory", "communication", "compute", "links", "attention"}, path, key.source());
    }
  }
  const auto lacks = [&](const std::string& what) {
    Error e = makeError("profile-value", path + " lacks " + what, Outcome::kUsage);
    e.source = path + ":1";
    return e;
  };
  if (out.name.empty()) return lacks("its name");
  if (out.device != "cpu" && out.device != "cuda") return lacks("device = \"cpu\" or \"cuda\"");
  for (std::size_t i = 0; i < std::size(kKnown); ++i)
    if (kKnown[i].needed && !seen[i]) return lacks(strf("[%s.%s]", kKnown[i].table, kKnown[i].key));
  // What is divided by.
  for (const Figure* figure : {&out.capacity, &out.matmul, &out.memory, &out.node_link})
    if (figure->low <= 0) return lacks("a capacity and rates above 0");
  return out;
}

namespace {

std::string quoted(const std::string& text) {
  std::ostringstream out;
  out << toml::value<std::string>(text);
  return out.str();
}

std::string quantity(double value, Unit unit) {
  switch (unit) {
    case Unit::kBytes: return strf("%.0f B", value);
    case Unit::kBytesPerNs: return strf("%.4g GB/s", value);
    case Unit::kNs: return strf("%.4g us", value / 1e3);
    case Unit::kFlopsPerNs: break;
  }
  return strf("%.4g GFLOP/s", value);
}

void addFigure(std::string& out, const std::string& name, const Figure& figure, Unit unit, bool needed) {
  if (!needed && figure.high == 0) return;
  out += "\n[" + name + "]\nlow = " + quoted(quantity(figure.low, unit)) + "\nhigh = " + quoted(quantity(figure.high, unit)) + "\nsource = " + quoted(figure.source) + "\n";
}

}  // namespace

std::string deviceProfileText(const DeviceProfile& p, const std::string& comment) {
  std::string out = "# " + comment + "\nname = " + quoted(p.name) + "\nsummary = " + quoted(p.summary) + "\ndevice = " + quoted(p.device) + "\n";
  if (p.shared) out += "shared = true\n";
  for (const Known& known : kKnown) addFigure(out, std::string(known.table) + "." + known.key, p.*(known.figure), known.unit, known.needed);
  for (const auto& [kernel, figure] : p.attention) addFigure(out, "attention." + kernel, figure, Unit::kFlopsPerNs, true);
  return out;
}

std::vector<std::pair<std::string, std::string>> deviceProfiles() {
  std::vector<std::pair<std::string, std::string>> out;
  std::error_code failed;
  fs::path at = fs::read_symlink("/proc/self/exe", failed).parent_path();
  for (int up = 0; up < 5 && out.empty() && !at.empty(); ++up, at = at.parent_path())
    for (const char* folder : {"resources/devices", "share/spscope/devices"}) {
      std::error_code none;
      for (fs::directory_iterator it(at / folder, none), end; !none && it != end; it.increment(none))
        if (it->path().extension() == ".toml") out.emplace_back(it->path().stem().string(), it->path().string());
    }
  std::sort(out.begin(), out.end());
  return out;
}

Result<DeviceProfile> readDeviceProfile(const std::string& name_or_path) {
  std::string path = name_or_path;
  if (!path.ends_with(".toml")) {
    const auto known = deviceProfiles();
    const auto found = std::find_if(known.begin(), known.end(), [&](const auto& p) { return lower(p.first) == lower(name_or_path); });
    if (found == known.end()) {
      std::vector<std::string> names;
      for (const auto& [name, file] : known) names.push_back(name);
      Error e = makeError("profile-missing", "there is no device profile " + name_or_path, Outcome::kUsage);
      if (const std::string near = nearestName(name_or_path, names); !near.empty()) e.message += "; did you mean " + near + "?";
      e.legal = names.empty() ? "the path of a .toml file" : join(names, ", ") + ", or the path of a .toml file";
      return e;
    }
    path = found->second;
  }
  SP_ASSIGN(const std::string text, smallToml("profile-syntax", path, "a device profile"));
  return parseDeviceProfile(path, text);
}

}  // namespace spscope::session
