// SPDX-License-Identifier: Apache-2.0
// The zip container of a .pt2 file. PyTorch stores every entry uncompressed and writes sizes only to the central
// directory, so that is what we read; payloads are handed out as spans of the mapped file, without copying.
// Zip64 is read. Not for zip files in general: no compression, no encryption, no archives in several parts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"
#include "core/io/mapped_file.h"

namespace spscope::io {

struct ArchiveEntry {
  std::string name;          ///< below the root folder: "models/model.json"
  std::uint64_t header = 0;  ///< offset of the local header in the file
  std::uint64_t size = 0;    ///< bytes of the payload
  std::uint64_t packed = 0;  ///< bytes in the file; differs from `size` only where the entry is compressed
  std::uint32_t crc = 0;
  std::uint16_t method = 0;  ///< 0: stored
  std::uint16_t flags = 0;
};

/// What kind of file a zip is, by its entries.
enum class ArchiveKind : std::uint8_t {
  kProgram,        ///< torch.export, records of weights (torch 2.9 and later)
  kProgramPickled, ///< torch.export of torch 2.8: as above, weights as one file of torch.save
  kProgramOld,     ///< torch.export up to torch 2.7: no root folder, files of torch.save
  kOther,          ///< something else; `describe()` says what
};

class Archive {
 public:
  /// Reads the central directory only. Errors: those of MappedFile, archive-not-zip, archive-truncated,
  /// archive-corrupt. A zip of any kind opens; see `kind()`.
  static Result<std::shared_ptr<const Archive>> open(const std::string& path);
  static Result<std::shared_ptr<const Archive>> open(std::shared_ptr<const MappedFile> file);

  const std::string& path() const { return file_->path(); }
  std::uint64_t fileSize() const { return file_->size(); }
  /// The one folder that holds everything (the stem of the file when it was saved); "" where there is none.
  const std::string& root() const { return root_; }
  /// All entries. Files of torch.save that hold weights are zip archives themselves; their entries follow as
  /// "data/weights/model.pt!data/0" (below their own root folder), with offsets in this file.
  const std::vector<ArchiveEntry>& entries() const { return entries_; }
  const ArchiveEntry* find(std::string_view name) const;
  /// Payload of an entry. It may stand at any alignment. Errors: archive-entry-missing, archive-compressed,
  /// archive-encrypted, archive-corrupt.
  Result<std::span<const std::byte>> read(std::string_view name) const;
  /// Bytes of the mapping after the payload that may be read (not used) by parsers that want padding.
  std::size_t slackAfter(std::span<const std::byte> payload) const;

  ArchiveKind kind() const { return kind_; }
  /// "a TorchScript archive (torch.jit.save)", "a state dict (torch.save)" ...
  const std::string& description() const { return description_; }
  /// Names of the programs: models/<name>.json.
  const std::vector<std::string>& programs() const { return programs_; }

  /// Compares every entry's payload with its CRC-32; reads the whole file. Errors: archive-crc (first that differs).
  Status checkCrcs() const;

 private:
  explicit Archive(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {}
  Status openNested();
  void index();
  void classify();

  std::shared_ptr<const MappedFile> file_;
  std::string root_, description_;
  ArchiveKind kind_ = ArchiveKind::kOther;
  std::vector<ArchiveEntry> entries_;
  std::vector<std::string> programs_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

/// What a file that is no zip looks like: "a safetensors file", "an ONNX model" ... by its first bytes and name.
std::string describeForeignFile(std::span<const std::byte> bytes, std::string_view path);

}  // namespace spscope::io
