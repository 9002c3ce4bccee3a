// SPDX-License-Identifier: Apache-2.0
#include "core/io/npy.h"

#include "core/base/new_file.h"
#include "core/base/strings.h"

namespace spscope::io {

std::string npyType(ir::DType type) {
  using D = ir::DType;
  switch (type) {
    case D::kBool: return "|b1";
    case D::kU8: return "|u1";
    case D::kI8: return "|i1";
    case D::kU16: return "<u2";
    case D::kU32: return "<u4";
    case D::kU64: return "<u8";
    case D::kI16: return "<i2";
    case D::kI32: return "<i4";
    case D::kI64: return "<i8";
    case D::kF16: return "<f2";
    case D::kF32: return "<f4";
    case D::kF64: return "<f8";
    case D::kC64: return "<c8";
    case D::kC128: return "<c16";
    default: return {};
  }
}

Status writeNpy(const std::string& path, ir::DType type, const ir::Dims& shape, std::span<const std::byte> bytes) {
  const std::string name = npyType(type);
  if (name.empty()) return makeError("tensor-mismatch", "NumPy has no " + std::string(ir::longName(type)));
  if (static_cast<std::int64_t>(bytes.size()) != ir::numel(shape) * ir::sizeOf(type))
    return makeError("tensor-mismatch", strf("%zu bytes are given for the shape [%s]", bytes.size(), join(shape, ", ").c_str()));
  std::string header = "{'descr': '" + name + "', 'fortran_order': False, 'shape': (" + join(shape, ", ") + (shape.size() == 1 ? ",), }" : "), }");
  constexpr std::size_t kPrefix = 10;  // magic, version, length of the header
  while ((kPrefix + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string prefix = std::string("\x93NUMPY\x01\x00", 8);
  prefix += static_cast<char>(header.size() & 0xff);
  prefix += static_cast<char>(header.size() >> 8);
  const std::string_view parts[] = {prefix, header, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
  return writeWholeFile(path, parts);
}

}  // namespace spscope::io
