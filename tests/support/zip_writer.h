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
    entries_.push_back({name, std::move(payload), method, flags, 0, 0});
  }
  /// An entry of `size` zeros that write() leaves out of the file's blocks. Its checksum is not right.
  void addHole(const std::string& name, std::uint64_t size) { entries_.push_back({name, {}, 0, 0x808, size, 0}); }

  std::string bytes() {
    std::string out;
    for (Entry& e : entries_) {
      e.header = out.size();
      out += localHeader(e) + e.payload;
      out.append(e.hole, '\0');
    }
    return out + directory(out.size());
  }

  /// Writes the archive with its holes as holes: many GiB that take no disk.
  bool write(const std::string& path) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    std::uint64_t at = 0;
    for (Entry& e : entries_) {
      e.header = at;
      const std::string head = localHeader(e) + e.payload;
      file.seekp(static_cast<std::streamoff>(at));
      file.write(head.data(), static_cast<std::streamsize>(head.size()));
      at += head.size() + e.hole;
    }
    file.seekp(static_cast<std::streamoff>(at));
    file << directory(at);
    file.close();
    return file.good();
  }

 private:
  struct Entry {
    std::string name, payload;
    std::uint16_t method, flags;
    std::uint64_t hole;    ///< zeros behind the payload
    std::uint64_t header;
    std::uint64_t size() const { return payload.size() + hole; }
  };
  static std::string localHeader(const Entry& e) {
    std::string out;
    u32(out, 0x04034b50);
    u16(out, 20); u16(out, e.flags); u16(out, e.method); u32(out, 0);
    u32(out, 0); u32(out, 0); u32(out, 0);  // crc and sizes stand in the central directory
    u16(out, e.name.size());
    const std::size_t data = e.header + out.size() + 2 + e.name.size();
    const std::size_t pad = (64 - (data + 4) % 64) % 64;
    u16(out, 4 + pad);
    out += e.name;
    out += "FB";
    u16(out, pad);
    out.append(pad, 'Z');
    return out;
  }
  /// The central directory, as it stands `start` bytes into the file, and the end records.
  std::string directory(std::uint64_t start) const {
    constexpr std::uint64_t kFull = 0xffffffffU;
    std::string out;
    for (const Entry& e : entries_) {
      // As PyTorch does: a field moves to the extra field where it does not fit.
      const bool big = zip64 || e.size() >= kFull, far = zip64 || e.header >= kFull;
      std::string extra;
      if (big) u64(extra, e.size()), u64(extra, e.size());
      if (far) u64(extra, e.header);
      u32(out, 0x02014b50);
      u16(out, 20); u16(out, 20); u16(out, e.flags); u16(out, e.method); u32(out, 0);
      u32(out, crc(e.payload));
      u32(out, big ? kFull : e.size());
      u32(out, big ? kFull : e.size());
      u16(out, e.name.size());
      u16(out, extra.empty() ? 0 : extra.size() + 4);
      u16(out, 0); u16(out, 0); u16(out, 0); u32(out, 0);
      u32(out, far ? kFull : e.header);
      out += e.name;
      if (!extra.empty()) {
        u16(out, 1); u16(out, extra.size());
        out += extra;
      }
    }
    const std::uint64_t size = out.size();
    const bool far = zip64 || start >= kFull;
    if (far) {
      const std::uint64_t end64 = start + out.size();
      u32(out, 0x06064b50); u64(out, 44); u16(out, 45); u16(out, 45); u32(out, 0); u32(out, 0);
      u64(out, entries_.size()); u64(out, entries_.size()); u64(out, size); u64(out, start);
      u32(out, 0x07064b50); u32(out, 0); u64(out, end64); u32(out, 1);
    }
    u32(out, 0x06054b50); u16(out, 0); u16(out, 0);
    u16(out, far ? 0xffff : entries_.size()); u16(out, far ? 0xffff : entries_.size());
    u32(out, far ? kFull : size); u32(out, far ? kFull : start);
    u16(out, comment.size());
    return out + comment;
  }
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

}  // namespace spscope::testing
