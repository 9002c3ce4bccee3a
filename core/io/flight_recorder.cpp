// SPDX-License-Identifier: Apache-2.0
#include "core/io/flight_recorder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include "core/base/strings.h"
#include "core/io/mapped_file.h"
#include "core/io/plain_data.h"

namespace spscope::io {
namespace {

using Kind = PlainItem::Kind;
constexpr int kMostRanks = 1 << 20;

std::optional<std::int64_t> wholeNumber(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

/// Looks things up in plain data within a number of steps: a pickle of a megabyte can name one list a million times.
class Walker {
 public:
  Walker(const PlainData& data, std::int64_t steps) : data_(data), steps_(steps) {}
  bool exhausted() const { return steps_ < 0; }

  /// The value of a dictionary's key; nullptr where there is none.
  const PlainItem* at(const PlainItem* dict, std::string_view key) {
    if (!dict || dict->kind != Kind::kDict) return nullptr;
    for (std::size_t i = dict->items.size(); i >= 2; i -= 2) {  // of equal keys Python keeps the last
      if (--steps_ < 0) return nullptr;
      const PlainItem& k = data_[dict->items[i - 2]];
      if (k.kind == Kind::kText && k.text == key) return &data_[dict->items[i - 1]];
    }
    return nullptr;
  }
  /// The parts of a list or dictionary, as many as the steps allow.
  std::vector<const PlainItem*> parts(const PlainItem* list) {
    std::vector<const PlainItem*> out;
    if (!list || (list->kind != Kind::kList && list->kind != Kind::kDict)) return out;
    for (const std::uint32_t i : list->items) {
      if (--steps_ < 0) break;
      out.push_back(&data_[i]);
    }
    return out;
  }
  std::optional<std::int64_t> integer(const PlainItem* item) {
    if (!item) return {};
    if (item->kind == Kind::kInt || item->kind == Kind::kBool) return item->number;
    if (item->kind == Kind::kText) return wholeNumber(item->text);  // the JSON form writes pg_status so
    return {};
  }
  std::string longText(const PlainItem* item) {
    if (!item || item->kind != Kind::kText) return {};
    steps_ -= static_cast<std::int64_t>(item->text.size() / 4);
    return steps_ < 0 ? std::string() : item->text;
  }
  std::string text(const PlainItem* item) {
    if (!item || item->kind != Kind::kText) return {};
    steps_ -= static_cast<std::int64_t>(std::min<std::size_t>(item->text.size(), 1024) / 4);
    // Names go to terminals and tables: no control character, and no more of one than a line takes.
    std::string out = item->text.substr(0, 1024);
    std::replace_if(out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
    return out;
  }

 private:
  const PlainData& data_;
  std::int64_t steps_;
};

class Reader {
 public:
  Reader(const PlainData& data, std::int64_t steps, const std::string& path) : data_(data), walk_(data, steps), path_(path) {}

  Result<RecorderDump> read(std::optional<int> rank) {
    const PlainItem* root = &data_[data_.root];
    const PlainItem* entries = walk_.at(root, "entries");
    if (!entries || entries->kind != Kind::kList)
      return makeError("recorder-format", path_ + ": it has no list of entries, as a dump of the Flight Recorder has");
    RecorderDump out;
    out.path = path_;
    out.version = walk_.text(walk_.at(root, "version"));
    out.comm_lib_version = walk_.text(walk_.at(root, "comm_lib_version"));
    if (out.comm_lib_version.empty()) out.comm_lib_version = walk_.text(walk_.at(root, "nccl_version"));
    out.host = walk_.text(walk_.at(root, "host_name"));
    if (const auto own = walk_.integer(walk_.at(root, "rank"))) rank = *own >= 0 && *own < kMostRanks ? std::optional(static_cast<int>(*own)) : std::nullopt;
    if (!rank) return makeError("recorder-ranks", path_ + ": its name does not end in the number of a rank, and it holds none");
    out.rank = *rank;
    if (!out.version.starts_with("2.") && !out.version.empty())
      return makeError("recorder-format", path_ + ": version " + out.version.substr(0, 40) + " of the format is not known; 2.0 to 2.10 are");
    groups(walk_.at(root, "pg_config"), &out);
    const auto status = walk_.at(root, "pg_status");
    for (const PlainItem* entry : walk_.parts(entries)) {
      RecordedOp op;
      if (readOp(entry, status, &op)) out.ops.push_back(std::move(op));
      else ++out.unreadable_ops;
    }
    if (walk_.exhausted()) return makeError("recorder-format", path_ + ": it says the same things again and again, more than such a file has room for");
    std::stable_sort(out.ops.begin(), out.ops.end(), [](const RecordedOp& a, const RecordedOp& b) { return a.record < b.record; });
    return out;
  }

 private:
  /// "[0, 1, 2, 3]", or a list.
  std::vector<int> ranks(const PlainItem* item) {
    std::vector<int> out;
    const auto add = [&](std::optional<std::int64_t> r) {
      if (r && *r >= 0 && *r < kMostRanks) out.push_back(static_cast<int>(*r));
    };
    if (item && item->kind == Kind::kText) {
      std::string list = walk_.longText(item);
      std::erase_if(list, [](char c) { return c == '[' || c == ']' || c == ' '; });
      for (const std::string& part : split(list, ',')) add(wholeNumber(part));
    } else {
      for (const PlainItem* part : walk_.parts(item)) add(walk_.integer(part));
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  void groups(const PlainItem* config, RecorderDump* out) {
    const auto parts = walk_.parts(config && config->kind == Kind::kDict ? config : nullptr);
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
      const std::string name = walk_.text(parts[i]);
      if (auto members = ranks(walk_.at(parts[i + 1], "ranks")); !members.empty()) out->groups[name] = std::move(members);
    }
  }

  std::vector<std::vector<std::int64_t>> sizes(const PlainItem* list) {
    std::vector<std::vector<std::int64_t>> out;
    for (const PlainItem* shape : walk_.parts(list)) {
      auto& dims = out.emplace_back();
      for (const PlainItem* dim : walk_.parts(shape)) dims.push_back(walk_.integer(dim).value_or(-1));
    }
    return out;
  }
  std::vector<std::string> texts(const PlainItem* list) {
    std::vector<std::string> out;
    for (const PlainItem* part : walk_.parts(list)) out.push_back(walk_.text(part));
    return out;
  }
  std::int64_t number(const PlainItem* entry, std::string_view key, std::int64_t otherwise = 0) {
    return walk_.integer(walk_.at(entry, key)).value_or(otherwise);
  }

  /// "nccl:all_reduce", "nccl:send 0->1", "nccl:recv 1<-0", "gloo:recv 1<-?"
  static bool readName(const std::string& name, RecordedOp* op) {
    const std::size_t colon = name.rfind(':');
    if (colon == std::string::npos || colon + 1 == name.size()) return false;
    op->backend = name.substr(0, colon);
    const std::size_t space = name.find(' ', colon);
    op->op = name.substr(colon + 1, space == std::string::npos ? space : space - colon - 1);
    if (space == std::string::npos) return !op->op.empty();
    const std::string pair = name.substr(space + 1);
    const std::size_t arrow = pair.find_first_of("-<");
    if (arrow == std::string::npos || arrow + 2 > pair.size()) return true;
    const auto rank = [](std::string_view text) {
      const auto r = wholeNumber(text);
      return r && *r >= 0 && *r < kMostRanks ? static_cast<int>(*r) : -1;
    };
    const int left = rank(std::string_view(pair).substr(0, arrow)), right = rank(std::string_view(pair).substr(arrow + 2));
    op->source = pair[arrow] == '-' ? left : right;
    op->target = pair[arrow] == '-' ? right : left;
    return true;
  }

  bool readOp(const PlainItem* entry, const PlainItem* status, RecordedOp* op) {
    if (!entry || entry->kind != Kind::kDict || !readName(walk_.text(walk_.at(entry, "profiling_name")), op)) return false;
    op->record = number(entry, "record_id", -1);
    op->is_p2p = number(entry, "is_p2p") != 0 || op->op == "send" || op->op == "recv";
    // Versions before 2.2 had one number for both.
    op->seq = number(entry, op->is_p2p ? "p2p_seq_id" : "collective_seq_id", number(entry, "seq_id", -1));
    if (op->record < 0 || op->seq < 0) return false;
    op->pg_id = number(entry, "pg_id", -1);
    const auto group = walk_.parts(walk_.at(entry, "process_group"));
    if (!group.empty()) op->group = walk_.text(group[0]);
    if (group.size() > 1) op->group_desc = walk_.text(group[1]);
    if (op->group.empty()) op->group = std::to_string(op->pg_id);
    op->input_sizes = sizes(walk_.at(entry, "input_sizes"));
    op->output_sizes = sizes(walk_.at(entry, "output_sizes"));
    op->input_dtypes = texts(walk_.at(entry, "input_dtypes"));
    op->output_dtypes = texts(walk_.at(entry, "output_dtypes"));
    op->state = walk_.text(walk_.at(entry, "state"));
    op->retired = number(entry, "retired") != 0;
    op->created_ns = std::max<std::int64_t>(0, number(entry, "time_created_ns"));
    op->started_ns = std::max<std::int64_t>(0, number(entry, "time_discovered_started_ns"));
    op->completed_ns = std::max<std::int64_t>(0, number(entry, "time_discovered_completed_ns"));
    op->timeout_ms = std::max<std::int64_t>(0, number(entry, "timeout_ms"));
    for (const PlainItem* frame : walk_.parts(walk_.at(entry, "frames")))
      op->frames.push_back({walk_.text(walk_.at(frame, "name")), walk_.text(walk_.at(frame, "filename")), number(frame, "line")});
    const bool stateless = op->backend == "gloo" || op->backend == "c10d" || op->backend == "mpi" || op->backend == "ucc";
    const std::int64_t last_completed = op->is_p2p ? -1 : number(walk_.at(status, std::to_string(op->pg_id)), "last_completed_collective", -1);
    op->completed = op->state == "completed" || op->completed_ns > 0 || (stateless && op->retired) || op->seq <= last_completed;
    return !walk_.exhausted();
  }

  const PlainData& data_;
  Walker walk_;
  const std::string& path_;
};

/// "nccl_trace_rank_12.json" → ("nccl_trace_rank_", 12)
std::optional<std::pair<std::string, int>> rankOfName(std::string name) {
  for (const char* end : {".json", ".pickle", ".pkl"})
    if (name.ends_with(end)) name.resize(name.size() - std::string_view(end).size());
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;  // npos + 1 is 0
  const auto rank = wholeNumber(std::string_view(name).substr(digits));
  if (!rank || *rank >= kMostRanks) return {};
  return std::pair(name.substr(0, digits), static_cast<int>(*rank));
}

}  // namespace

Result<RecorderDump> readFlightRecorder(std::span<const std::byte> bytes, const std::string& path, std::optional<int> rank) {
  if (bytes.empty()) return makeError("recorder-format", path + ": the dump is empty");
  // A pickle begins with its protocol; JSON with a brace, maybe behind blanks.
  const bool pickled = !bytes.empty() && bytes[0] == std::byte{0x80};
  SP_ASSIGN(const PlainData data, pickled ? readPlainPickle(bytes, path) : readPlainJson(bytes, path));
  // An entry takes 300 steps or so without its frames and at least 120 bytes, whatever it shares with others.
  return Reader(data, 1'000'000 + 8 * static_cast<std::int64_t>(bytes.size()), path).read(rank);
}

Result<std::vector<RecorderDump>> readFlightRecorders(const std::vector<std::string>& paths, const std::string& prefix) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code failed;
    if (!std::filesystem::is_directory(path, failed)) {
      files.push_back(path);
      continue;
    }
    std::set<std::string> prefixes;
    std::vector<std::string> inside;
    for (std::filesystem::directory_iterator it(path, failed), end; !failed && it != end; it.increment(failed)) {
      const std::string name = it->path().filename().string();
      const auto known = rankOfName(name);
      if (!known || !name.starts_with(prefix) || !it->is_regular_file(failed)) continue;
      prefixes.insert(known->first);
      inside.push_back(it->path().string());
    }
    if (failed) return makeError("file-unreadable", path + ": " + failed.message());
    if (inside.empty()) return makeError("recorder-ranks", path + ": no file in it is named after a rank" + (prefix.empty() ? "" : " and begins with " + prefix));
    if (prefixes.size() > 1)
      return makeError("recorder-ranks", path + ": its files have several prefixes (" + *prefixes.begin() + ", " + *std::next(prefixes.begin()) + "); --prefix chooses one");
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  std::vector<RecorderDump> out;
  for (const std::string& path : files) {
    SP_ASSIGN(const auto file, MappedFile::open(path));
    const auto named = rankOfName(std::filesystem::path(path).filename().string());
    SP_ASSIGN(RecorderDump dump, readFlightRecorder(file->bytes(), path, named ? std::optional(named->second) : std::nullopt));
    out.push_back(std::move(dump));
  }
  std::stable_sort(out.begin(), out.end(), [](const RecorderDump& a, const RecorderDump& b) { return a.rank < b.rank; });
  for (std::size_t i = 1; i < out.size(); ++i)
    if (out[i].rank == out[i - 1].rank)
      return makeError("recorder-ranks", strf("%s and %s are both of rank %d", out[i - 1].path.c_str(), out[i].path.c_str(), out[i].rank));
  return out;
}

}  // namespace spscope::io
