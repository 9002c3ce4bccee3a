// SPDX-License-Identifier: Apache-2.0
#include "core/io/archive.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "core/base/strings.h"

namespace spscope::io {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kCentralHeader = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kEnd64Locator = 0x07064b50;

/// Reads little-endian numbers; every read is checked.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes, std::uint64_t at = 0) : bytes_(bytes), at_(at) {}
  template <typename T>
  bool read(T* out) {
    if (at_ > bytes_.size() || bytes_.size() - at_ < sizeof(T)) return false;
    std::memcpy(out, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }
  bool skip(std::uint64_t n) {
    if (at_ > bytes_.size() || bytes_.size() - at_ < n) return false;
    at_ += n;
    return true;
  }
  bool text(std::uint64_t n, std::string* out) {
    if (at_ > bytes_.size() || bytes_.size() - at_ < n) return false;
    out->assign(reinterpret_cast<const char*>(bytes_.data()) + at_, n);
    at_ += n;
    return true;
  }
  std::uint64_t at() const { return at_; }

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t at_;
};

Error corrupt(const std::string& path, std::uint64_t offset, const std::string& what) {
  Error error = makeError("archive-corrupt", what);
  error.source = path + "+" + std::to_string(offset);
  return error;
}

struct Directory {
  std::uint64_t offset = 0, size = 0, count = 0, end = 0;
};

/// Finds the end record and, where its fields are full, the Zip64 one.
Result<Directory> findDirectory(std::span<const std::byte> bytes, const std::string& path) {
  constexpr std::uint64_t kEndSize = 22;
  const auto* data = bytes.data();
  if (bytes.size() >= kEndSize) {
    const std::uint64_t lowest = bytes.size() > kEndSize + 0xffff ? bytes.size() - kEndSize - 0xffff : 0;
    for (std::uint64_t at = bytes.size() - kEndSize + 1; at-- > lowest;) {
      std::uint32_t signature = 0;
      std::memcpy(&signature, data + at, 4);
      if (signature != kEnd) continue;
      Cursor c(bytes, at + 4);
      std::uint16_t disk = 0, directory_disk = 0, here = 0, total = 0, comment = 0;
      std::uint32_t size = 0, offset = 0;
      if (!(c.read(&disk) && c.read(&directory_disk) && c.read(&here) && c.read(&total) && c.read(&size) &&
            c.read(&offset) && c.read(&comment)))
        continue;
      if (at + kEndSize + comment != bytes.size()) continue;  // the four bytes occur inside some payload
      Directory d{offset, size, total, at};
      if (total == 0xffff || size == 0xffffffffU || offset == 0xffffffffU) {
        std::uint32_t locator = 0, locator_disk = 0;
        std::uint64_t end64 = 0;
        if (at < 20) return corrupt(path, at, "the Zip64 locator before the end record is missing");
        Cursor l(bytes, at - 20);
        if (!(l.read(&locator) && locator == kEnd64Locator && l.read(&locator_disk) && l.read(&end64)))
          return corrupt(path, at - 20, "the Zip64 locator before the end record is missing");
        Cursor e(bytes, end64);
        std::uint32_t sig = 0;
        std::uint64_t record = 0, here64 = 0;
        if (!(e.read(&sig) && sig == kEnd64 && e.read(&record) && e.skip(12) && e.read(&here64) && e.read(&d.count) &&
              e.read(&d.size) && e.read(&d.offset)))
          return corrupt(path, end64, "the Zip64 end record is damaged");
      }
      return d;
    }
  }
  std::uint32_t first = 0;
  if (bytes.size() >= 4) std::memcpy(&first, data, 4);
  if (first == kLocalHeader || (bytes.size() < 4 && bytes.size() >= 2 && std::memcmp(data, "PK", 2) == 0)) {
    Error error = makeError("archive-truncated", strf("%s starts as a zip archive but has no central directory at its "
                                                      "end: the file is cut off after %zu bytes",
                                                      path.c_str(), bytes.size()));
    error.source = path + "+" + std::to_string(bytes.size());
    return error;
  }
  return makeError("archive-not-zip", path + " is " + describeForeignFile(bytes, path) +
                                          ", not a .pt2 file of torch.export.save");
}

/// Takes 64-bit sizes from the Zip64 extra field where the 32-bit ones are full.
bool readExtra64(std::span<const std::byte> extra, std::uint32_t size, std::uint32_t packed, std::uint32_t header,
                 ArchiveEntry* entry) {
  bool need = size == 0xffffffffU || packed == 0xffffffffU || header == 0xffffffffU;
  Cursor c(extra);
  std::uint16_t id = 0, length = 0;
  while (need && c.read(&id) && c.read(&length)) {
    const std::uint64_t field = c.at();
    if (extra.size() - field < length) return false;
    if (id == 1) {
      Cursor f(extra.subspan(field, length));
      if (size == 0xffffffffU && !f.read(&entry->size)) return false;
      if (packed == 0xffffffffU && !f.read(&entry->packed)) return false;
      if (header == 0xffffffffU && !f.read(&entry->header)) return false;
      need = false;
    }
    if (!c.skip(length)) return false;
  }
  return !need;
}

std::uint32_t crc32(std::span<const std::byte> bytes) {
  // Slicing by 8: about 1.5 GB/s, which a check of a whole archive needs.
  static const auto tables = [] {
    std::array<std::array<std::uint32_t, 256>, 8> t{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = (c & 1) ? 0xedb88320U ^ (c >> 1) : c >> 1;
      t[0][i] = c;
    }
    for (std::size_t s = 1; s < 8; ++s)
      for (std::size_t i = 0; i < 256; ++i) t[s][i] = (t[s - 1][i] >> 8) ^ t[0][t[s - 1][i] & 0xff];
    return t;
  }();
  std::uint32_t crc = 0xffffffffU;
  const auto* p = reinterpret_cast<const unsigned char*>(bytes.data());
  std::size_t n = bytes.size();
  while (n >= 8) {
    std::uint32_t low = 0, high = 0;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + 4, 4);
    low ^= crc;
    crc = tables[7][low & 0xff] ^ tables[6][(low >> 8) & 0xff] ^ tables[5][(low >> 16) & 0xff] ^ tables[4][low >> 24] ^
          tables[3][high & 0xff] ^ tables[2][(high >> 8) & 0xff] ^ tables[1][(high >> 16) & 0xff] ^
          tables[0][high >> 24];
    p += 8;
    n -= 8;
  }
  while (n-- > 0) crc = (crc >> 8) ^ tables[0][(crc ^ *p++) & 0xff];
  return ~crc;
}

