// SPDX-License-Identifier: Apache-2.0
#include "profiler/import/import.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <string_view>

#include "profiler/import/byte_source.h"
#include "profiler/import/chrome_reader.h"
#include "profiler/import/merge.h"
#include "profiler/import/nsys_reader.h"
#include "profiler/store/store.h"

namespace spscope::trace {
namespace {

constexpr std::string_view kSqlite{"SQLite format 3\0", 16};
constexpr std::string_view kGzip{"\x1f\x8b", 2};

bool startsWith(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

/// What else people have at hand.
Error unknown(const std::string& name, std::string_view head) {
  Error error = makeError("trace-unreadable", name + " is neither JSON, gzip nor an SQLite database");
  if (name.size() > 9 && name.substr(name.size() - 9) == ".nsys-rep") {
    error.message = name + " is an Nsight Systems report, which only nsys reads";
    error.remedy = "nsys export --type sqlite -o trace.sqlite " + name;
  } else if (startsWith(head, "PK")) {
    error.message = name + " is a zip archive";
    error.remedy = "Unpack it; of archives only gzip is read.";
  }
  return error;
}

/// JSON out of `source`, which is at its beginning.
Result<Trace> readText(ByteSource& source, const std::string& name, std::string_view head, const ImportOptions& options) {
  const auto first = head.find_first_not_of(" \n\r\t\xef\xbb\xbf");
  if (first != std::string_view::npos && head[first] != '{' && head[first] != '[') return unknown(name, head);
  return readChrome(source, name, options);
}

std::string propertyOf(const Trace& trace, const char* name) {
  const auto it = trace.properties.find(name);
  return it == trace.properties.end() ? std::string() : it->second;
}

/// Files of several runs, or one file twice: no figure over them would mean anything.
Status checkOneRun(const std::vector<std::string>& paths, const std::vector<Trace>& traces) {
  const auto clash = [](const std::string& a, const std::string& b, const std::string& why) {
    return makeError("trace-ranks-clash", a + " and " + b + " are not the ranks of one run: " + why);
  };
  std::map<std::int64_t, std::size_t> file_of_rank;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      std::error_code cannot_tell;
      if (std::filesystem::equivalent(paths[j], paths[i], cannot_tell)) return clash(paths[j], paths[i], "they are the same file");
      const std::string a = propertyOf(traces[j], "plan_hash"), b = propertyOf(traces[i], "plan_hash");
      if (!a.empty() && !b.empty() && a != b) return clash(paths[j], paths[i], "their plans differ (" + a + ", " + b + ")");
    }
    for (const Rank& rank : traces[i].ranks) {
      if (rank.number == kUnknown) continue;
      const auto [it, fresh] = file_of_rank.try_emplace(rank.number, i);
      if (!fresh && it->second != i) return clash(paths[it->second], paths[i], "both hold rank " + std::to_string(rank.number));
    }
  }
  return {};
}

}  // namespace

Result<Trace> importTrace(const std::string& path, const ImportOptions& options) {
  SP_TRY(options.cancel.check());
  std::array<char, 64> head{};
  std::string_view begin;
  {
    SP_ASSIGN(const auto file, openFile(path));
    SP_ASSIGN(const std::size_t got, file->read(head));
    begin = {head.data(), got};
  }
  if (startsWith(begin, kSqlite)) {
    if (isStore(path)) return readStore(path, options.progress, options.cancel);
    return readNsys(path, options);
  }
  SP_ASSIGN(auto source, openFile(path));
  if (!startsWith(begin, kGzip)) return readText(*source, path, begin, options);
  source = gunzip(std::move(source));
  return readChrome(*source, path, options);
}

Result<Trace> importBytes(std::span<const std::byte> bytes, const std::string& name, const ImportOptions& options) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.empty()) return makeError("file-empty", name + " has no bytes");
  if (startsWith(text, kSqlite)) return readNsysBytes(bytes, name, options);
  auto source = bytesInMemory(bytes);
  if (!startsWith(text, kGzip)) return readText(*source, name, text.substr(0, 64), options);
  source = gunzip(std::move(source));
  return readChrome(*source, name, options);
}

Result<Trace> importTraces(const std::vector<std::string>& paths, const ImportOptions& options) {
  std::vector<Trace> traces;
  for (const std::string& path : paths) {
    SP_ASSIGN(Trace trace, importTrace(path, options));
    traces.push_back(std::move(trace));
  }
  SP_TRY(checkOneRun(paths, traces));
  // Shells sort rank10 before rank2.
  const bool numbered = std::all_of(traces.begin(), traces.end(), [](const Trace& t) { return t.ranks.size() == 1 && t.ranks[0].number != kUnknown; });
  if (numbered) std::stable_sort(traces.begin(), traces.end(), [](const Trace& a, const Trace& b) { return a.ranks[0].number < b.ranks[0].number; });
  return mergeTraces(std::move(traces));
}

}  // namespace spscope::trace
