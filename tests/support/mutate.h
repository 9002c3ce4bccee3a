// SPDX-License-Identifier: Apache-2.0
// Files as accidents and enemies leave them: seeded mutations of bytes, of lengths, of blocks, and of the JSON inside an
// archive that is packed anew. The same seed gives the same file everywhere.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/io/archive.h"
#include "tests/support/zip_writer.h"

namespace spscope::testing {

/// SplitMix64: unlike the library's distributions, equal on every platform.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 1) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  /// 0 ... n - 1; 0 where n is 0.
  std::size_t below(std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(next() % n); }

 private:
  std::uint64_t state_;
};

enum class Mutation : std::uint8_t { kBytes, kLengths, kBlocks, kCut, kCount };

/// One mutation of the raw bytes. Lengths are set mostly where zip archives keep them: near the end and behind "PK".
inline std::string mutateBytes(std::string bytes, Random& random) {
  if (bytes.empty()) return bytes;
  const auto somewhere = [&] { return random.below(bytes.size()); };
  switch (static_cast<Mutation>(random.below(static_cast<std::size_t>(Mutation::kCount)))) {
    case Mutation::kBytes:
      for (std::size_t n = 1 + random.below(8); n-- > 0;)
        bytes[somewhere()] = static_cast<char>(random.below(2) ? random.next() : bytes[somewhere()] ^ (1 << random.below(8)));
      break;
    case Mutation::kLengths: {
      std::size_t at = somewhere();
      if (random.below(3) != 0) {
        std::vector<std::size_t> headers;
        for (std::size_t p = bytes.find("PK"); p != std::string::npos; p = bytes.find("PK", p + 2)) headers.push_back(p);
        if (!headers.empty()) at = headers[random.below(headers.size())] + 4 + random.below(44);
      }
      const std::uint64_t values[] = {0, 1, 0x7f, 0xff, 0xffff, 0x7fffffff, 0xffffffff, 0x80000000, bytes.size(), bytes.size() + 1,
                                      bytes.size() - 1, 0x7fffffffffffffff, 0xffffffffffffffff, random.next()};
      const std::uint64_t value = values[random.below(std::size(values))];
      const std::size_t width = std::size_t{1} << random.below(4);
      if (at + width <= bytes.size()) std::memcpy(bytes.data() + at, &value, width);
      break;
    }
    case Mutation::kBlocks: {
      const std::size_t length = 1 + random.below(std::min<std::size_t>(bytes.size() / 3 + 1, 4096));
      const std::size_t a = random.below(bytes.size() - std::min(length, bytes.size()) + 1);
      const std::size_t b = random.below(bytes.size() - std::min(length, bytes.size()) + 1);
      const std::string x = bytes.substr(a, length), y = bytes.substr(b, length);
      switch (random.below(4)) {
        case 0: bytes.replace(a, x.size(), y), bytes.replace(b, y.size(), x); break;  // swapped
        case 1: bytes.insert(b, x); break;                                            // twice
        case 2: bytes.erase(a, length); break;                                        // lost
        default: bytes.replace(a, x.size(), x.size(), '\0'); break;                   // a hole
      }
      break;
    }
    default: bytes.resize(somewhere()); break;
  }
  return bytes;
}

namespace detail {
inline void collect(nlohmann::json& json, std::vector<nlohmann::json*>* all) {
  all->push_back(&json);
  if (json.is_structured())
    for (auto& child : json) collect(child, all);
}
}  // namespace detail

/// One to four mutations of a JSON text's values: removed, replaced by another of the same text, by extremes, swapped.
inline std::string mutateJson(const std::string& text, Random& random) {
  nlohmann::json root = nlohmann::json::parse(text, nullptr, false);
  if (root.is_discarded()) return text;
  for (std::size_t n = 1 + random.below(4); n-- > 0;) {
    std::vector<nlohmann::json*> all;
    detail::collect(root, &all);
    nlohmann::json& at = *all[random.below(all.size())];
    const nlohmann::json other = *all[random.below(all.size())];
    switch (random.below(9)) {
      case 0: at = other; break;
      case 1: at = nullptr; break;
      case 2: at = nlohmann::json::array(); break;
      case 3: at = nlohmann::json::object(); break;
      case 4: {
        const std::int64_t numbers[] = {0, -1, 1, INT64_MAX, INT64_MIN, 1LL << 31, 1LL << 40, 3037000500LL};
        at = numbers[random.below(std::size(numbers))];
        break;
      }
      case 5: at = random.below(2) ? 1e300 : -0.5; break;
      case 6: {
        const char* texts[] = {"", "x", "NaN", "Symbol('s0')", "Mod(Symbol('s0'), Integer(0))", "a\nb", "torch.ops.aten.add.Tensor", "Pow(Integer(9), Integer(99))"};
        at = texts[random.below(std::size(texts))];
        break;
      }
      case 7:
        if (at.is_object() && !at.empty()) at.erase(std::next(at.begin(), static_cast<std::ptrdiff_t>(random.below(at.size()))));
        else if (at.is_array() && !at.empty()) at.erase(random.below(at.size()));
        break;
      default:
        if (at.is_array()) at.insert(at.begin() + static_cast<std::ptrdiff_t>(random.below(at.size() + 1)), other);
        else if (at.is_object()) at["as_int"] = other;
        break;
    }
  }
  return root.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The outer entries of a zip archive, to be changed and packed anew (with right checksums).
class Entries {
 public:
  explicit Entries(const io::Archive& archive) {
    for (const io::ArchiveEntry& e : archive.entries()) {
      if (e.name.find('!') != std::string::npos) continue;
      const auto payload = archive.read(e.name);
      const std::string name = archive.root().empty() ? e.name : archive.root() + "/" + e.name;
      if (payload) all.emplace_back(name, std::string(reinterpret_cast<const char*>(payload->data()), payload->size()));
    }
  }
  std::string pack() const {
    ZipWriter zip;
    for (const auto& [name, payload] : all) zip.add(name, payload);
    return zip.bytes();
  }
  /// A copy in which one entry's contents were mutated: as JSON where they are, else as bytes; rarely an entry is lost,
  /// renamed or there twice.
  std::string mutated(Random& random) const {
    Entries copy = *this;
    if (copy.all.empty()) return copy.pack();
    std::size_t which = random.below(copy.all.size());
    for (std::size_t i = 0; random.below(2) == 0 && i < copy.all.size(); ++i)  // the program more often than the rest
      if (copy.all[i].first.ends_with(".json") && copy.all[i].second.size() > copy.all[which].second.size()) which = i;
    auto& [name, payload] = copy.all[which];
    const std::size_t kind = random.below(20);
    if (kind == 0) copy.all.erase(copy.all.begin() + static_cast<std::ptrdiff_t>(which));
    else if (kind == 1) name = mutateBytes(name, random);
    else if (kind == 2) copy.all.emplace_back(std::string(name), mutateBytes(payload, random));
    else if (name.ends_with(".json")) payload = mutateJson(payload, random);
    else payload = mutateBytes(payload, random);
    return copy.pack();
  }
  std::vector<std::pair<std::string, std::string>> all;  ///< whole name, contents
};

}  // namespace spscope::testing