bool endsWith(std::string_view text, std::string_view tail) {
  return text.size() >= tail.size() && text.substr(text.size() - tail.size()) == tail;
}
bool startsWith(std::string_view text, std::string_view head) { return text.substr(0, head.size()) == head; }

}  // namespace

std::string describeForeignFile(std::span<const std::byte> bytes, std::string_view path) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 64));
  std::uint64_t length = 0;
  if (bytes.size() >= 8) std::memcpy(&length, bytes.data(), 8);
  if (bytes.size() > 9 && length > 1 && length < bytes.size() && head[8] == '{') return "a safetensors file";
  if (head.size() >= 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5)
    return "a pickle (torch.save in its old format)";
  if (startsWith(head, "version https://git-lfs")) return "a Git LFS pointer (the file itself was not fetched)";
  if (startsWith(head, "GGUF")) return "a GGUF file";
  if (startsWith(head, "\x1f\x8b")) return "a gzip file";
  if (startsWith(head, "\x28\xb5\x2f\xfd")) return "a zstd file";
  if (startsWith(head, "\x89HDF")) return "an HDF5 file";
  if (startsWith(head, "\x7f" "ELF")) return "a program or library (ELF)";
  // ONNX is a protobuf whose first field is ir_version: tag 0x08, a small number, then a string field.
  if (endsWith(path, ".onnx") || (head.size() > 4 && head[0] == '\x08' && head[1] > 2 && head[1] < 16 &&
                                  (head[2] == '\x12' || head[2] == '\x3a')))
    return "an ONNX model";
  std::size_t start = 0;
  while (start < head.size() && (head[start] == ' ' || head[start] == '\n')) ++start;
  if (start < head.size() && (head[start] == '{' || head[start] == '[')) return "a JSON text";
  const bool text = std::all_of(head.begin(), head.end(), [](char c) {
    return (c >= 32 && c < 127) || c == '\n' || c == '\r' || c == '\t';
  });
  if (text) return "a text file";
  const bool zeros = std::all_of(head.begin(), head.end(), [](char c) { return c == 0; });
  if (zeros) return "a file of zeros (a download that never finished?)";
  return "not a zip archive";
}

