// SPDX-License-Identifier: Apache-2.0
// Writes small stored zip archives as torch.export.save lays them out (sizes in the central directory only), and
// wrong ones: compressed, encrypted, Zip64. For tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace spscope::testing {

class ZipWriter {
 public:
  bool zip64 = false;        ///< sizes and offsets in Zip64 fields
  std::string comment;       ///< behind the end record

  void add(const std::string& name, std::string payload, std::uint16_t method = 0, std::uint16_t flags = 0x808) {
    entries_.push_back({name, std::move(payload), method, flags, 0});
  }

  std::string bytes() {
    std::string out;
    for (Entry& e : entries_) {
      e.header = out.size();
      u32(out, 0x04034b50);
      u16(out, 20); u16(out, e.flags); u16(out, e.method); u32(out, 0);
      u32(out, 0); u32(out, 0); u32(out, 0);  // crc and sizes stand in the central directory
      u16(out, e.name.size());
      const std::size_t data = out.size() + 2 + e.name.size();
      const std::size_t pad = (64 - (data + 4) % 64) % 64;
      u16(out, 4 + pad);
      out += e.name;
      out += "FB";
      u16(out, pad);
      out.append(pad, 'Z');
      out += e.payload;
    }
    const std::uint64_t start = out.size();
    for (const Entry& e : entries_) {
      u32(out, 0x02014b50);
      u16(out, 20); u16(out, 20); u16(out, e.flags); u16(out, e.method); u32(out, 0);
      u32(out, crc(e.payload));
      u32(out, zip64 ? 0xffffffffU : e.payload.size());
      u32(out, zip64 ? 0xffffffffU : e.payload.size());
      u16(out, e.name.size());
      u16(out, zip64 ? 28 : 0);
      u16(out, 0); u16(out, 0); u16(out, 0); u32(out, 0);
      u32(out, zip64 ? 0xffffffffU : e.header);
      out += e.name;
      if (zip64) {
        u16(out, 1); u16(out, 24);
        u64(out, e.payload.size()); u64(out, e.payload.size()); u64(out, e.header);
      }
    }
    const std::uint64_t size = out.size() - start;
    if (zip64) {
      const std::uint64_t end64 = out.size();
      u32(out, 0x06064b50); u64(out, 44); u16(out, 45); u16(out, 45); u32(out, 0); u32(out, 0);
      u64(out, entries_.size()); u64(out, entries_.size()); u64(out, size); u64(out, start);
      u32(out, 0x07064b50); u32(out, 0); u64(out, end64); u32(out, 1);
    }
    u32(out, 0x06054b50); u16(out, 0); u16(out, 0);
    u16(out, zip64 ? 0xffff : entries_.size()); u16(out, zip64 ? 0xffff : entries_.size());
    u32(out, zip64 ? 0xffffffffU : size); u32(out, zip64 ? 0xffffffffU : start);
    u16(out, comment.size());
    return out + comment;
  }

 private:
  struct Entry {
    std::string name, payload;
    std::uint16_t method, flags;
    std::uint64_t header;
  };
  static void u16(std::string& out, std::uint64_t v) { little(out, v, 2); }
  static void u32(std::string& out, std::uint64_t v) { little(out, v, 4); }
  static void u64(std::string& out, std::uint64_t v) { little(out, v, 8); }
  static void little(std::string& out, std::uint64_t v, int n) {
    for (int i = 0; i < n; ++i) out += static_cast<char>(v >> (8 * i) & 0xff);
  }
  static std::uint32_t crc(const std::string& s) {
    std::uint32_t c = 0xffffffffU;
    for (const char ch : s) {
      c ^= static_cast<unsigned char>(ch);
      for (int k = 0; k < 8; ++k) c = (c & 1) ? 0xedb88320U ^ (c >> 1) : c >> 1;
    }
    return ~c;
  }
  std::vector<Entry> entries_;
};

/// A folder of its own that goes with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "spscope-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name, const std::string& bytes) const {
    const std::string full = path_ + "/" + name;
    std::ofstream(full, std::ios::binary) << bytes;
    return full;
  }

 private:
  std::string path_;
};

}  // namespace spscope::testing