namespace {

/// The entries of the zip archive that `bytes` are. Offsets count from the start of the file, `base` bytes before them.
Result<std::vector<ArchiveEntry>> readDirectory(std::span<const std::byte> bytes, std::uint64_t base,
                                                const std::string& path) {
  SP_ASSIGN(const Directory d, findDirectory(bytes, path));
  if (d.offset > bytes.size() || d.size > bytes.size() - d.offset) {
    // The end record is there but what it points at is not: bytes were lost (or added) in the middle.
    return corrupt(path, d.end, "the central directory lies outside the file");
  }
  if (d.count > d.size / 46) return corrupt(path, d.end, "the end record announces more entries than fit");
  const auto directory = bytes.subspan(d.offset, d.size);
  Cursor c(directory);
  std::vector<ArchiveEntry> entries;
  entries.reserve(d.count);
  for (std::uint64_t i = 0; i < d.count; ++i) {
    const std::uint64_t start = c.at();
    std::uint32_t signature = 0, crc = 0, packed = 0, size = 0, external = 0, header = 0;
    std::uint16_t name = 0, extra = 0, comment = 0, disk = 0, internal = 0, flags = 0, method = 0;
    ArchiveEntry entry;
    const bool ok = c.read(&signature) && signature == kCentralHeader && c.skip(4) && c.read(&flags) &&
                    c.read(&method) && c.skip(4) && c.read(&crc) && c.read(&packed) && c.read(&size) &&
                    c.read(&name) && c.read(&extra) && c.read(&comment) && c.read(&disk) && c.read(&internal) &&
                    c.read(&external) && c.read(&header) && c.text(name, &entry.name);
    if (!ok) return corrupt(path, d.offset + start, strf("entry %llu of the central directory is damaged",
                                                         static_cast<unsigned long long>(i)));
    entry.crc = crc;
    entry.size = size;
    entry.packed = packed;
    entry.header = header;
    entry.method = method;
    entry.flags = flags;
    const std::uint64_t extra_at = c.at();
    if (!c.skip(extra) || !readExtra64(directory.subspan(extra_at, extra), size, packed, header, &entry) ||
        !c.skip(comment))
      return corrupt(path, d.offset + start, "the extra field of " + entry.name + " is damaged");
    if (entry.header > bytes.size())
      return corrupt(path, d.offset + start, "entry " + entry.name + " starts beyond the end of the file");
    entry.header += base;
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// Takes away the one folder above everything and returns it, "" where there is none. It comes from the entries:
/// renaming the file does not change it.
std::string stripRoot(std::vector<ArchiveEntry>& entries) {
  if (entries.empty()) return {};
  const std::size_t slash = entries[0].name.find('/');
  if (slash == std::string::npos || slash == 0) return {};
  std::string root = entries[0].name.substr(0, slash);
  const bool common = std::all_of(entries.begin(), entries.end(), [&](const ArchiveEntry& e) {
    return e.name.size() > slash && e.name[slash] == '/' && e.name.compare(0, slash, root) == 0;
  });
  if (!common) return {};
  for (auto& e : entries) e.name.erase(0, slash + 1);
  return root;
}

}  // namespace

Result<std::shared_ptr<const Archive>> Archive::open(const std::string& path) {
  SP_ASSIGN(auto file, MappedFile::open(path));
  return open(std::move(file));
}

Result<std::shared_ptr<const Archive>> Archive::open(std::shared_ptr<const MappedFile> file) {
  std::shared_ptr<Archive> archive(new Archive(std::move(file)));
  SP_ASSIGN(archive->entries_, readDirectory(archive->file_->bytes(), 0, archive->path()));
  archive->root_ = stripRoot(archive->entries_);
  archive->index();
  archive->classify();
  SP_TRY(archive->openNested());
  return std::shared_ptr<const Archive>(std::move(archive));
}

void Archive::index() {
  by_name_.clear();
  for (std::size_t i = 0; i < entries_.size(); ++i) by_name_.try_emplace(entries_[i].name, i);
}

Status Archive::openNested() {
  if (kind_ != ArchiveKind::kProgramOld && kind_ != ArchiveKind::kProgramPickled) return {};
  const auto bytes = file_->bytes();
  std::vector<ArchiveEntry> all;
  for (const ArchiveEntry& e : entries_) {
    const bool tensors = kind_ == ArchiveKind::kProgramOld
                             ? e.name == "serialized_state_dict.pt" || e.name == "serialized_constants.pt"
                             : endsWith(e.name, ".pt") && (startsWith(e.name, "data/weights/") || startsWith(e.name, "data/constants/"));
    if (!tensors || find(e.name) != &e) continue;
    SP_ASSIGN(const auto payload, read(e.name));
    const auto base = static_cast<std::uint64_t>(payload.data() - bytes.data());
    SP_ASSIGN(auto inner, readDirectory(payload, base, path() + ":" + e.name));
    stripRoot(inner);
    for (ArchiveEntry& i : inner) {
      i.name = e.name + "!" + i.name;
      all.push_back(std::move(i));
    }
  }
  entries_.insert(entries_.end(), std::make_move_iterator(all.begin()), std::make_move_iterator(all.end()));
  index();  // entries_ has moved
  return {};
}

void Archive::classify() {
  for (const ArchiveEntry& e : entries_) {
    constexpr std::string_view head = "models/", tail = ".json";
    const std::string_view name = e.name;
    if (startsWith(name, head) && endsWith(name, tail) && name.size() > head.size() + tail.size())
      programs_.emplace_back(name.substr(head.size(), name.size() - head.size() - tail.size()));
  }
  const auto any = [&](auto&& f) { return std::any_of(entries_.begin(), entries_.end(), f); };
  if (find("serialized_exported_program.json")) {
    kind_ = ArchiveKind::kProgramOld;
    description_ = "an exported program of torch 2.7 or older";
    programs_ = {"model"};
  } else if (!programs_.empty()) {
    const bool pickled = any([](const ArchiveEntry& e) {
      return startsWith(e.name, "data/weights/") && endsWith(e.name, ".pt");
    });
    kind_ = pickled ? ArchiveKind::kProgramPickled : ArchiveKind::kProgram;
    description_ = pickled ? "an exported program of torch 2.8" : "an exported program";
  } else if (any([](const ArchiveEntry& e) { return startsWith(e.name, "code/"); }) && find("data.pkl")) {
    description_ = "a TorchScript archive (torch.jit.save)";
  } else if (any([](const ArchiveEntry& e) { return startsWith(e.name, "data/aotinductor/"); })) {
    description_ = "an AOTInductor package (compiled code without its graph)";
  } else if (find("data.pkl")) {
    description_ = "a state dict or pickled object (torch.save)";
  } else {
    description_ = entries_.empty() ? "an empty zip archive" : "a zip archive without an exported program";
  }
}

const ArchiveEntry* Archive::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &entries_[it->second];
}

Result<std::span<const std::byte>> Archive::read(std::string_view name) const {
  const ArchiveEntry* entry = find(name);
  if (!entry) return makeError("archive-entry-missing", path() + " holds no entry " + std::string(name));
  if (entry->flags & 1) return makeError("archive-encrypted", "entry " + entry->name + " is encrypted");
  if (entry->method != 0)
    return makeError("archive-compressed", strf("entry %s is compressed (zip method %u); torch.export.save stores "
                                                "its entries, so this archive was packed again",
                                                entry->name.c_str(), entry->method));
  const auto bytes = file_->bytes();
  Cursor c(bytes, entry->header);
  std::uint32_t signature = 0;
  std::uint16_t name_length = 0, extra_length = 0;
  if (!(c.read(&signature) && signature == kLocalHeader && c.skip(22) && c.read(&name_length) &&
        c.read(&extra_length) && c.skip(static_cast<std::uint64_t>(name_length) + extra_length)))
    return corrupt(path(), entry->header, "the header of entry " + entry->name + " is damaged");
  if (entry->packed != entry->size || entry->size > bytes.size() - c.at())
    return corrupt(path(), entry->header, "entry " + entry->name + " reaches beyond the end of the file");
  return bytes.subspan(c.at(), entry->size);
}

std::size_t Archive::slackAfter(std::span<const std::byte> payload) const {
  const auto bytes = file_->bytes();
  return static_cast<std::size_t>((bytes.data() + bytes.size()) - (payload.data() + payload.size()));
}

Status Archive::checkCrcs() const {
  for (const ArchiveEntry& e : entries_) {
    SP_ASSIGN(const auto payload, read(e.name));
    if (crc32(payload) != e.crc) {
      Error error = makeError("archive-crc", strf("entry %s does not match its checksum: the file was damaged",
                                                  e.name.c_str()), Outcome::kNo);
      error.source = path() + "+" + std::to_string(e.header);
      return error;
    }
  }
  return {};
}

}  // namespace spscope::io
